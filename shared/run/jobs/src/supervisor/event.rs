//! Commands to a supervisor, and its events.

use std::time::{Duration, Instant};

use efficiency::{Moments, NormsError};
use units::{Batch, TaskId};

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
    /// It stands by: what does not depend on the checkpoint is done, and it waits for `run`.
    Loaded,
    /// It is warm.
    Ready {
        /// Multiprocessors that it sees, if it says so.
        sms: Option<u32>,
        /// Whether it is an MPS client, if it says so.
        mps: Option<bool>,
    },
    /// It trained. Steps that were read together are told together.
    Steps {
        /// How many steps.
        steps: u64,
        /// Samples of all of them.
        samples: u64,
        /// The last loss.
        loss: Option<f64>,
        /// Number of the last step over all restarts, if the job counts them.
        last: Option<u64>,
        /// Gradients of all of them that reported norms.
        gradient: Moments,
    },
    /// It waits for orders.
    Parked,
    /// It says that it is done.
    Done {
        /// Samples in all, if it says so.
        samples: Option<u64>,
    },
    /// Its log can no longer be written; the job continues without.
    LogFailed(String),
    /// What it tells may be meant otherwise, or it has left the control group that its share holds
    /// in; why.
    Doubt(String),
    /// Norms of its gradients are none and were left out; why. Once for each job.
    NormsLeftOut(NormsError),
    /// Lines that were too long to be looked at (they are in the log).
    Overlong(u64),
    /// It does not end, not even by SIGKILL, and is given up; `Exited` follows.
    Unkillable,
    /// It ended, and everything that it had started too. The last event of a job.
    Exited {
        /// How.
        exit: Exit,
        /// Processes that it had left behind and that were killed.
        strays: usize,
        /// The end of its log.
        tail: String,
        /// Whether it failed for lack of memory, see `says_out_of_memory`.
        out_of_memory: bool,
    },
}

/// Whether the last line of the log of a job that failed says that memory was insufficient, in the
/// words of PyTorch and Python ("out of memory") and of the CUDA driver
/// (`CUDA_ERROR_OUT_OF_MEMORY`). There is no exit code for it. Lines before the last are not looked
/// at: a job may have tried a larger batch first and told of it.
pub(super) fn says_out_of_memory(tail: &str) -> bool {
    let last = tail.lines().last().unwrap_or_default().to_ascii_lowercase();
    last.contains("out of memory") || last.contains("out_of_memory")
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
    /// What the next [`Order::Run`] is for: one task of a schedule, after which the worker says that
    /// it is done, synchronises, and says that it is parked.
    Task {
        /// Round of the job, from 0.
        round: u32,
        /// Which of the round's tasks, from 0.
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

/// An order that did not reach a job.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OrderError {
    /// The job has ended.
    #[error("the job has ended")]
    Ended,
    /// The job reads no orders.
    #[error("the job does not read its standard input: {0}")]
    NotRead(String),
}

/// Takes what jobs print, with the task's name.
pub(super) struct Echo {
    pub(super) take: Box<EchoFn>,
    /// Whether it also takes the states of a line that was written over.
    pub(super) all: bool,
}
pub(super) type EchoFn = dyn FnMut(&TaskId, &[u8]);

impl std::fmt::Debug for Echo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Echo")
    }
}

/// How long a killed process may take to go. SIGKILL acts within milliseconds but on a process that
/// waits inside a driver or a file system; what is not gone by then is left to the guard.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
