//! What may be measured, for which goal, and its value under a model.

use units::corun::Setting;
use units::{Batch, Share};

use super::goal::Goal;
use crate::fit::FitOptions;
use crate::predictor::Predictor;

/// Limits on what may be measured, and when to stop.
pub struct Design<'a> {
    /// Batch sizes of each task.
    pub batches: Vec<Vec<Batch>>,
    /// Shares that a task may have.
    pub shares: Vec<Share>,
    /// Purpose of the configuration.
    pub goal: Goal,
    /// How often the goal has to be met at these batch sizes: rounds to a target, by which its value is divided.
    /// Only ratios count; 1 for what does not depend on batch sizes.
    pub rounds: &'a dyn Fn(&[Setting]) -> f64,
    /// Least throughput of every task relative to alone that the best is to keep, 0 to 1.
    pub floor: f64,
    /// Configurations that may be chosen: batch, share and memory constraints. Solo runs are
    /// not asked about.
    pub admissible: &'a dyn Fn(&[Setting]) -> bool,
    /// Takes the batch sizes of a drawn configuration down, to others of `batches`, until it fits
    /// into memory; it may fit already.
    pub shrink: &'a dyn Fn(&mut [Setting]),
    /// Stop when the best expected improvement falls below this fraction of the best value.
    pub tolerance: f64,
    /// Co-runs spread over what looks promising, before expected improvement.
    pub starts: usize,
    /// An earlier model of the same tasks, from before a small change of the device or the tasks.
    /// Its predictions are learnt from beside the first measurements, and each new measurement
    /// replaces one of them.
    pub earlier: Option<&'a Predictor>,
    /// Seed of every random choice.
    pub seed: u64,
}

/// Up to this many tasks a model is fitted after every co-run, and all candidates are looked at.
const FEW_TASKS: usize = 8;

/// Co-runs that are chosen by one model of this many tasks, since a fit costs far more than in
/// proportion to their number. With it a profile of 40 co-runs takes 15 CPU seconds of 32 alexnets
/// and 39 of 64.
#[must_use]
pub fn coruns_per_fit(tasks: usize) -> usize {
    tasks.div_ceil(FEW_TASKS).max(1)
}

/// Factor on the standard deviation: a process of few points is overconfident.
const CAUTION: f64 = 2.0;
/// Evaluations of the marginal likelihood for each refit.
const EVALUATIONS: usize = 15;

impl Design<'_> {
    /// Rates alone that throughput is compared with, as in plans: at the best batch size.
    fn solos(&self, model: &Predictor, active: &[Setting]) -> Vec<f64> {
        let best = |a: &Setting| {
            let sizes = self.batches[a.task].iter();
            let rates = sizes.map(|&batch| model.solo(a.task, batch));
            rates.fold(0.0, f64::max)
        };
        active.iter().map(best).collect()
    }

    /// Value for the goal where every task keeps the floor; elsewhere less than any such value:
    /// minus how far the least throughput lies below the floor.
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
        let flat: Vec<Setting> = all.iter().flat_map(|(_, a)| a.iter().copied()).collect();
        let mut rates = vec![0.0; flat.len()];
        model.means_many(n, &flat, &mut rates);
        for ((value, active), rates) in all.iter_mut().zip(rates.chunks_exact(n)) {
            *value = self.worth(active, rates, &self.solos(model, active));
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
        // Every goal is proportional to the rates, so the division may come before or after.
        let rounds = (self.rounds)(active);
        let gain = self
            .goal
            .expected_improvement(&rates, &errors, &solo, best * rounds);
        kept * gain / rounds
    }

    /// Probability that every task keeps the floor, their rates taken as independent.
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

/// Settings of the refits.
pub(super) fn quick() -> FitOptions {
    FitOptions {
        evaluations: EVALUATIONS,
        validate: false,
        trees_everywhere: true,
        start: None,
    }
}
