//! Co-runs with a task, or with a batch size of a task, that never ran with others.
//!
//! For these, a task's own model would extrapolate, so one process for all tasks ([`Pool`]) supplements it. Its
//! weight, the mean error of such predictions and the width of their intervals are learnt by holding out entire
//! batch sizes, and entire tasks, that did run with others.

use units::Batch;
use units::corun::Setting;

use crate::copies::Copies;
use crate::pool::{Pool, Weights};
use crate::sum::Sums;

/// The process of all tasks, and when to use it.
#[derive(Debug, Clone)]
pub(crate) struct Unseen {
    /// Batch sizes at which each task ran with others, ascending.
    pub seen: Vec<Vec<Batch>>,
    pub pool: Pool,
    /// The process of the total, if it is used in addition to the rates of the tasks.
    pub sums: Option<Sums>,
    /// Weights of the process in co-runs within the models of the tasks.
    pub weights: Weights,
    /// Correction for a batch size that never ran with others.
    pub batch: Option<PoolCorrection>,
    /// Correction for a task that never ran with others.
    pub task: Option<PoolCorrection>,
}

/// How to combine the process of all tasks with a task's own model, learnt from held-out parts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct PoolCorrection {
    /// Weight of the process of all tasks.
    pub weight: f64,
    /// Factor on the throughput.
    pub factor: f64,
    /// Factor on the standard deviation of the process.
    pub interval_scale: f64,
    /// Measured error; `None` if there was too little to hold out, so that the weight is a guess.
    pub error: Option<UnseenError>,
}

/// Error of batch sizes or tasks that were held out entirely.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct UnseenError {
    /// Number of parts held out, one after another.
    pub parts: usize,
    /// Mean absolute error of their co-runs, without the largest twentieth, in percent.
    pub error_percent: f64,
}

impl Unseen {
    /// Expands the result from kinds of tasks to tasks.
    pub fn of_tasks(mut self, copies: &Copies) -> Self {
        self.seen = copies.spread(&self.seen);
        self
    }

    /// The correction for a co-run; `None` if it is within the models of its tasks.
    pub fn of(&self, active: &[Setting]) -> Option<&PoolCorrection> {
        if active.len() < 2 {
            return None;
        }
        let seen = |a: &Setting| self.seen[a.task].contains(&a.batch);
        if active.iter().all(seen) {
            return None;
        }
        if active.iter().any(|a| self.seen[a.task].is_empty()) {
            return self.task.as_ref();
        }
        self.batch.as_ref()
    }
}

impl PoolCorrection {
    /// `ln(step seconds)` from the predictions of a task's own model and of the process of all tasks. No co-runner
    /// makes a task faster than it is alone.
    pub fn ln_step(&self, own: f64, pooled: f64, solo: f64) -> f64 {
        (own + self.weight * (pooled - own) - self.factor.ln()).max(solo)
    }
}
