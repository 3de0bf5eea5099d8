//! Memory: how much is free, how much a job uses, and whether a job failed for lack of memory, for which there is no
//! exit code.

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

/// Evidence that a job failed for lack of memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutOfMemory {
    /// The job printed it: the line, about memory of the machine or of a device.
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

/// Facts about the end of a job that the verdict needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct End<'a> {
    /// Whether it ended otherwise than with exit code 0.
    pub(crate) failed: bool,
    /// Whether it ended by a SIGKILL that this process did not send, or with a shell's exit code for that.
    pub(crate) killed: bool,
    /// The end of its log.
    pub(crate) text: &'a str,
}

/// Decides whether a job failed for lack of memory. Its own message comes first, because it tells users what was too
/// large. Otherwise the kernel's count is proof for a group that contains only this job; for a shared group it is proof
/// only if the job was killed.
pub(crate) fn judge(end: End<'_>, groups: &Watched) -> Option<OutOfMemory> {
    if !end.failed {
        return None;
    }
    said(end.text)
        .map(OutOfMemory::Said)
        .or_else(|| groups.full(end.killed).map(OutOfMemory::Killed))
}
