//! Commands to a supervisor, and its events.

use std::time::{Duration, Instant};

use efficiency::{Moments, NormsError};
use units::{Batch, TaskId};

use crate::{LineCutter, OutOfMemory};

/// Identifies a job of a [`crate::Supervisor`]; never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub(super) u64);

impl JobId {
    /// The id with a given number, for hosts without real processes, which number their jobs themselves.
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
    /// Time at which the supervisor noticed it.
    pub at: Instant,
    /// What happened.
    pub what: Happening,
}

/// Training steps that were read, and are reported, together.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Steps {
    /// Number of steps.
    pub steps: u64,
    /// Total samples of these steps.
    pub samples: u64,
    /// The last loss.
    pub loss: Option<f64>,
    /// Number of the last step, counted over all restarts, if the job reports it.
    pub last: Option<u64>,
    /// Sums of the gradient norms that were reported with these steps.
    pub gradient: Moments,
}

impl Steps {
    /// Adds steps that followed.
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
    /// It is on standby: all start-up work that does not depend on the checkpoint is done, and it waits for `run`.
    Loaded,
    /// It is warm.
    Ready {
        /// Number of multiprocessors that it sees, if reported.
        sms: Option<u32>,
        /// Whether it is an MPS client, if reported.
        mps: Option<bool>,
    },
    /// It reported training steps.
    Steps(Steps),
    /// It waits for orders.
    Parked,
    /// It reports that it is done.
    Done {
        /// Total number of samples, if reported.
        samples: Option<u64>,
    },
    /// Its log can no longer be written; the job continues without a log.
    LogFailed(String),
    /// A warning: its progress may have another meaning, or it has left the control group that limits its share.
    Doubt(String),
    /// Its gradient norms are invalid and were ignored; the reason. Reported once for each job.
    NormsLeftOut(NormsError),
    /// A line was too long to parse; the log contains it. Reported once for each job.
    Overlong,
    /// Not even SIGKILL ends it, so it is given up; `Exited` follows.
    Unkillable,
    /// It ended, together with everything that it had started. The last event of a job.
    Exited {
        /// How it ended.
        exit: Exit,
        /// Processes that it left behind and that were killed, such as `sleep (pid 123)`.
        strays: Vec<String>,
        /// The end of its log.
        tail: String,
        /// Whether it failed for lack of memory, and how that was recognised.
        out_of_memory: Option<OutOfMemory>,
        /// Peak memory in bytes: of its control group if that counts memory, otherwise of its largest process. `None`
        /// if unknown.
        peak_bytes: Option<u64>,
    },
}

impl Happening {
    /// A message for the user about the job `name`, for events that are shown nowhere else; `None` for others, such as
    /// the end of a job.
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

/// A message about killed processes that a job had left behind; `None` if there were none.
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
    /// Work of the next [`Order::Run`]: one task of a schedule, after which the worker reports that it is done,
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

/// Time for a killed process to disappear. SIGKILL acts within milliseconds, except on a process that waits inside a
/// driver or a file system; processes that remain after this time are left to the guard.
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
