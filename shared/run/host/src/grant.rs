//! What a job gets, and what it is asked to do.

use std::fmt;
use std::path::PathBuf;

use doc::{PhaseKind, Task};
use jobs::LogLimits;
use units::{Batch, Bytes, Share};

/// GPUs of a host by their numbers: at least one, ascending, each once. A host of processors has
/// the one device 0, or as many as its processors are divided into.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gpus(Vec<usize>);

impl Gpus {
    /// One GPU.
    #[must_use]
    pub fn one(gpu: usize) -> Self {
        Self(vec![gpu])
    }

    /// Several, in any order; `None` if there is none.
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
    /// Where it runs. Not every host lets one job have several GPUs.
    pub gpus: Gpus,
    /// Part of each of them.
    pub share: Share,
    /// Processors to run on; empty: any.
    pub processors: Vec<usize>,
    /// Most device memory that the job may pin or allocate on each GPU; absent: any.
    pub memory: Option<Bytes>,
    /// Which start of its task this is, where a job may be started while the one that it replaces
    /// still runs: jobs of two starts have nothing in common that is cleaned up with one of them.
    pub start: u32,
}

impl Grant {
    /// A share of one device, with any processor and any memory.
    #[must_use]
    pub fn of(share: Share) -> Self {
        Self {
            gpus: Gpus::one(0),
            share,
            processors: Vec::new(),
            memory: None,
            start: 0,
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
