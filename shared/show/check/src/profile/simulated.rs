//! Simulates a profile again: the simulator is deterministic, so every number must match.

use std::collections::BTreeMap;

use device::{Device, MOST_REPEATS, Measurement, Options, Sim, Window};
use doc::{Profile, Sample};
use units::corun::Setting;
use units::{Batch, Seconds, Share, TaskId};

use crate::judge::Judge;

/// Judges every sample and failure by the simulator.
pub fn judge(profile: &Profile, j: &mut Judge) {
    let header = &profile.header;
    let noise = header.device.noise_percent.as_deref().unwrap_or("0");
    let Ok(noise_percent) = noise.parse::<f64>() else {
        return j.contradiction("header.device.noise_percent", noise, "a number");
    };
    let options = Options {
        seed: header.seed,
        noise_percent,
        ..Options::default()
    };
    let mut sim = match Sim::open(&header.workload, &options) {
        Ok(sim) => sim,
        Err(error) => return j.contradiction("header.workload", "a workload to simulate", error),
    };
    let own = sim.fingerprint();
    if own.detail != header.device.detail {
        let other = header.device.detail.clone().unwrap_or_default();
        return j.unjudged("samples", format!("made by another version: {other}"));
    }
    j.field("header", |j| {
        j.field("device", |j| {
            j.same("name", &header.device.name, &own.name);
            j.same_option("units", header.device.units, own.units);
            j.same_option(
                "noise_percent",
                header.device.noise_percent.as_ref(),
                own.noise_percent.as_ref(),
            );
        });
    });
    let mut times = BTreeMap::new();
    for (i, sample) in profile.samples.iter().enumerate() {
        j.field("samples", |j| {
            j.index(i, |j| again(&mut sim, profile, sample, &mut times, j))
        });
    }
    for (i, failure) in profile.failures.iter().enumerate() {
        let runs = failure.tasks.iter().map(|t| (&t.id, t.batch, t.share));
        let measured = configuration(profile, runs).map(|c| measure(&mut sim, &c, None, 1, 0));
        if matches!(measured, Some(Ok(_))) {
            j.field("failures", |j| {
                j.index(i, |j| {
                    j.contradiction("reason", &failure.reason, "none: it can be simulated")
                });
            });
        }
    }
}

/// Measures a sample again. `times` counts how often each configuration was measured before, which
/// determines its noise.
fn again(
    sim: &mut Sim,
    profile: &Profile,
    sample: &Sample,
    times: &mut BTreeMap<Vec<Setting>, u32>,
    j: &mut Judge,
) {
    let runs = sample.tasks.iter().map(|t| (&t.id, t.batch, t.share));
    let Some(runs) = configuration(profile, runs) else {
        return j.contradiction("tasks", "these tasks", "tasks in the order of the workload");
    };
    if sample.repeats > MOST_REPEATS {
        return j.contradiction("repeats", sample.repeats, format!("at most {MOST_REPEATS}"));
    }
    let before = times.entry(runs.clone()).or_default();
    let measured = measure(sim, &runs, profile.header.window, sample.repeats, *before);
    *before += 1;
    let measured = match measured {
        Ok(measured) => measured,
        Err(error) => return j.contradiction("tasks", "a measurement", error),
    };
    j.same("window_s", sample.window.get(), measured.window.get());
    for (i, (task, rate)) in sample.tasks.iter().zip(&measured.rates).enumerate() {
        j.field("tasks", |j| {
            j.index(i, |j| {
                j.same(
                    "samples_per_s",
                    task.throughput.get(),
                    rate.throughput.get(),
                );
                j.same_option(
                    "stderr_samples_per_s",
                    task.stderr.map(units::SamplesPerSec::get),
                    rate.stderr.map(units::SamplesPerSec::get),
                );
                // A simulation launches nothing, so it has no launch costs.
                let run = task.launch.run;
                let startup = task.launch.startup.map(Seconds::get);
                j.same_option("startup_s", startup, None);
                j.same_option("run_s", run.map(|run| run.time.get()), None);
            });
        });
    }
}

fn measure(
    sim: &mut Sim,
    runs: &[Setting],
    asked: Option<Seconds>,
    repeats: u32,
    before: u32,
) -> Result<Measurement, String> {
    let least = asked.unwrap_or(Seconds::ZERO);
    let window = Window {
        least,
        most: least,
        precision: 1.0,
        repeats,
    };
    sim.measure_again(runs, &window, before)
        .map_err(|error| error.to_string())
}

/// The settings of a configuration; `None` unless its tasks are in the order of the workload.
fn configuration<'a>(
    profile: &Profile,
    runs: impl Iterator<Item = (&'a TaskId, Batch, Share)>,
) -> Option<Vec<Setting>> {
    let runs: Option<Vec<Setting>> = runs
        .map(|(id, batch, share)| {
            Some(Setting {
                task: profile.header.workload.task_index(id)?,
                batch,
                share,
            })
        })
        .collect();
    runs.filter(|runs| runs.windows(2).all(|w| w[0].task < w[1].task))
}
