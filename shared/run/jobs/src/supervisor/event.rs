//! Commands to a supervisor, and its events.

use std::time::{Duration, Instant};

use efficiency::{Moments, NormsError};
use units::{Batch, TaskId};

use crate::OutOfMemory;

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
    /// It trained. Steps that were read together are reported together.
    Steps {
        /// How many steps.
        steps: u64,
        /// Samples of all of them.
        samples: u64,
        /// The last loss.
        loss: Option<f64>,
        /// Number of the last step over all restarts, if the job counts them.
        last: Option<u64>,
        /// Sums of the gradient norms that were reported with them.
        gradient: Moments,
    },
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
    /// Number of skipped lines that were too long (they are in the log).
    Overlong(u64),
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
