//! Checked settings: how configurations are chosen and measured.

use allocation::default_policy;
use device::{STEADY_REPEATS, STEADY_WINDOW_S, Window};
use doc::{Aim, BatchPolicy, DeviceKind, ObjectiveKind, Workload};
use predict::design::Goal;
use units::{Seconds, Share, TotalShare};

use crate::DesignError;

/// Default minimum window on a real device. Two seconds contain about ten steps of the slowest model of the catalogue;
/// the window grows until the standard error is small enough.
const DEFAULT_WINDOW_S: f64 = 2.0;

/// How co-runs are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// Every combination of shares and batch sizes.
    Grid,
    /// Drawn at random.
    Random,
    /// First the baselines of plans, then by expected improvement of the objective.
    Adaptive,
}

/// Which configurations to measure.
#[derive(Debug, Clone, PartialEq)]
pub struct DesignSettings {
    /// How co-runs are chosen.
    pub strategy: Strategy,
    /// Maximum number of co-runs in addition to the solo runs; `None` for all.
    pub budget: Option<u64>,
    /// Shares are multiples of this.
    pub step: Share,
    /// Least sum of the shares of all tasks.
    pub rv_min: TotalShare,
    /// Largest sum of the shares.
    pub rv_max: TotalShare,
    /// Fraction of co-runs with a task left out, 0 to 1.
    pub subsets: f64,
    /// Relative expected gain below which an adaptive design stops.
    pub tolerance: f64,
    /// Batch sizes of co-runs: all, or the reference sizes of the tasks with [`BatchPolicy::Reference`]. `None` for the
    /// default sizes of a plan.
    pub batch: Option<BatchPolicy>,
    /// Goal of an adaptive design; `None`: the default objective of a plan of the workload.
    pub objective: Option<ObjectiveKind>,
    /// Floor: minimum throughput of every task in the best configuration, relative to its solo rate, 0 to 1.
    pub floor: f64,
}

impl DesignSettings {
    /// Batch sizes of co-runs: for an adaptive design, those of the plan that it serves. A design with all sizes
    /// measured none of the quickstart's 40 co-runs at the sizes of its plan, and the predicted round was 7 % longer
    /// than the one that is measured otherwise. `recorded` is whether only recorded configurations can be measured,
    /// which may have any size.
    #[must_use]
    pub fn policy(&self, workload: &Workload, recorded: bool) -> BatchPolicy {
        let serves_a_plan = self.strategy == Strategy::Adaptive && !recorded;
        self.batch.unwrap_or(match serves_a_plan {
            true => default_policy(self.aim(workload).objective),
            false => BatchPolicy::Free,
        })
    }

    /// Goal of an adaptive design of a workload.
    #[must_use]
    pub fn aim(&self, workload: &Workload) -> Aim {
        Aim {
            objective: self
                .objective
                .unwrap_or_else(|| workload.default_objective()),
            starvation_floor: (self.floor > 0.0).then_some(self.floor),
        }
    }
}

/// How long to measure a configuration.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WindowSettings {
    /// Shortest window; `None`: the device's default.
    pub least: Option<Seconds>,
    /// Longest window on real devices.
    pub most: Seconds,
    /// Relative standard error that ends a window on real devices.
    pub precision: f64,
    /// Number of windows to average; `None` for the device's default.
    pub repeats: Option<u32>,
}

impl WindowSettings {
    /// The window on a device of a kind.
    #[must_use]
    pub fn on(&self, kind: DeviceKind) -> Window {
        let (least, repeats) = match kind {
            DeviceKind::Sim => (STEADY_WINDOW_S, STEADY_REPEATS),
            _ => (DEFAULT_WINDOW_S, 1),
        };
        let least = self
            .least
            .unwrap_or_else(|| Seconds::new(least).unwrap_or(Seconds::ZERO));
        Window {
            least,
            most: if self.most < least { least } else { self.most },
            precision: self.precision,
            repeats: self.repeats.unwrap_or(repeats),
        }
    }
}

/// The objective of an adaptive design on a workload.
///
/// # Errors
/// [`DesignError::Samples`] if the objective is the time of a round and a task has no samples.
pub fn goal(objective: ObjectiveKind, workload: &Workload) -> Result<Goal, DesignError> {
    Ok(match objective {
        ObjectiveKind::Raw => Goal::Raw,
        ObjectiveKind::Fairness => Goal::Fairness,
        ObjectiveKind::MaxMin => Goal::MaxMin,
        ObjectiveKind::Weighted => {
            let tasks = workload.tasks.iter();
            Goal::Weighted(tasks.map(|t| t.weight.map_or(1.0, |w| w.get())).collect())
        }
        // The value of a sample at a batch size is accounted for separately (`Asked::rounds`).
        ObjectiveKind::Progress | ObjectiveKind::ProgressLast
            if workload.tasks.iter().any(|t| t.samples.is_none()) =>
        {
            Goal::Fairness
        }
        ObjectiveKind::Round | ObjectiveKind::Progress | ObjectiveKind::ProgressLast => {
            let samples: Result<Vec<f64>, DesignError> = workload
                .tasks
                .iter()
                .map(|task| {
                    task.samples
                        .map(|s| s.as_f64())
                        .ok_or_else(|| DesignError::Samples(task.id.clone()))
                })
                .collect();
            Goal::Round(samples?)
        }
    })
}
