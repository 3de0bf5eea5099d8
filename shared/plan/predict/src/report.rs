use doc::Method;
use doc::params::KindError;

use crate::copies::Copies;
use crate::features::Driver;

/// Report of a fit.
#[derive(Debug, Clone, Default)]
pub struct FitReport {
    /// One for each task.
    pub tasks: Vec<TaskReport>,
    /// Cross-validated error of the total throughput of every family tried, percent.
    pub families: Vec<(Method, f64)>,
    /// Number of parts that cross-validation left out in turn; 0 if there are too few configurations.
    pub folds: usize,
    /// Fraction of held-out throughputs inside the 90 % interval.
    pub coverage_90: Option<f64>,
    /// Error of each kind of co-run, if parts of that kind could be held out.
    pub kinds: Vec<KindError>,
    /// Left-out configurations with the largest errors of the total, worst first.
    pub worst: Vec<Worst>,
    /// Learning curve: number of training configurations, and error of the total (percent).
    pub learning: Vec<(usize, f64)>,
    /// Number of throughputs of zero; they were left out.
    pub zeros: usize,
}

/// Report on one task.
#[derive(Debug, Clone)]
pub struct TaskReport {
    /// Throughputs learnt from, including those of its copies.
    pub rows: usize,
    /// Cross-validated mean absolute error, percent.
    pub error_percent: Option<f64>,
    /// Host time of a step in milliseconds, which does not depend on the share.
    pub host_ms: f64,
    /// Device time per sample on the whole device, in microseconds.
    pub device_us_per_sample: f64,
    /// Share in percent beyond which a larger one hardly helps.
    pub bend_percent: f64,
    /// The task that slows it most, and the factor on its device time.
    pub slowed_most_by: Option<(usize, f64)>,
    /// Features with an effect on its throughput, by relevance (spread over length scale), the strongest first; empty
    /// without a Gaussian process.
    pub drivers: Vec<(Driver, f64)>,
    /// Samples in which this task's throughput was found to be wrong, so that it got little weight. For copies of one
    /// model, all are listed with the first copy.
    pub rejected: Vec<usize>,
}

/// A configuration with a large error of prediction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Worst {
    /// Position in the data set.
    pub sample: usize,
    /// Predicted over measured total, minus 1, percent.
    pub error_percent: f64,
}

impl TaskReport {
    /// Expands the reports from kinds of tasks to tasks.
    pub(crate) fn of_tasks(kinds: &[TaskReport], copies: &Copies) -> Vec<TaskReport> {
        let first = |kind: usize| copies.first[kind];
        let one = |(task, kind): (usize, &usize)| {
            let mut report = kinds[*kind].clone();
            report.slowed_most_by = report.slowed_most_by.map(|(by, c)| (first(by), c));
            for (driver, _) in &mut report.drivers {
                driver.of = driver.of.map(first);
            }
            if first(*kind) != task {
                report.rejected.clear();
            }
            report
        };
        copies.kind.iter().enumerate().map(one).collect()
    }
}

impl FitReport {
    /// Expected error (percent) with `factor` times as many configurations, by a power law through the learning
    /// curve; `None` if the curve has fewer than two points.
    #[must_use]
    pub fn expected_error(&self, factor: f64) -> Option<f64> {
        let [.., (n0, e0), (n1, e1)] = self.learning.as_slice() else {
            return None;
        };
        let power = ((e0 / e1).ln() / (*n1 as f64 / *n0 as f64).ln()).clamp(0.0, 1.0);
        Some(e1 * factor.powf(-power))
    }
}
