//! Recomputes noise scales from the gradients in a profile and in runs, and from the losses of runs at several
//! batch sizes.

mod learnt;
mod student;

use doc::{
    Efficiency, EfficiencyCurve, EfficiencySource, EventPayload, GradientNoise, Profile, RunEvent,
    Task,
};
use units::{Batch, TaskId};

use self::learnt::{Learnt, Row, Scale as FittedScale, learnt};
use self::student::student;
use crate::judge::Judge;

/// Minimum number of windows or progress events from which a noise scale is estimated.
const FEWEST: usize = 5;

/// Limit of a block's weight: at most this many times its number of steps.
const MOST_WEIGHT: f64 = 1.5;

/// Relative tolerance of the recomputed values: sums in another order round differently, and standard errors are
/// differences of nearly equal sums.
const ROUGHLY: f64 = 1e-6;

struct Scale {
    phi: f64,
    stderr: f64,
    steps: u64,
    half_width: f64,
}

/// Rescales the blocks, each given as steps, `|G|^2` and `S`: the last two are divided by the mean square of a
/// reference batch's gradient, which is interpolated log-linearly from the two neighbouring blocks.
fn in_units_of_gradients(
    blocks: &[(f64, f64, f64)],
    reference: f64,
) -> Option<Vec<(f64, f64, f64)>> {
    let square = |of: &[(f64, f64, f64)]| {
        let sum = |part: fn(&(f64, f64, f64)) -> f64| of.iter().map(part).sum::<f64>();
        (sum(|b| b.1).max(0.0) + sum(|b| b.2) / reference) / sum(|b| b.0)
    };
    let n = blocks.len();
    let mut logs = Vec::with_capacity(n);
    for k in 0..n {
        let own = square(&blocks[k..k + 1]);
        let near = square(&blocks[k.saturating_sub(1)..n.min(k + 2)]);
        let size = if own > 0.0 { own } else { near };
        if size.is_nan() || size <= 0.0 {
            return None;
        }
        logs.push(size.ln());
    }
    let scaled = blocks.iter().enumerate().map(|(k, b)| {
        let line = if k == 0 {
            2.0 * logs[1] - logs[2]
        } else if k == n - 1 {
            2.0 * logs[n - 2] - logs[n - 3]
        } else {
            0.5 * (logs[k - 1] + logs[k + 1])
        };
        let unit = line.max(logs[k] - MOST_WEIGHT.ln()).exp();
        (b.0, b.1 / unit, b.2 / unit)
    });
    Some(scaled.collect())
}

/// Noise scale as the ratio of the sums of `variance` and `squared_norm` over all blocks, each in units of its
/// gradients. Its standard error is that of a ratio of sums over independent blocks.
fn scale(blocks: &[&GradientNoise], reference: Batch) -> Option<Scale> {
    if blocks.len() < FEWEST {
        return None;
    }
    let plain: Vec<(f64, f64, f64)> = blocks
        .iter()
        .map(|b| {
            let n = b.steps as f64;
            (n, b.squared_norm * n, b.variance * n)
        })
        .collect();
    let sums = in_units_of_gradients(&plain, reference.as_f64())?;
    let (n, g, s) = sums
        .iter()
        .fold((0.0, 0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1, a.2 + b.2));
    let count = blocks.len() as f64;
    let inflate = count / (count - 1.0);
    let error = |ratio: f64, top: fn(&(f64, f64, f64)) -> f64, low: fn(&(f64, f64, f64)) -> f64| {
        let squares: f64 = sums.iter().map(|b| (top(b) - ratio * low(b)).powi(2)).sum();
        (squares * inflate).sqrt()
    };
    let t = student(count - 1.0);
    let mean_error = error(g / n, |b| b.1, |b| b.0) / n;
    let phi = s / g;
    if g / n <= t * mean_error || phi <= 0.0 || phi > Efficiency::LARGEST_NOISE_SCALE {
        return None;
    }
    let stderr = error(phi, |b| b.2, |b| b.1) / g;
    Some(Scale {
        phi,
        stderr,
        steps: blocks.iter().map(|b| b.steps).sum(),
        half_width: t * stderr / phi,
    })
}

fn windows<'a>(profile: &'a Profile, id: &TaskId) -> Vec<&'a GradientNoise> {
    let tasks = profile.samples.iter().flat_map(|s| &s.tasks);
    let own = tasks.filter(|t| t.id == *id);
    own.filter_map(|t| t.gradient.as_ref()).collect()
}

fn events<'a>(runs: &'a [Vec<RunEvent>], id: &TaskId) -> Vec<&'a GradientNoise> {
    let gradient = |event: &'a RunEvent| match &event.payload {
        EventPayload::Progress { task, progress, .. } if task == id => progress.gradient.as_ref(),
        _ => None,
    };
    runs.iter().flatten().filter_map(gradient).collect()
}

/// Noise scales in the end record of a profile.
pub fn of_profile(profile: &Profile, j: &mut Judge) {
    let Some(end) = &profile.end else { return };
    let known = |task: &&Task| scale(&windows(profile, &task.id), task.reference()).is_some();
    let tasks = &profile.header.workload.tasks;
    let told: Vec<&str> = end.noise_scales.iter().map(|n| n.id.as_str()).collect();
    let own: Vec<&str> = tasks.iter().filter(known).map(|t| t.id.as_str()).collect();
    j.field("end", |j| {
        j.same("noise_scales", told.join(", "), own.join(", "));
        j.field("noise_scales", |j| {
            for (i, told) in end.noise_scales.iter().enumerate() {
                let task = tasks.iter().find(|t| t.id == told.id);
                let own = |t: &Task| scale(&windows(profile, &t.id), t.reference());
                if let Some(own) = task.and_then(own) {
                    j.index(i, |j| {
                        near(j, "noise_scale", told.samples, own.phi);
                        near(j, "stderr", told.stderr, own.stderr);
                        j.same("steps", told.steps, own.steps);
                    });
                }
            }
        });
    });
}

/// Checks a model's efficiency of a task, if its profile and runs precede it.
pub fn of_model(
    task: &Task,
    declared: &Task,
    profile: &Profile,
    runs: &[Vec<RunEvent>],
    j: &mut Judge,
) {
    let Some(claimed) = &task.efficiency else {
        return;
    };
    let has_table = declared
        .efficiency
        .as_ref()
        .is_some_and(Efficiency::is_table);
    match claimed.source {
        EfficiencySource::Declared => {
            if declared.efficiency.as_ref() != Some(claimed) {
                j.contradiction(
                    "efficiency",
                    "declared",
                    "not what the profile's workload declares",
                );
            }
        }
        EfficiencySource::Learnt => {
            let truth = "two runs or more to the same loss, which do not stand before the model";
            match learnt(runs, &task.id) {
                None if declared.efficiency.as_ref() == Some(claimed) => {}
                None => j.contradiction("efficiency", "learnt", truth),
                Some(Learnt::Table(own)) => judge_table(&claimed.curve, &own, j),
                Some(Learnt::Scale(own))
                    if own.at_limit && (has_table || measured(task, profile, runs).is_some()) =>
                {
                    let truth = "a table or norms of gradients say more";
                    j.contradiction("efficiency", "learnt", truth);
                }
                Some(Learnt::Scale(own)) => judge_scale(&claimed.curve, &own, j),
            }
        }
        EfficiencySource::Measured => {
            let Some(own) = measured(task, profile, runs) else {
                if declared.efficiency.as_ref() != Some(claimed) {
                    j.contradiction(
                        "efficiency",
                        "measured",
                        "norms of gradients do not give one",
                    );
                }
                return;
            };
            let at_limit = |own: &Learnt| matches!(own, Learnt::Scale(scale) if scale.at_limit);
            if learnt(runs, &task.id).is_some_and(|own| !at_limit(&own)) {
                j.contradiction("efficiency", "measured", "runs to the same loss give one");
            }
            if has_table {
                j.contradiction("efficiency", "measured", "the workload has a table");
            }
            if let EfficiencyCurve::NoiseScale { samples, interval } = &claimed.curve {
                let factor = own.half_width.exp().min(100.0);
                j.field("efficiency", |j| {
                    near(j, "noise_scale", *samples, own.phi);
                    let [low, high] = interval.unwrap_or_default();
                    near(j, "interval", low, own.phi / factor);
                    near(j, "interval", high, own.phi * factor);
                });
            }
        }
    }
}

/// Noise scale from gradient norms: from the later half of the runs' events if there are enough, otherwise from
/// all windows and events.
fn measured(task: &Task, profile: &Profile, runs: &[Vec<RunEvent>]) -> Option<Scale> {
    let of_events = events(runs, &task.id);
    let reference = task.reference();
    scale(&of_events[of_events.len() / 2..], reference).or_else(|| {
        let mut all = windows(profile, &task.id);
        all.extend(of_events);
        scale(&all, reference)
    })
}

/// Judges a noise scale and its interval. The fit searches a grid of noise scales, so its results may differ from
/// ours by a step of the grid.
fn judge_scale(claimed: &EfficiencyCurve, own: &FittedScale, j: &mut Judge) {
    let EfficiencyCurve::NoiseScale { samples, interval } = claimed else {
        return j.contradiction("efficiency", "learnt", "a noise scale");
    };
    j.field("efficiency", |j| {
        let mut within = |name: &str, claimed: f64, own: f64, step: f64| {
            if claimed.is_nan() || (claimed / own).ln().abs() > step {
                j.contradiction(name, claimed, own);
            }
        };
        let step = 1.01 * own.step;
        within("noise_scale", *samples, own.phi, step);
        let [low, high] = interval.unwrap_or_default();
        // The bounds of the interval depend on the misfit at the best noise scale, which itself may be off by a
        // step.
        within("interval", low, own.interval[0], 2.0 * step);
        within("interval", high, own.interval[1], 2.0 * step);
    });
}

fn judge_table(claimed: &EfficiencyCurve, own: &[Row], j: &mut Judge) {
    let EfficiencyCurve::Progress(rows) = claimed else {
        let problem = "progress at three batch sizes or more";
        return j.contradiction("efficiency", "learnt", problem);
    };
    let sizes = |batches: &mut dyn Iterator<Item = u32>| {
        let told: Vec<String> = batches.map(|b| b.to_string()).collect();
        told.join(", ")
    };
    j.field("efficiency", |j| {
        let claimed = sizes(&mut rows.iter().map(|r| r.batch.get()));
        let shown = sizes(&mut own.iter().map(|r| r.batch));
        j.same("table", claimed, shown);
        j.field("table", |j| {
            for (i, (claimed, own)) in rows.iter().zip(own).enumerate() {
                j.index(i, |j| {
                    near(j, "progress", claimed.value, own.progress);
                    match (claimed.interval, own.interval) {
                        (Some(claimed), Some(own)) => {
                            near(j, "interval", claimed[0], own[0]);
                            near(j, "interval", claimed[1], own[1]);
                        }
                        (claimed, own) => j.same("interval", claimed.is_some(), own.is_some()),
                    }
                });
            }
        });
    });
}

fn near(j: &mut Judge, name: &str, claimed: f64, own: f64) {
    if (claimed - own).abs() > ROUGHLY * own.abs() {
        j.contradiction(name, claimed, own);
    }
}
