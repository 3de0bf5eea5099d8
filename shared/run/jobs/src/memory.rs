//! Memory: how much is free, how much a job uses, and whether a job ended for lack of it. There is no exit code for
//! that.

mod groups;
mod machine;
mod text;
mod used;

use std::fmt;
use std::path::PathBuf;

pub(crate) use self::groups::{Watched, peak};
pub use self::machine::Ram;
use self::text::said;
pub use self::used::{MemoryMeter, MemoryUse};

/// How it was recognised that a job failed for lack of memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutOfMemory {
    /// It said so: the line, of the memory of the machine or of a device.
    Said(String),
    /// The kernel killed one of its processes because this control group was full.
    Killed(PathBuf),
}

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Said(line) => write!(f, "it said {line:?}"),
            Self::Killed(group) => write!(
                f,
                "the kernel killed it because the memory of the control group {} was used up",
                group.display()
            ),
        }
    }
}

/// How a job ended, as far as it matters here.
#[derive(Debug, Clone, Copy)]
pub(crate) struct End<'a> {
    /// Whether it ended otherwise than with exit code 0.
    pub(crate) failed: bool,
    /// Whether it ended by SIGKILL that this process did not send, or with a shell's code for that.
    pub(crate) killed: bool,
    /// The end of its log.
    pub(crate) text: &'a str,
}

/// The one verdict on memory. What a job says comes first, because people know from it what was too large. Then the
/// kernel's count of a group with only this job in it is proof, and that of one shared with others is proof if the
/// job was killed.
pub(crate) fn judge(end: End<'_>, groups: &Watched) -> Option<OutOfMemory> {
    if !end.failed {
        return None;
    }
    said(end.text)
        .map(OutOfMemory::Said)
        .or_else(|| groups.full(end.killed).map(OutOfMemory::Killed))
}
