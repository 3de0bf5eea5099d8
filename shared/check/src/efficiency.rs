//! Noise scales: from the gradients that stand in a profile and in runs, with arithmetic of its own.

use doc::{
    EfficiencyCurve, EfficiencySource, EventPayload, GradientNoise, Profile, RunEvent, Task,
};
use units::TaskId;

use crate::judge::Judge;

/// Fewest windows or progress events.
const FEWEST: usize = 5;

/// Figures are rounded differently where sums are made in another order; errors are differences of
/// nearly equal sums.
const ROUGHLY: f64 = 1e-6;

struct Scale {
    phi: f64,
    stderr: f64,
    steps: u64,
    half_width: f64,
}

/// The ratio of the sums of `variance` and `squared_norm`, with the error of a ratio of sums over independent
/// blocks.
fn scale(blocks: &[&GradientNoise]) -> Option<Scale> {
    if blocks.len() < FEWEST {
        return None;
    }
    let sums: Vec<(f64, f64, f64)> = blocks
        .iter()
        .map(|b| {
            let n = b.steps as f64;
            (n, b.squared_norm * n, b.variance * n)
        })
        .collect();
    let (n, g, s) = sums
        .iter()
        .fold((0.0, 0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1, a.2 + b.2));
    let count = blocks.len() as f64;
    let inflate = count / (count - 1.0);
    let error = |ratio: f64, top: fn(&(f64, f64, f64)) -> f64, low: fn(&(f64, f64, f64)) -> f64| {
        let squares: f64 = sums.iter().map(|b| (top(b) - ratio * low(b)).powi(2)).sum();
        (squares * inflate).sqrt()
    };
    // Student's t as a series in one over the degrees of freedom (Abramowitz and Stegun 26.7.5).
    let (z, f) = (1.96_f64, count - 1.0);
    let t = z
        + (z.powi(3) + z) / (4.0 * f)
        + (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / (96.0 * f * f);
    let mean_error = error(g / n, |b| b.1, |b| b.0) / n;
    let phi = s / g;
    if g / n <= t * mean_error || phi <= 0.0 {
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

/// What the end of a profile says of noise scales.
pub fn of_profile(profile: &Profile, j: &mut Judge) {
    let Some(end) = &profile.end else { return };
    let known = |task: &&Task| scale(&windows(profile, &task.id)).is_some();
    let tasks = &profile.header.workload.tasks;
    let told: Vec<&str> = end.noise_scales.iter().map(|n| n.id.as_str()).collect();
    let own: Vec<&str> = tasks.iter().filter(known).map(|t| t.id.as_str()).collect();
    j.field("end", |j| {
        j.same("noise_scales", told.join(", "), own.join(", "));
        j.field("noise_scales", |j| {
            for (i, told) in end.noise_scales.iter().enumerate() {
                if let Some(own) = scale(&windows(profile, &told.id)) {
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

/// What a model says of the efficiency of a task, where its profile and runs stand before it.
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
    match claimed.source {
        EfficiencySource::Declared => {
            if declared.efficiency.as_ref() != Some(claimed) {
                j.lie(
                    "efficiency",
                    "declared",
                    "not what the profile's workload declares",
                );
            }
        }
        EfficiencySource::Learnt => {
            if runs.len() < 2 && declared.efficiency.as_ref() != Some(claimed) {
                let truth = "two runs or more, which do not stand before the model";
                j.lie("efficiency", "learnt", truth);
            }
        }
        EfficiencySource::Measured => {
            let of_events = events(runs, &task.id);
            let own = scale(&of_events[of_events.len() / 2..]).or_else(|| {
                let mut all = windows(profile, &task.id);
                all.extend(of_events);
                scale(&all)
            });
            let Some(own) = own else {
                if declared.efficiency.as_ref() != Some(claimed) {
                    j.lie(
                        "efficiency",
                        "measured",
                        "norms of gradients do not give one",
                    );
                }
                return;
            };
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

fn near(j: &mut Judge, name: &str, claimed: f64, own: f64) {
    if (claimed - own).abs() > ROUGHLY * own.abs() {
        j.lie(name, claimed, own);
    }
}
