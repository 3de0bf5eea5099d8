//! Learns from held-out batch sizes and tasks how to predict batch sizes and tasks that never ran with others.

use std::collections::{BTreeMap, BTreeSet};

use doc::Method;
use doc::params::{Kind, KindError};
use math::{in_parallel, stats};
use units::Batch;

use super::checks::Checks;
use crate::dataset::Dataset;
use crate::gp::Hyper;
use crate::pool::{Pool, PoolRows};
use crate::unseen::{PoolCorrection, Unseen, UnseenError};
use crate::validation::{self, FromFullFit, Part, RegressorsToFit, VERY_SURE, trimmed};

/// Maximum number of held-out parts: each costs as much as a fit. With twelve, they took half the time of a fit with
/// cross-validation.
const MOST_PARTS: usize = 6;
/// Minimum number of parts for an estimate: with two, one outlier would be half of the evidence.
const LEAST_PARTS: usize = 3;
/// Minimum number of co-runs in a part, so that its error does not depend on one measurement; and minimum number of
/// co-runs that must remain to learn from: with fewer than ten, the error is due to too little data instead of the
/// missing part. Other values were not compared.
const LEAST_LEFT: usize = 3;
const LEAST_KEPT: usize = 10;
/// Minimum number of tasks that ran with others, for one of them to be left out: three must remain, so that effects
/// common to all tasks can be distinguished from those of one pair.
const LEAST_TASKS: usize = 4;

/// Prior weight of the factor 1, in left-out throughputs: the median of ten that scatter by 40 % is off by 15 %,
/// which is more than the factor gains.
const FACTOR_PRIOR: f64 = 40.0;

/// A throughput of a part that was held out.
struct HeldOutRate {
    ln_step: f64,
    own: f64,
    pooled: f64,
    solo: f64,
    /// Standard deviation by the process of all tasks, noise included.
    sd: f64,
}

impl Unseen {
    /// Learns how to combine the process of all tasks, learnt from all `data`, with the tasks' own models, by leaving
    /// out tasks and batch sizes of `checked`. If too few of them can be left out, the interval scale comes from the
    /// held-out configurations of `checks`. The weight of the process is then that of `checks` for a batch size, and
    /// 1 for a task, which has no useful model of its own if it never ran with others.
    pub fn learn(
        data: &Dataset,
        checked: &Dataset,
        pool: Pool,
        known: &FromFullFit<'_>,
        checks: &Checks,
    ) -> (Unseen, Vec<KindError>) {
        let (method, weights) = (checks.method, checks.weights);
        let hyper = pool.part.gp.hyper.clone();
        let wanted = RegressorsToFit {
            gp: true,
            trees: method == Method::Blend,
        };
        let known = &FromFullFit {
            wanted,
            ..known.clone()
        };
        let mut errors = Vec::new();
        let mut found = |kind: Kind, parts: &[Vec<usize>], guess: f64| {
            let left_out = leave_all_out(checked, parts, known, method, &hyper);
            let learnt = left_out.and_then(|left| {
                let learnt = PoolCorrection::learn(&left)?;
                errors.push(learnt.kind_error(kind, &left)?);
                Some(learnt)
            });
            Some(learnt.unwrap_or(PoolCorrection {
                weight: guess,
                factor: 1.0,
                interval_scale: checks.scale_of_pool(),
                error: None,
            }))
        };
        let unseen = Unseen {
            seen: seen(data),
            sums: None,
            weights,
            batch: found(Kind::Batch, &by_batch(checked), weights.known),
            task: found(Kind::Task, &by_task(checked), 1.0),
            pool,
        };
        (unseen, errors)
    }
}

/// Batch sizes at which each task ran with others.
fn seen(data: &Dataset) -> Vec<Vec<Batch>> {
    let tables = co_runs(data).into_iter();
    tables.map(|t| t.into_keys().collect()).collect()
}

/// Co-runs in which each task ran, by its batch size.
fn co_runs(data: &Dataset) -> Vec<BTreeMap<Batch, Vec<usize>>> {
    let mut v = vec![BTreeMap::new(); data.tasks.len()];
    for (k, s) in data.samples.iter().enumerate() {
        for (a, p) in s.active.iter().zip(&s.throughput) {
            if s.active.len() > 1 && *p > 0.0 {
                let own: &mut Vec<usize> = v[a.task].entry(a.batch).or_default();
                // With two copies at one batch size, count the co-run once.
                if own.last() != Some(&k) {
                    own.push(k);
                }
            }
        }
    }
    v
}

/// The parts to leave out, as lists of samples: each is one batch size of a task that also has others.
fn by_batch(data: &Dataset) -> Vec<Vec<usize>> {
    let tables = co_runs(data).into_iter().filter(|t| t.len() > 1);
    some(data, tables.flat_map(BTreeMap::into_values).collect())
}

/// Like [`by_batch`], with all co-runs of one task as a part.
fn by_task(data: &Dataset) -> Vec<Vec<usize>> {
    let tables = co_runs(data).into_iter().filter(|t| !t.is_empty());
    // Copies of a model may run in one co-run at several batch sizes.
    let parts: Vec<Vec<usize>> = tables
        .map(|t| {
            let own: BTreeSet<usize> = t.into_values().flatten().collect();
            own.into_iter().collect()
        })
        .collect();
    if parts.len() < LEAST_TASKS {
        return Vec::new();
    }
    some(data, parts)
}

/// At most [`MOST_PARTS`] of the parts that are neither too small nor too large, spread evenly.
fn some(data: &Dataset, mut parts: Vec<Vec<usize>>) -> Vec<Vec<usize>> {
    let all = data.samples.iter().filter(|s| s.active.len() > 1).count();
    parts.retain(|p| p.len() >= LEAST_LEFT && all - p.len() >= LEAST_KEPT);
    let kept = math::stats::evenly(parts.len(), MOST_PARTS);
    kept.into_iter().map(|k| parts[k].clone()).collect()
}

impl PoolCorrection {
    /// Learns from parts that were held out one after another.
    fn learn(left: &[Vec<HeldOutRate>]) -> Option<PoolCorrection> {
        let parts = left.len();
        let all: Vec<&HeldOutRate> = left.iter().flatten().collect();
        let mut best = PoolCorrection {
            weight: 0.0,
            factor: 1.0,
            interval_scale: 1.0,
            error: None,
        };
        best.weight = validation::sure_weight(VERY_SURE, |weight| {
            PoolCorrection { weight, ..best }.errors(&all)
        });
        let n = all.len() as f64;
        best.factor = best.least_error_factor(&all).powf(n / (n + FACTOR_PRIOR));
        best.error = Some(UnseenError {
            parts,
            error_percent: best.error_percent(&all)?,
        });
        let deviation = |l: &&HeldOutRate| (1.0 - best.measured_over_predicted(l)).abs() / l.sd;
        let z: Vec<f64> = all.iter().map(deviation).collect();
        best.interval_scale = validation::scale_of_parts(&z, parts)?.clamp(0.1, 10.0);
        Some(best)
    }

    /// Expected error for configurations of this kind.
    fn kind_error(&self, kind: Kind, left: &[Vec<HeldOutRate>]) -> Option<KindError> {
        let all: Vec<&HeldOutRate> = left.iter().flatten().collect();
        Some(KindError {
            kind,
            error_percent: 100.0 * stats::mean(&self.errors(&all))?,
            cases: all.len() as u64,
            parts: left.len() as u32,
        })
    }

    /// Measured throughput divided by its prediction.
    fn measured_over_predicted(&self, l: &HeldOutRate) -> f64 {
        (self.ln_step(l.own, l.pooled, l.solo) - l.ln_step).exp()
    }

    /// Relative errors of the throughputs.
    fn errors(&self, left: &[&HeldOutRate]) -> Vec<f64> {
        let error = |l: &&HeldOutRate| (1.0 / self.measured_over_predicted(l) - 1.0).abs();
        left.iter().map(error).collect()
    }

    fn error_percent(&self, left: &[&HeldOutRate]) -> Option<f64> {
        trimmed(self.errors(left))
    }

    /// The factor `f` that minimises `sum |f p / m - 1|` over predictions `p` of `m`: the median of `m / p` with
    /// weights `p / m`. It is below 1 if predictions scatter, because a prediction of twice the value is a larger
    /// error than one of half. The twentieth with the largest errors is left out, because it may be bad measurements.
    fn least_error_factor(&self, left: &[&HeldOutRate]) -> f64 {
        let mut r: Vec<f64> = left
            .iter()
            .map(|l| self.measured_over_predicted(l))
            .collect();
        r.sort_by(|a, b| a.ln().abs().total_cmp(&b.ln().abs()));
        r.truncate(r.len() - r.len() / 20);
        r.sort_by(f64::total_cmp);
        let half = 0.5 * r.iter().map(|r| 1.0 / r).sum::<f64>();
        let mut sum = 0.0;
        let reaches = |r: &&f64| {
            sum += 1.0 / **r;
            sum >= half
        };
        r.iter().find(reaches).map_or(1.0, |r| r.clamp(0.5, 2.0))
    }
}

/// Predictions for each part, which is left out in turn; `None` if there are too few parts.
fn leave_all_out(
    data: &Dataset,
    parts: &[Vec<usize>],
    known: &FromFullFit<'_>,
    method: Method,
    hyper: &Hyper,
) -> Option<Vec<Vec<HeldOutRate>>> {
    let left: Vec<Vec<HeldOutRate>> =
        in_parallel(parts, |p| leave_out(data, p, known, method, hyper))
            .into_iter()
            .flatten()
            .collect();
    (left.len() >= LEAST_PARTS).then_some(left)
}

/// Learns without the samples of `part` and predicts them.
fn leave_out(
    data: &Dataset,
    part: &[usize],
    known: &FromFullFit<'_>,
    method: Method,
    hyper: &Hyper,
) -> Option<Vec<HeldOutRate>> {
    let out: Vec<bool> = (0..data.samples.len()).map(|k| part.contains(&k)).collect();
    let fold = Part::learn(data, &out, known).ok()?;
    let pool = PoolRows::of(&fold.data, &fold.base).condition(hyper)?;
    let mut left = Vec::new();
    for s in part.iter().map(|k| &data.samples[*k]) {
        let inputs = fold.base.inputs(&s.active);
        for (at, (a, p)) in s.active.iter().zip(&s.throughput).enumerate() {
            if *p <= 0.0 {
                continue;
            }
            let own = fold.tasks[a.task].answer(&fold.base, &inputs, at, a.task, false);
            let pooled = pool.answer(&fold.base, &inputs, at);
            left.push(HeldOutRate {
                ln_step: (a.batch.as_f64() / p).ln(),
                own: own.of(method),
                pooled: pooled.ln_step,
                solo: inputs.ln_step[at],
                sd: pooled.variance.sqrt(),
            });
        }
    }
    Some(left)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: PoolCorrection = PoolCorrection {
        weight: 0.0,
        factor: 1.0,
        interval_scale: 1.0,
        error: None,
    };

    /// Predictions of 1 second; the measured values are `measured` seconds.
    fn left(measured: &[f64]) -> Vec<HeldOutRate> {
        let one = |m: &f64| HeldOutRate {
            ln_step: m.ln(),
            own: 0.0,
            pooled: 0.5,
            solo: -5.0,
            sd: 0.1,
        };
        measured.iter().map(one).collect()
    }

    #[test]
    fn no_other_factor_has_a_smaller_error() {
        for measured in [
            vec![0.7, 0.9, 1.0, 1.3, 2.1, 2.5],
            vec![1.2, 1.3],
            vec![0.8, 1.25, 1.6],
        ] {
            let rates = left(&measured);
            let left: Vec<&HeldOutRate> = rates.iter().collect();
            let error = |factor: f64| {
                PoolCorrection { factor, ..PLAIN }
                    .error_percent(&left)
                    .unwrap()
            };
            let least = error(PLAIN.least_error_factor(&left));
            for k in 50..=200 {
                assert!(
                    least <= error(f64::from(k) / 100.0) + 1e-9,
                    "{measured:?} {k}"
                );
            }
        }
    }

    #[test]
    fn answers_lie_between_both_and_never_above_the_solo_rate() {
        let half = PoolCorrection {
            weight: 0.5,
            ..PLAIN
        };
        assert_eq!(half.ln_step(1.0, 2.0, 0.0), 1.5);
        assert_eq!(half.ln_step(1.0, 2.0, 1.7), 1.7);
        let halved = PoolCorrection {
            factor: 0.5,
            ..PLAIN
        };
        assert!((halved.ln_step(1.0, 2.0, 0.0) - 1.0 - 2.0_f64.ln()).abs() < 1e-12);
    }
}
