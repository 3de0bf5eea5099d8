//! Commands to a supervisor, and its events.

use std::time::{Duration, Instant};

use efficiency::{Moments, NormsError};
use units::{Batch, TaskId};

use crate::{LineCutter, OutOfMemory};

/// A job of a [`crate::Supervisor`]; never given twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub(super) u64);

impl JobId {
    /// The job with a number, for hosts without processes, which count their jobs themselves.
    #[must_use]
    pub const fn numbered(number: u64) -> Self {
        Self(number)
    }
}

/// Something that happened to a job.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Which job.
    pub job: JobId,
    /// When it was seen.
    pub at: Instant,
    /// What happened.
    pub what: Happening,
}

/// Steps of training that were read together and are reported together.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Steps {
    /// How many.
    pub steps: u64,
    /// Samples of all of them.
    pub samples: u64,
    /// The last loss.
    pub loss: Option<f64>,
    /// Number of the last one over all restarts, if the job counts them.
    pub last: Option<u64>,
    /// Sums of the gradient norms that were reported with them.
    pub gradient: Moments,
}

impl Steps {
    /// Adds those that followed.
    pub(super) fn add(&mut self, more: &Self) {
        self.steps = self.steps.saturating_add(more.steps);
        self.samples = self.samples.saturating_add(more.samples);
        self.loss = more.loss.or(self.loss);
        self.last = more.last.or(self.last);
        self.gradient.merge(&more.gradient);
    }
}

/// Events of a job.
#[derive(Debug, Clone, PartialEq)]
pub enum Happening {
    /// It stands by: everything that does not depend on the checkpoint is done, and it waits for `run`.
    Loaded,
    /// It is warm.
    Ready {
        /// Multiprocessors that it sees, if it says so.
        sms: Option<u32>,
        /// Whether it is an MPS client, if it says so.
        mps: Option<bool>,
    },
    /// It trained.
    Steps(Steps),
    /// It waits for orders.
    Parked,
    /// It reports that it is done.
    Done {
        /// Total number of samples, if it says so.
        samples: Option<u64>,
    },
    /// Its log can no longer be written; the job continues without.
    LogFailed(String),
    /// A warning: its progress may have another meaning, or it has left the control group that limits its share.
    Doubt(String),
    /// Its gradient norms are invalid and were ignored; the reason. Once for each job.
    NormsLeftOut(NormsError),
    /// A line was too long to be read; it is in the log. Once for each job.
    Overlong,
    /// It does not end, not even by SIGKILL, and is given up; `Exited` follows.
    Unkillable,
    /// It ended, together with everything that it had started. The last event of a job.
    Exited {
        /// How it ended.
        exit: Exit,
        /// The processes that it had left behind and that were killed, such as `sleep (pid 123)`.
        strays: Vec<String>,
        /// The end of its log.
        tail: String,
        /// Whether it failed for lack of memory, and how that was recognised.
        out_of_memory: Option<OutOfMemory>,
        /// Most memory that it used, bytes: of its control group where that counts memory; else of the largest of its
        /// processes. `None` if that is unknown.
        peak_bytes: Option<u64>,
    },
}

impl Happening {
    /// What a user must hear of it about the job `name`, which nothing else shows. How a job ended is not a part of it.
    #[must_use]
    pub fn told(&self, name: &str) -> Option<String> {
        match self {
            Self::LogFailed(why) => Some(format!("the log of {name} ends here: {why}")),
            Self::Doubt(why) => Some(format!("{name}: {why}")),
            Self::NormsLeftOut(why) => {
                Some(format!("{name}: norms of gradients are left out: {why}"))
            }
            Self::Overlong => Some(format!(
                "{name}: a line longer than {} KiB was not read, since no report is that long; it is in the log",
                LineCutter::LONGEST / 1024
            )),
            Self::Unkillable => Some(format!(
                "{name} does not end, even after SIGKILL, and is left running"
            )),
            Self::Exited { strays, .. } => {
                strays_told(strays).map(|told| format!("{name}: {told}"))
            }
            Self::Loaded
            | Self::Ready { .. }
            | Self::Steps { .. }
            | Self::Parked
            | Self::Done { .. } => None,
        }
    }
}

/// That processes which a job had left behind were killed; `None` if there were none.
#[must_use]
pub fn strays_told(strays: &[String]) -> Option<String> {
    let (count, names) = (strays.len(), strays.join(", "));
    (count > 0).then(|| format!("{count} processes that it left were killed: {names}"))
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// With an exit code.
    Code(i32),
    /// By a signal.
    Signal(i32),
}

/// An order to a pool worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// What the next [`Order::Run`] is for: one task of a schedule, after which the worker reports that it is done,
    /// synchronises, and reports that it is parked.
    Task {
        /// Round of the job, from 0.
        round: u32,
        /// Index of the task in the round.
        rank: u32,
    },
    /// Train.
    Run,
    /// Stop after the current step.
    Park,
    /// Use another batch size.
    Batch(Batch),
    /// End.
    Quit,
}

/// An order could not be delivered to a job.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OrderError {
    /// The job has ended.
    #[error("the job has ended")]
    Ended,
    /// The job reads no orders.
    #[error("the job does not read its standard input: {0}")]
    NotRead(String),
}

/// Receives the output of jobs, with the task's name.
pub(super) struct Echo {
    pub(super) take: Box<EchoFn>,
    /// Whether it also receives the states of an overwritten line.
    pub(super) all: bool,
}
pub(super) type EchoFn = dyn FnMut(&TaskId, &[u8]);

impl std::fmt::Debug for Echo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Echo")
    }
}

/// How long a killed process may take to go. SIGKILL acts within milliseconds, except on a process that waits inside
/// a driver or a file system; what has not gone by then is left to the guard.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_that_nothing_else_shows_are_told_with_the_name() {
        let left = |strays: &[&str]| Happening::Exited {
            exit: Exit::Code(0),
            strays: strays.iter().map(|s| (*s).to_owned()).collect(),
            tail: String::new(),
            out_of_memory: None,
            peak_bytes: None,
        };
        let told = [
            Happening::LogFailed("full".to_owned()),
            Happening::Doubt("why".to_owned()),
            Happening::Overlong,
            Happening::Unkillable,
            left(&["sleep (pid 7)"]),
        ];
        for what in told {
            let text = what.told("zebra").unwrap_or_default();
            assert!(text.contains("zebra"), "{what:?}: {text}");
        }
        for what in [Happening::Parked, left(&[])] {
            assert_eq!(what.told("zebra"), None, "{what:?}");
        }
    }
}
