//! Held-out throughputs, and the error of a model on them.

use std::collections::BTreeSet;

use doc::Method;
use doc::params::{Kind, KindError};
use math::stats;

use crate::dataset::Dataset;
use crate::model::LnSteps;
use crate::pool::{Pooled, Weights};

/// Number of parts that are held out one after another.
pub(super) const FOLDS: usize = 5;

/// Maximum relative error; larger ones are clamped. Far from its data, a regression may predict a value that
/// overflows.
const MOST_GAP: f64 = 1e6;

/// One throughput that the model had not seen.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HeldOut {
    pub sample: usize,
    pub task: usize,
    /// Position of the task in the sample.
    pub at: usize,
    pub fold: usize,
    pub ln_step: f64,
    pub answer: LnSteps,
    pub noise: f64,
    /// Prediction by the process of all tasks, if there is one.
    pub pooled: Option<Pooled>,
    /// Whether the model had learnt from these shares and from this number of tasks.
    pub has_levels: bool,
    /// Factor on the standard deviation if it lies outside the data of the model.
    pub beyond: f64,
    /// Weight of the process of all tasks: 0 is the prediction of the task's own model, 1 that of the process.
    pub weight: f64,
    /// `ln(solo step seconds)` at its share.
    pub ln_alone: f64,
    /// Logarithm of the sum of the co-run's rates relative to solo rates, by the process of sums.
    pub ln_sum: Option<f64>,
    /// Correction that is added to the prediction of `ln(step seconds)`.
    pub shift: f64,
}

impl HeldOut {
    /// `ln(step seconds)` as the finished model predicts it.
    pub fn predicted(&self, method: Method) -> f64 {
        let own = self.answer.of(method);
        let pooled = self.pooled.map_or(0.0, |p| self.weight * (p.ln_step - own));
        own + pooled + self.shift
    }

    /// Standard deviation of [`HeldOut::predicted`] without calibration; `spread` is that of the task, in addition to
    /// that of its Gaussian process.
    pub fn deviation(&self, spread: f64, method: Method) -> f64 {
        let variance = match method {
            Method::Gp | Method::Blend => self.answer.variance,
            Method::Structured => 0.0,
        };
        let own = spread * spread + variance;
        let gain = self
            .pooled
            .map_or(0.0, |p| self.weight * (p.variance - own));
        self.beyond * (own + gain).sqrt()
    }

    /// Relative error of the throughput.
    pub fn error(&self, method: Method) -> f64 {
        ((self.ln_step - self.predicted(method)).exp() - 1.0)
            .abs()
            .min(MOST_GAP)
    }

    /// Distance of the throughput from its prediction, relative to the prediction: intervals are symmetric in it.
    pub fn gap(&self, method: Method) -> f64 {
        ((self.predicted(method) - self.ln_step).exp() - 1.0)
            .abs()
            .min(MOST_GAP)
    }

    /// [`HeldOut::gap`] in units of [`HeldOut::deviation`].
    pub fn score(&self, spread: f64, method: Method) -> f64 {
        self.gap(method) / self.deviation(spread, method)
    }

    /// The same with its shift multiplied by `weight`.
    pub fn shifted(&self, weight: f64) -> HeldOut {
        let shift = weight * self.shift;
        HeldOut { shift, ..*self }
    }

    /// The same with the given weights of the process of all tasks.
    pub fn moved(&self, weights: Weights) -> HeldOut {
        let weight = weights.of(self.has_levels);
        HeldOut { weight, ..*self }
    }
}

/// The left-out throughputs, grouped by co-run.
pub(super) fn by_co_run(left: &[HeldOut]) -> impl Iterator<Item = &[HeldOut]> {
    left.chunk_by(|a, b| a.sample == b.sample && a.at < b.at)
}

/// Sum of a co-run's rates relative to solo rates: predicted from the rates, measured, and predicted by the process
/// of sums. `None` if that process is not used.
pub(super) fn sums(co_run: &[HeldOut], method: Method) -> Option<(f64, f64, f64)> {
    let first = co_run.first().filter(|l| l.weight > 0.0)?;
    let of = |ln_step: &dyn Fn(&HeldOut) -> f64| {
        let relative = co_run.iter().map(|l| (l.ln_alone - ln_step(l)).exp());
        relative.sum()
    };
    Some((
        of(&|l| l.predicted(method)),
        of(&|l| l.ln_step),
        first.ln_sum?.exp(),
    ))
}

/// Moves the rates of every co-run towards the sum that the process of sums predicts.
pub(crate) fn moved_to_sums(left: &[HeldOut], weight: f64, method: Method) -> Vec<HeldOut> {
    let each = by_co_run(left).flat_map(|co_run| {
        let shift = sums(co_run, method).map_or(0.0, |(by_rates, _, by_sums)| {
            weight * (by_rates / by_sums).ln()
        });
        co_run.iter().map(move |l| HeldOut { shift, ..*l })
    });
    each.collect()
}

/// Error of co-runs of a kind, from held-out ones. It includes bad measurements, because users will meet these, too.
pub(crate) fn kind_error(kind: Kind, left: &[HeldOut], method: Method) -> Option<KindError> {
    let error = |l: &HeldOut| 100.0 * l.error(method);
    let parts: BTreeSet<usize> = left.iter().map(|l| l.fold).collect();
    Some(KindError {
        kind,
        error_percent: stats::mean(&left.iter().map(error).collect::<Vec<_>>())?,
        cases: left.len() as u64,
        parts: parts.len() as u32,
    })
}

/// Predicted over measured total throughput, minus 1, of every held-out sample, by sample.
pub(crate) fn total_errors(data: &Dataset, left: &[HeldOut], method: Method) -> Vec<(usize, f64)> {
    let mut sums: Vec<(usize, f64, f64)> = Vec::new();
    for l in left {
        let s = &data.samples[l.sample];
        let b = s.active[l.at].batch.as_f64();
        let p = b * (-l.predicted(method)).exp();
        let m = b * (-l.ln_step).exp();
        match sums.last_mut() {
            Some(last) if last.0 == l.sample => {
                last.1 += p;
                last.2 += m;
            }
            _ => sums.push((l.sample, p, m)),
        }
    }
    sums.iter().map(|(k, p, m)| (*k, p / m - 1.0)).collect()
}

/// Mean absolute error of the total in percent, without the worst twentieth, which are likely bad measurements that
/// no model should follow.
pub(crate) fn total_error_percent(data: &Dataset, left: &[HeldOut], method: Method) -> Option<f64> {
    let errors = total_errors(data, left, method);
    trimmed(errors.iter().map(|(_, e)| e.abs()).collect())
}

/// Mean of all but the largest twentieth, times 100.
pub(crate) fn trimmed(mut v: Vec<f64>) -> Option<f64> {
    v.sort_by(f64::total_cmp);
    v.truncate(v.len() - v.len() / 20);
    stats::mean(&v).map(|m| 100.0 * m)
}
