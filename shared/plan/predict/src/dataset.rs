use units::corun::{MAX_TASKS, Setting};
use units::{Batch, Share};

use crate::PredictError;

/// Description of a task before it runs.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskSpec {
    /// Floating-point operations to train on one sample, if known.
    pub flops_per_sample: Option<f64>,
    /// Bytes moved to train on one sample, if known.
    pub bytes_per_sample: Option<f64>,
    /// Batch sizes it may run with.
    pub batches: Vec<Batch>,
    /// The first earlier task of the workload that trains the same model, if there is one.
    pub copy_of: Option<usize>,
}

/// One measured co-run.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// The tasks that ran together, each at most once. One task alone is a solo run.
    pub active: Vec<Setting>,
    /// Samples per second of each, in the order of `active`. Zero means that the task did not run.
    pub throughput: Vec<f64>,
    /// Standard error of each throughput, samples per second, if measured.
    pub stderr: Option<Vec<f64>>,
}

/// Measured co-runs of the tasks of one workload.
#[derive(Debug, Clone, PartialEq)]
pub struct Dataset {
    /// The tasks; [`Setting::task`] points here.
    pub tasks: Vec<TaskSpec>,
    /// The measurements, in any order; duplicates are allowed.
    pub samples: Vec<Sample>,
}

impl Dataset {
    /// Checks that every sample is a configuration of the tasks.
    pub(crate) fn check(&self) -> Result<(), PredictError> {
        if self.tasks.is_empty() {
            return Err(PredictError::NoTasks);
        }
        if self.tasks.len() > MAX_TASKS {
            return Err(PredictError::TooManyTasks {
                found: self.tasks.len(),
                most: MAX_TASKS,
            });
        }
        for (at, sample) in self.samples.iter().enumerate() {
            if let Some(reason) = self.fault(sample) {
                return Err(PredictError::BadSample { sample: at, reason });
            }
        }
        Ok(())
    }

    /// At most `most` solo runs, followed by at most `most` co-runs, both spread evenly over the list.
    pub(crate) fn thinned(&self, most: usize) -> Dataset {
        let (alone, together): (Vec<&Sample>, Vec<&Sample>) =
            self.samples.iter().partition(|s| s.active.len() == 1);
        let few = math::stats::evenly(together.len(), most)
            .into_iter()
            .map(|k| together[k]);
        Dataset {
            tasks: self.tasks.clone(),
            samples: alone.into_iter().take(most).chain(few).cloned().collect(),
        }
    }

    fn fault(&self, s: &Sample) -> Option<&'static str> {
        if s.active.is_empty() {
            return Some("no task is active");
        }
        if s.throughput.len() != s.active.len() {
            return Some("one throughput per active task is needed");
        }
        if s.throughput.iter().any(|v| !v.is_finite() || *v < 0.0) {
            return Some("a throughput is negative or not finite");
        }
        if let Some(e) = &s.stderr
            && (e.len() != s.active.len() || e.iter().any(|v| !v.is_finite() || *v < 0.0))
        {
            return Some("one standard error per active task is needed, 0 or more");
        }
        let mut seen = 0_u64;
        for a in &s.active {
            if a.task >= self.tasks.len() {
                return Some("an active task is not one of the workload");
            }
            if seen & (1 << a.task) != 0 {
                return Some("a task is active twice");
            }
            if a.share == Share::ZERO {
                return Some("an active task has no share");
            }
            seen |= 1 << a.task;
        }
        None
    }
}
