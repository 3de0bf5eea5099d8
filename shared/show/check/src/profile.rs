//! Checks a profile: measurements of the simulator are repeated, and measurements of a real device are checked for
//! plausibility.

mod plausible;
mod simulated;

use std::collections::BTreeSet;

use doc::{DesignKind, DeviceKind, Profile, StopReason};

use crate::judge::Judge;
use crate::{efficiency, model, workload};

/// Judges a profile. A JSON path names the record: `$.samples[3]` is the fourth sample record.
pub fn judge(profile: &Profile, j: &mut Judge) {
    j.field("header", |j| {
        j.field("workload", |j| workload::judge(&profile.header.workload, j));
        model::kind(&profile.header.workload, &profile.header.device, j);
        if profile.header.device.kind == DeviceKind::Auto {
            j.field("device", |j| {
                j.contradiction("kind", "auto", "the device that was used")
            });
        }
    });
    design(profile, j);
    counts(profile, j);
    efficiency::of_profile(profile, j);
    configurations(profile, j);
    let imported = profile.header.design == DesignKind::Imported;
    match profile.header.device.kind {
        DeviceKind::Sim if !imported => simulated::judge(profile, j),
        _ => {
            plausible::judge(profile, j);
            let why = "measured on a device; only its plausibility was looked at";
            j.unjudged("samples", why);
        }
    }
}

/// Checks the design. Only an adaptive design serves a plan and stops when the expected gain is small; only an
/// import has measurements made by others.
fn design(profile: &Profile, j: &mut Judge) {
    let header = &profile.header;
    let adaptive = header.design == DesignKind::Adaptive;
    j.field("header", |j| {
        let claimed = doc::name_of(&header.design);
        if adaptive != header.aim.is_some() {
            let truth = match adaptive {
                true => "another: there is no aim",
                false => "adaptive: there is an aim",
            };
            j.contradiction("design", &claimed, truth);
        }
        if header.design == DesignKind::Imported && header.device.kind != DeviceKind::Replay {
            j.contradiction("design", claimed, "another: it was measured on a device");
        }
    });
    let stopped = profile.end.as_ref().map(|end| end.stopped);
    if stopped == Some(StopReason::Tolerance) && !adaptive {
        let truth = "another: only an adaptive design knows a gain";
        j.field("end", |j| j.contradiction("stopped", "tolerance", truth));
    }
    let last = profile.failures.iter().max_by_key(|f| f.config);
    let alone = last.is_some_and(|f| f.tasks.len() == 1);
    if stopped == Some(StopReason::Failure) && !alone {
        let truth = "another: the last failure is not one of a task alone";
        j.field("end", |j| j.contradiction("stopped", "failure", truth));
    }
}

/// Judges the counts in the end record against the earlier records.
fn counts(profile: &Profile, j: &mut Judge) {
    let Some(end) = &profile.end else {
        return j.unjudged("end", "the profile was stopped half-way");
    };
    j.field("end", |j| {
        j.same("measured", end.measured, profile.samples.len() as u64);
        j.same("failed", end.failed, profile.failures.len() as u64);
        let each = profile.samples.iter();
        let cost: f64 = each.map(|s| s.window.get() * f64::from(s.repeats)).sum();
        j.number("cost_s", end.cost.get(), cost);
    });
}

/// Checks that every configuration number is used once, and that batch sizes are those of the workload.
fn configurations(profile: &Profile, j: &mut Judge) {
    let tasks = &profile.header.workload.tasks;
    let mut seen = BTreeSet::new();
    let count = (profile.samples.len() + profile.failures.len()) as u64;
    for (i, sample) in profile.samples.iter().enumerate() {
        j.field("samples", |j| {
            j.index(i, |j| {
                if !seen.insert(sample.config) {
                    j.contradiction("config", sample.config, "a number that is used once");
                }
                if profile.end.is_some() && sample.config >= count {
                    j.contradiction(
                        "config",
                        sample.config,
                        format!("below {count}, counted from 0"),
                    );
                }
                if sample.repeats == 0 {
                    j.contradiction("repeats", 0, "1 or more");
                }
                for (k, run) in sample.tasks.iter().enumerate() {
                    let known = profile.header.workload.task_index(&run.id);
                    let listed = known.is_some_and(|t| tasks[t].batch_sizes.contains(&run.batch));
                    let given = matches!(
                        profile.header.design,
                        DesignKind::Given | DesignKind::Imported
                    );
                    if !listed && !given {
                        let truth = "one of the workload's batch sizes";
                        j.field("tasks", |j| {
                            j.index(k, |j| j.contradiction("batch", run.batch, truth))
                        });
                    }
                }
            });
        });
    }
    for (i, failure) in profile.failures.iter().enumerate() {
        if !seen.insert(failure.config) {
            j.field("failures", |j| {
                j.index(i, |j| {
                    j.contradiction("config", failure.config, "a number that is used once")
                });
            });
        }
    }
}
