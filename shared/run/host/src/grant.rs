//! The resources of a job, and its program.

use std::fmt;
use std::path::PathBuf;

use doc::{PhaseKind, Task};
use jobs::LogLimits;
use units::{Batch, Bytes, Share};

/// GPUs of a host by number: at least one, ascending, each once. On a host of processors, the numbers are devices: only
/// 0, or one for each part of its processors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gpus(Vec<usize>);

impl Gpus {
    /// One GPU.
    #[must_use]
    pub fn one(gpu: usize) -> Self {
        Self(vec![gpu])
    }

    /// Several GPUs, given in any order; `None` if there are none.
    #[must_use]
    pub fn of(gpus: &[usize]) -> Option<Self> {
        let mut numbers = gpus.to_vec();
        numbers.sort_unstable();
        numbers.dedup();
        (!numbers.is_empty()).then_some(Self(numbers))
    }

    /// The numbers.
    #[must_use]
    pub fn numbers(&self) -> &[usize] {
        &self.0
    }

    /// The only one; `None` if there are several.
    #[must_use]
    pub fn only(&self) -> Option<usize> {
        match self.0[..] {
            [gpu] => Some(gpu),
            _ => None,
        }
    }

    /// Whether both sets have a GPU in common.
    #[must_use]
    pub fn share_any(&self, others: &Self) -> bool {
        self.0.iter().any(|gpu| others.0.contains(gpu))
    }

    /// The first of the numbers that a host of `count` GPUs does not have.
    pub(crate) fn beyond(&self, count: usize) -> Option<usize> {
        self.0.iter().copied().find(|&gpu| gpu >= count)
    }
}

impl fmt::Display for Gpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<String> = self.0.iter().map(usize::to_string).collect();
        f.write_str(&numbers.join(", "))
    }
}

/// Resources that a job may use.
#[derive(Debug, Clone, PartialEq)]
pub struct Grant {
    /// Its GPUs. Not every host allows several for one job.
    pub gpus: Gpus,
    /// Share of each of them.
    pub share: Share,
    /// Whether the GPUs are exclusive, so that the job is no client of MPS.
    pub whole: bool,
    /// Processors to run on; empty: any.
    pub processors: Vec<usize>,
    /// Maximum device memory that the job may pin or allocate on each GPU; absent: no limit.
    pub memory: Option<Bytes>,
    /// Number of this start of its task. It matters if a job may start while its predecessor still runs: cleaning up
    /// after one start must not affect the jobs of another.
    pub start: u32,
}

impl Grant {
    /// A share of device 0, without limits on processors and memory.
    #[must_use]
    pub fn of(share: Share) -> Self {
        Self {
            gpus: Gpus::one(0),
            share,
            whole: false,
            processors: Vec::new(),
            memory: None,
            start: 0,
        }
    }
}

/// A program of a task, to be started.
#[derive(Debug, Clone)]
pub struct Work<'a> {
    /// The task of the workload.
    pub task: &'a Task,
    /// Whether it transfers or computes.
    pub phase: PhaseKind,
    /// Program and arguments; empty if the task has none for this phase.
    pub argv: &'a [String],
    /// Batch size, if the program is told.
    pub batch: Option<Batch>,
    /// Round, from 0.
    pub round: u32,
    /// Samples to stop after; absent: run until stopped.
    pub samples: Option<u64>,
    /// Whether it gets orders on standard input.
    pub orders: bool,
    /// Variables that take precedence over those of the task and of the worker protocol.
    pub env: &'a [(String, String)],
    /// Path of the log for its output.
    pub log: PathBuf,
    /// Size limits of the log.
    pub log_limits: LogLimits,
}
