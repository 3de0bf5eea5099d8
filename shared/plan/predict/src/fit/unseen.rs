//! Learns from held-out batch sizes and tasks how to predict those that were never measured.

use std::collections::{BTreeMap, BTreeSet};

use doc::Method;
use doc::params::{Kind, KindError};
use math::stats;
use units::Batch;

use super::checks::Checks;
use crate::dataset::Dataset;
use crate::gp::Hyper;
use crate::pool::{Pool, PoolRows};
use crate::unseen::{PoolCorrection, Unseen, UnseenError};
use crate::validation::{self, FromFullFit, Part, RegressorsToFit, VERY_SURE, trimmed};

/// Most parts that are held out: each costs as much as a fit. Twelve were half of what a fit with
/// cross-validation took.
const MOST_PARTS: usize = 6;
/// Least parts that say anything of the next: of two, one outlier is half of the evidence.
const LEAST_PARTS: usize = 3;
/// Least co-runs of a part, for its error to be more than that of one measurement, and least that must
/// be left to learn from: with fewer than ten, the error is that of too little data and not of what
/// was left out. Other values were not compared.
const LEAST_LEFT: usize = 3;
const LEAST_KEPT: usize = 10;
/// Least tasks that ran with others, for one to be left out: three must remain, so that what is
/// alike between tasks can be told from what one pair does.
const LEAST_TASKS: usize = 4;

/// Left-out throughputs that the factor 1 counts for: the median of ten that scatter by 40 % is off by
/// 15 %, which is more than it gains.
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
    /// How the process of all tasks, learnt from all `data`, serves models of the family `method`,
    /// from parts of `checked` that are left out. The held-out parts of `checks` serve for unseen
    /// tasks and batch sizes if none of those can be held out. Where too few parts can be left out
    /// a batch size counts as known; a task that never ran with others has no model of its own that
    /// is worth anything.
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
            poly: false,
            trees: method == Method::Blend,
        };
        let known = &FromFullFit {
            wanted,
            ..known.clone()
        };
        let mut errors = Vec::new();
        let mut found = |kind: Kind, parts: &[Vec<usize>], guess: f64| {
            let learnt = leave_all_out(checked, parts, known, method, &hyper);
            let learnt = learnt.and_then(|left| {
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
                // For two copies at one batch size, the co-run counts once.
                if own.last() != Some(&k) {
                    own.push(k);
                }
            }
        }
    }
    v
}

/// Samples of each part to leave out: a batch size of a task that has others.
fn by_batch(data: &Dataset) -> Vec<Vec<usize>> {
    let tables = co_runs(data).into_iter().filter(|t| t.len() > 1);
    some(data, tables.flat_map(BTreeMap::into_values).collect())
}

/// The same: a task.
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

/// At most [`MOST_PARTS`] of those large and small enough, evenly.
fn some(data: &Dataset, mut parts: Vec<Vec<usize>>) -> Vec<Vec<usize>> {
    let all = data.samples.iter().filter(|s| s.active.len() > 1).count();
    parts.retain(|p| p.len() >= LEAST_LEFT && all - p.len() >= LEAST_KEPT);
    let kept = math::stats::evenly(parts.len(), MOST_PARTS);
    kept.into_iter().map(|k| parts[k].clone()).collect()
}

impl PoolCorrection {
    /// From parts that were held out, one after another.
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
        let z = |l: &&HeldOutRate| (1.0 - best.measured_over_predicted(l)).abs() / l.sd;
        let z: Vec<f64> = all.iter().map(z).collect();
        best.interval_scale = validation::scale_of_parts(&z, parts)?.clamp(0.1, 10.0);
        Some(best)
    }

    /// Expected error of the kind that the parts belong to.
    fn kind_error(&self, kind: Kind, left: &[Vec<HeldOutRate>]) -> Option<KindError> {
        let all: Vec<&HeldOutRate> = left.iter().flatten().collect();
        Some(KindError {
            kind,
            error_percent: 100.0 * stats::mean(&self.errors(&all))?,
            cases: all.len() as u64,
            parts: left.len() as u32,
        })
    }

    /// Throughput over its prediction.
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

    /// The factor `f` that makes `sum |f p / m - 1|` least over predictions `p` of `m`: the
    /// median of `m / p` with weights `p / m`. Where predictions scatter it is below 1, because
    /// twice too much is worse than half. Without the twentieth that is farthest off: those may
    /// be bad measurements.
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

/// `work` of every part, in their order, by as many threads as there are processors.
fn in_parallel<P: Sync, R: Send>(
    parts: &[P],
    work: impl Fn(&P) -> Option<R> + Sync,
) -> Vec<Option<R>> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let each = parts.len().div_ceil(threads).max(1);
    let work = &work;
    std::thread::scope(|scope| {
        let some = |part| move || <[P]>::iter(part).map(work).collect::<Vec<_>>();
        let start = |part| {
            let handle = std::thread::Builder::new().spawn_scoped(scope, some(part));
            // If no thread can be created, this one does its part.
            handle.map_err(|_| part)
        };
        let running: Vec<_> = parts.chunks(each).map(start).collect();
        let done = running
            .into_iter()
            .map(|t| match t.map(std::thread::ScopedJoinHandle::join) {
                Ok(Ok(done)) => done,
                Ok(Err(panic)) => std::panic::resume_unwind(panic),
                Err(part) => some(part)(),
            });
        done.flatten().collect()
    })
}

/// Leaves out one part after another; `None`: too few could be.
fn leave_all_out(
    data: &Dataset,
    parts: &[Vec<usize>],
    known: &FromFullFit<'_>,
    method: Method,
    hyper: &Hyper,
) -> Option<Vec<Vec<HeldOutRate>>> {
    let left = in_parallel(parts, |p| leave_out(data, p, known, method, hyper));
    let left: Vec<Vec<HeldOutRate>> = left.into_iter().flatten().collect();
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
                solo: inputs.ln_step(at),
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

    /// Predictions of 1 second where `measured` seconds came out.
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
            let left = left(&measured);
            let left: Vec<&HeldOutRate> = left.iter().collect();
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
