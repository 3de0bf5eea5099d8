//! Events that a policy receives.

use std::fmt;

use doc::ProcessEnd;
use jobs::{Exit, OutOfMemory, Steps};

/// Event of a process that still runs.
#[derive(Debug, Clone, PartialEq)]
pub enum Happened {
    /// It is on standby, see [`crate::Runner::suspend`].
    Loaded,
    /// It is warm, and its share was applied.
    Ready,
    /// It reported training steps.
    Steps {
        /// It had not reported before that it is ready.
        first: bool,
        /// The steps.
        steps: Steps,
    },
    /// It waits for orders, see [`crate::Runner::suspend`].
    Parked,
    /// It reports that it is done.
    Done {
        /// Total number of samples, if reported.
        samples: Option<u64>,
    },
}

/// Verdict of the runner on the end of a process. The policy itself judges what only it knows, such as the number of
/// samples.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It ended with exit code 0, or its work was already done when it had to be ended ([`crate::Runner::finished`]).
    Done,
    /// It failed by itself.
    Failed,
    /// It ran out of memory; the evidence.
    OutOfMemory(OutOfMemory),
    /// It was ended by a time limit, or because the host refused it.
    Ended,
    /// Its policy or a signal ended it, which is not its fault.
    Stopped,
    /// It is a victim: it was ended by, or because of, a fault of its GPU that it did not cause.
    Fault,
}

/// The end of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// How it is judged.
    pub verdict: Verdict,
    /// A description why its work is not done; absent if it is.
    pub why: Option<String>,
    /// How the process ended.
    pub exit: Exit,
    /// Processes that it left behind and that were killed, such as `sleep (pid 123)`.
    pub strays: Vec<String>,
    /// Its work was done, and it had to be ended because it did not end by itself.
    pub outstayed: bool,
    /// It failed and made the MPS server fault, which ended all jobs of the server.
    pub culprit: bool,
    /// The end of its log.
    pub tail: String,
    /// Peak memory in bytes, see [`jobs::Happening::Exited`].
    pub peak_bytes: Option<u64>,
}

impl Ended {
    /// Why it failed, if the exit status alone does not say it: a time limit, a fault, or memory.
    #[must_use]
    pub fn cause(&self) -> Option<&str> {
        match self.verdict {
            Verdict::Ended | Verdict::Fault | Verdict::OutOfMemory(_) => self.why.as_deref(),
            Verdict::Done | Verdict::Failed | Verdict::Stopped => None,
        }
    }

    /// Message for the user in addition to the exit status: why it failed, and what it left behind.
    #[must_use]
    pub fn reason(&self, why: Option<&str>) -> Option<String> {
        let stayed = Some("it was done and did not end; it was stopped").filter(|_| self.outstayed);
        reason(&[why, stayed], &self.strays)
    }

    /// The last line that it printed, empty if there is none.
    #[must_use]
    pub fn last_line(&self) -> &str {
        self.tail.lines().last().unwrap_or_default()
    }
}

/// Why nothing starts any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// A signal arrived.
    Signal(i32),
    /// Nobody reads the events any more.
    ReaderGone,
    /// The device has had a fault from which it does not recover.
    DeviceLost(String),
    /// The policy gave up.
    GaveUp(String),
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Signal(signal) => f.write_str(&crate::signal_text(*signal)),
            Self::ReaderGone => f.write_str("the reader of the events has gone"),
            Self::DeviceLost(why) | Self::GaveUp(why) => f.write_str(why),
        }
    }
}

/// Converts the end of a process to its form in documents.
#[must_use]
pub fn process_end(exit: Exit) -> ProcessEnd {
    match exit {
        Exit::Code(code) => ProcessEnd::Code(code),
        Exit::Signal(signal) => ProcessEnd::Signal(signal),
    }
}

/// Reasons in one line, with the processes that were left behind and killed.
#[must_use]
pub fn reason(why: &[Option<&str>], strays: &[String]) -> Option<String> {
    let why = why.iter().flatten().map(|why| (*why).to_owned());
    let all: Vec<String> = why.chain(jobs::strays_told(strays)).collect();
    (!all.is_empty()).then(|| all.join("; "))
}
