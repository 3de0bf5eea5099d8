//! Width of intervals, from held-out measurements.

use doc::Method;
use math::stats;

use super::left::{FOLDS, HeldOut};

/// Half the width of an interval that should hold 90 %, in standard deviations.
pub(crate) const HALF_WIDTH: f64 = 1.645;

/// Factor on the standard deviations with which the 90 % intervals of `left` have their nominal coverage. `spreads`
/// are the standard deviations of the tasks, in addition to that of the Gaussian process.
pub(crate) fn scale_of(left: &[HeldOut], spreads: &[f64], method: Method) -> Option<f64> {
    let z = |l: &HeldOut| (l.sample, l.score(spreads[l.task], method));
    conformal_of(left.iter().map(z)).map(|s| s.clamp(0.5, 20.0))
}

/// Like [`scale_of`], for the process of all tasks on its own, at any weight; 1 if it made no prediction.
pub(crate) fn scale_of_pool(left: &[HeldOut], method: Method) -> f64 {
    let z = |l: &HeldOut| {
        let sd = l.pooled?.variance.sqrt();
        Some((l.sample, l.gap(method) / sd))
    };
    conformal_of(left.iter().filter_map(z)).map_or(1.0, |s| s.clamp(0.5, 10.0))
}

/// Factor on standard deviations learnt from `n` independent errors, for the same coverage as with a known standard
/// deviation: Student's t over the normal quantile.
pub(crate) fn few(n: usize) -> f64 {
    stats::student_95(n.saturating_sub(1)) / HALF_WIDTH
}

/// Factor on standard deviations for 90 % coverage, from the errors of parts that were held out entirely, over their
/// standard deviations. Errors within one part are correlated, so each part counts as one independent error.
pub(crate) fn scale_of_parts(z: &[f64], parts: usize) -> Option<f64> {
    Some(few(parts) * stats::quantile(z, 0.9)? / HALF_WIDTH)
}

/// Factor on standard deviations for which 90 % intervals cover a next error, from left-out errors over their
/// standard deviations: the quantile of `0.9 (n + 1)/n`, since the next error is equally likely in each gap between
/// `n` errors (split conformal prediction: Lei et al. 2018, section 2.2). With fewer than ten errors it is the
/// largest.
pub(crate) fn conformal(z: Vec<f64>) -> Option<f64> {
    let n = z.len();
    conformal_among(&z, n)
}

/// Like [`conformal`], for errors with the index of their co-run. The errors of one co-run are correlated, so `n` is
/// the number of co-runs.
fn conformal_of(z: impl Iterator<Item = (usize, f64)>) -> Option<f64> {
    let (mut co_runs, z): (Vec<usize>, Vec<f64>) = z.unzip();
    co_runs.sort_unstable();
    co_runs.dedup();
    conformal_among(&z, co_runs.len())
}

fn conformal_among(z: &[f64], n: usize) -> Option<f64> {
    let n = n as f64;
    let level = (0.9 * (n + 1.0) / n).min(1.0);
    Some(stats::quantile(z, level)? / HALF_WIDTH)
}

/// Calibration factors for the 90 % intervals of one task, and their coverage.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Calibration {
    pub spread: f64,
    pub scale: f64,
    /// Number of throughputs inside their interval, and number of all; each interval has the scale learnt from the
    /// other folds.
    pub inside: (usize, usize),
}

/// Minimum number of left-out throughputs for a scale of the task's own: with fewer than twenty, the coverage of the
/// 90 % quantile is off by more than seven points, so all tasks share one scale.
const OWN_SCALE: usize = 20;

/// Calibrates one task; `None` without held-out throughputs of it.
pub(crate) fn calibrate(left: &[HeldOut], task: usize, method: Method) -> Option<Calibration> {
    let own: Vec<&HeldOut> = left.iter().filter(|l| l.task == task).collect();
    let spread = spread_of(&own, method)?;
    let like: Vec<(&HeldOut, f64)> = if own.len() >= OWN_SCALE {
        own.iter().map(|l| (*l, spread)).collect()
    } else {
        let tasks = left.iter().map(|l| l.task).max().unwrap_or(0);
        let of = |task: usize| left.iter().filter(move |l| l.task == task);
        let each =
            (0..=tasks).filter_map(|t| Some((t, spread_of(&of(t).collect::<Vec<_>>(), method)?)));
        each.flat_map(|(t, spread)| of(t).map(move |l| (l, spread)))
            .collect()
    };
    let scale_of = |keep: &dyn Fn(&HeldOut) -> bool| {
        let kept = like.iter().filter(|(l, _)| keep(l));
        conformal_of(kept.map(|(l, s)| (l.sample, l.score(*s, method)))).map(|s| s.clamp(0.5, 10.0))
    };
    let mut inside = (0, 0);
    for f in 0..FOLDS {
        let Some(scale) = scale_of(&|l: &HeldOut| l.fold != f) else {
            continue;
        };
        for l in own.iter().filter(|l| l.fold == f) {
            inside.0 += usize::from(l.score(spread, method) <= HALF_WIDTH * scale);
            inside.1 += 1;
        }
    }
    Some(Calibration {
        spread,
        scale: scale_of(&|_| true)?,
        inside,
    })
}

/// Standard deviation of the logarithm, in addition to the variance of the Gaussian process, of the held-out
/// throughputs of one task.
fn spread_of(own: &[&HeldOut], method: Method) -> Option<f64> {
    let error = |l: &&HeldOut| l.gap(method);
    let spread = match method {
        Method::Gp | Method::Blend => {
            stats::median(&own.iter().map(|l| l.noise.sqrt()).collect::<Vec<_>>())?
        }
        Method::Structured => {
            stats::quantile(&own.iter().map(error).collect::<Vec<_>>(), 0.9)? / HALF_WIDTH
        }
    };
    Some(spread.max(1e-3))
}
