//! The space and the goal of a design, and the value of a configuration under a model.

use doc::Method;
use math::in_parallel;
use units::corun::Setting;
use units::{Batch, Share};

use super::goal::Goal;
use crate::dataset::Dataset;
use crate::error::PredictError;
use crate::fit::{FitOptions, fit};
use crate::predictor::Predictor;

/// Settings of a design: what may be measured, the goal, and when to stop.
pub struct Design<'a> {
    /// Batch sizes of each task.
    pub batches: Vec<Vec<Batch>>,
    /// Shares that a task may have.
    pub shares: Vec<Share>,
    /// Purpose of the configuration.
    pub goal: Goal,
    /// Relative number of rounds to the target at these batch sizes; the value is divided by it. Only ratios matter; it
    /// is 1 if the number does not depend on batch sizes.
    pub rounds: &'a (dyn Fn(&[Setting]) -> f64 + Sync),
    /// Floor: minimum throughput of every task in the best configuration, relative to its solo rate, 0 to 1.
    pub floor: f64,
    /// Configurations that may be chosen: constraints on batch sizes, shares and memory. Solo runs are not checked.
    pub admissible: &'a (dyn Fn(&[Setting]) -> bool + Sync),
    /// Reduces the batch sizes of a drawn configuration, within `batches`, until it fits into memory.
    pub shrink: &'a (dyn Fn(&mut [Setting]) + Sync),
    /// Stop when the best expected improvement falls below this fraction of the best value.
    pub tolerance: f64,
    /// Number of co-runs spread over the promising region, before those chosen by expected improvement.
    pub starts: usize,
    /// A model of the same tasks from before a small change of the device or the tasks. At first, the design also
    /// learns from its predictions; each new measurement replaces one of them.
    pub earlier: Option<&'a Predictor>,
    /// [`fit_so_far`] of the data, if it is known.
    pub fitted: Option<&'a Predictor>,
    /// Seed of every random choice.
    pub seed: u64,
}

/// Up to this many tasks, a model is fitted after every co-run and all candidates are evaluated.
const FEW_TASKS: usize = 8;

/// Number of co-runs that are chosen with one fit. It increases with the number of tasks, because the cost of a fit
/// grows faster than that number. With this, a simulated profile of 40 co-runs takes 21 CPU seconds for 16 tasks of
/// nine models, and 53 for 64; most of the latter is simulating.
#[must_use]
pub fn coruns_per_fit(tasks: usize) -> usize {
    tasks.div_ceil(FEW_TASKS).max(1)
}

/// Factor on the standard deviation: a process with few points is overconfident.
const CAUTION: f64 = 2.0;
/// Evaluations of the marginal likelihood for each refit.
const EVALUATIONS: usize = 15;

/// Configurations that one thread evaluates at a time: a few of the predictor's blocks, each of which reads the data
/// of every task once.
const TOGETHER: usize = 256;

impl Design<'_> {
    /// Solo rates to which throughput is relative, as in plans: at the best batch size.
    fn solos(&self, model: &Predictor, active: &[Setting]) -> Vec<f64> {
        let best = |a: &Setting| {
            let sizes = self.batches[a.task].iter();
            let rates = sizes.map(|&batch| model.solo(a.task, batch));
            rates.fold(0.0, f64::max)
        };
        active.iter().map(best).collect()
    }

    /// Value for the goal if every task keeps the floor. Otherwise a negative value, which is less than any of these:
    /// minus the amount by which the smallest relative throughput misses the floor.
    fn worth(&self, active: &[Setting], rates: &[f64], solo: &[f64]) -> f64 {
        let least = Goal::MaxMin.value(rates, solo);
        if least < self.floor {
            return least - self.floor;
        }
        self.goal.value(rates, solo) / (self.rounds)(active)
    }

    /// Value of one configuration.
    pub(super) fn value(&self, model: &Predictor, active: &[Setting]) -> f64 {
        let mut rates = vec![0.0; active.len()];
        model.means(active, &mut rates);
        self.worth(active, &rates, &self.solos(model, active))
    }

    /// Values of many configurations of all tasks.
    pub(super) fn values(&self, model: &Predictor, all: &mut [(f64, Vec<Setting>)]) {
        let n = self.batches.len();
        let parts: Vec<&[(f64, Vec<Setting>)]> = all.chunks(TOGETHER).collect();
        let values = in_parallel(&parts, |part| {
            let flat: Vec<Setting> = part.iter().flat_map(|(_, a)| a.iter().copied()).collect();
            let mut rates = vec![0.0; flat.len()];
            model.means_many(n, &flat, &mut rates);
            let each = part.iter().zip(rates.chunks_exact(n));
            let worth = |((_, active), rates): (&(f64, Vec<Setting>), _)| {
                self.worth(active, rates, &self.solos(model, active))
            };
            each.map(worth).collect::<Vec<f64>>()
        });
        for ((value, _), new) in all.iter_mut().zip(values.into_iter().flatten()) {
            *value = new;
        }
    }

    /// Expected value of measuring a configuration, beyond the `best` known value.
    pub(super) fn expected_improvement(
        &self,
        model: &Predictor,
        active: &[Setting],
        best: f64,
    ) -> f64 {
        let predicted = model.estimate(active, false);
        let rates: Vec<f64> = predicted.iter().map(|p| p.samples_per_s).collect();
        let errors: Vec<f64> = predicted.iter().map(|p| CAUTION * p.std_error).collect();
        let solo = self.solos(model, active);
        let kept = self.keeps_floor(&rates, &errors, &solo);
        // Every goal is proportional to the rates, so dividing the rates or the value by the rounds is equivalent.
        let rounds = (self.rounds)(active);
        let gain = self
            .goal
            .expected_improvement(&rates, &errors, &solo, best * rounds);
        kept * gain / rounds
    }

    /// Probability that every task keeps the floor, assuming independent rates.
    fn keeps_floor(&self, rates: &[f64], errors: &[f64], solo: &[f64]) -> f64 {
        if self.floor <= 0.0 {
            return 1.0;
        }
        let tasks = rates.iter().zip(errors).zip(solo);
        tasks
            .map(|((rate, error), solo)| {
                let above = rate - self.floor * solo;
                if *error > 0.0 {
                    math::stats::normal_cdf(above / error)
                } else {
                    f64::from(u8::from(above >= 0.0))
                }
            })
            .product()
    }
}

/// A model of the measurements so far, for the choice of the next ones.
///
/// # Errors
/// [`PredictError`] if nothing can be learnt from the data.
pub fn fit_so_far(data: &Dataset) -> Result<Predictor, PredictError> {
    let options = FitOptions {
        evaluations: EVALUATIONS,
        validate: false,
        trees_everywhere: true,
    };
    Ok(fit(data, Method::Blend, &options)?.predictor)
}
