//! What a job is given, and what it is asked to do.

use std::path::PathBuf;

use doc::{PhaseKind, Task};
use jobs::LogLimits;
use units::{Batch, Bytes, Share};

/// What a job may use.
#[derive(Debug, Clone, PartialEq)]
pub struct Grant {
    /// GPUs by their number on the host, ascending. A host of processors has the one device 0.
    pub gpus: Vec<usize>,
    /// Part of each of them.
    pub share: Share,
    /// Processors to run on; empty: any.
    pub processors: Vec<usize>,
    /// Most device memory that the job may pin or allocate on each GPU; absent: any.
    pub memory: Option<Bytes>,
}

impl Grant {
    /// A share of one device, with any processor and any memory.
    #[must_use]
    pub fn of(share: Share) -> Self {
        Self {
            gpus: vec![0],
            share,
            processors: Vec::new(),
            memory: None,
        }
    }
}

/// A program of a task to be run.
#[derive(Debug, Clone)]
pub struct Work<'a> {
    /// The task, as the workload has it.
    pub task: &'a Task,
    /// Whether it transfers or computes.
    pub phase: PhaseKind,
    /// Program and arguments; empty where the task has none for this phase.
    pub argv: &'a [String],
    /// Samples of each step.
    pub batch: Batch,
    /// Round, from 0.
    pub round: u32,
    /// Samples to stop after; absent: run until stopped.
    pub samples: Option<u64>,
    /// Whether it gets orders on standard input.
    pub orders: bool,
    /// Where its output goes.
    pub log: PathBuf,
    /// How large the log may grow.
    pub log_limits: LogLimits,
}
