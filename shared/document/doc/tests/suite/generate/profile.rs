//! Records of a profile.

use doc::wire::{self, Wire};
use doc::*;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;

pub fn fingerprint() -> impl Strategy<Value = DeviceFingerprint> {
    (
        text(),
        any::<bool>(),
        option::of(any::<u32>()),
        option::of(text()),
    )
        .prop_map(|(name, simulated, units, detail)| DeviceFingerprint {
            kind: DeviceKind::Sim,
            name,
            simulated,
            units,
            detail,
            noise_percent: Some("0.5".to_owned()),
        })
}

/// The header of a profile.
pub fn header() -> impl Strategy<Value = wire::ProfileHeader> {
    let design = prop_oneof![
        Just(DesignKind::Grid),
        Just(DesignKind::Random),
        Just(DesignKind::Adaptive),
        Just(DesignKind::Given),
        Just(DesignKind::Imported),
    ];
    (
        workload(),
        fingerprint(),
        design,
        any::<u64>(),
        option::of(positive()),
        provenance(),
    )
        .prop_map(|(workload, device, design, seed, window_s, provenance)| {
            wire::ProfileHeader {
                schema: wire::ProfileHeader::SCHEMA.to_owned(),
                record: "header".to_owned(),
                workload,
                device,
                design,
                seed,
                window_s,
                aim: None,
                provenance,
            }
        })
}

/// GPU utilisation, with the memory of the maximum number of tasks.
fn gpu_use() -> impl Strategy<Value = wire::GpuUse> {
    let part = || option::of(0.0..=100.0);
    let each: u64 = 1 << 40;
    let memory = option::of((vec(0..each, 4), 4 * each..=u64::MAX));
    (part(), part(), part(), memory).prop_map(|(utilisation, active, occupancy, memory)| {
        let (tasks, all) = memory.unzip();
        wire::GpuUse {
            utilisation_percent: utilisation,
            sm_active_percent: active,
            sm_occupancy_percent: occupancy,
            memory_bytes: all,
            tasks_memory_bytes: tasks,
        }
    })
}

/// Gradient statistics of some steps.
pub fn gradient() -> impl Strategy<Value = GradientNoise> {
    let of = |(steps, squared_norm, variance)| GradientNoise {
        steps,
        squared_norm,
        variance,
    };
    (count(), finite(), finite()).prop_map(of)
}

/// A measured configuration.
pub fn sample() -> impl Strategy<Value = wire::ProfileSample> {
    let launch = || (option::of(0.0..1e3), option::of((1e3..1e6, 1_u64..1 << 53)));
    let one = move || {
        let rate = (positive(), option::of(positive()));
        let noise = option::of(gradient());
        (batch(), share_percent(), rate, launch(), noise)
    };
    let tasks = names().prop_flat_map(move |names| (Just(names.clone()), vec(one(), names.len())));
    (
        any::<u64>(),
        tasks,
        positive(),
        any::<u32>(),
        option::of(gpu_use()),
    )
        .prop_map(|(config, tasks, window_s, repeats, gpu)| {
            let gpu = gpu.map(|mut gpu| {
                gpu.tasks_memory_bytes = gpu
                    .tasks_memory_bytes
                    .map(|all| all[..tasks.1.len()].to_vec());
                gpu
            });
            let tasks = tasks.0.into_iter().zip(tasks.1);
            wire::ProfileSample {
                schema: wire::ProfileSample::SCHEMA.to_owned(),
                record: "sample".to_owned(),
                config,
                tasks: tasks
                    .map(
                        |(
                            id,
                            (
                                batch,
                                share_percent,
                                (samples_per_s, stderr),
                                (startup_s, run),
                                gradient,
                            ),
                        )| {
                            wire::MeasuredTask {
                                id,
                                batch,
                                share_percent,
                                samples_per_s,
                                stderr_samples_per_s: stderr,
                                gradient,
                                startup_s,
                                run_s: run.map(|(time, _)| time),
                                run_samples: run.map(|(_, samples)| samples),
                            }
                        },
                    )
                    .collect(),
                window_s,
                repeats,
                gpu,
            }
        })
}

pub fn choices() -> impl Strategy<Value = Vec<wire::Choice>> {
    let choice =
        (name(), batch(), share_percent()).prop_map(|(id, batch, share_percent)| wire::Choice {
            id,
            batch,
            share_percent,
        });
    vec(choice, 0..3)
}

/// A configuration that failed.
pub fn failure() -> impl Strategy<Value = wire::ProfileFailure> {
    let cause = option::of(Just(FailureCause::Crash));
    let more = (cause, any::<bool>(), option::of(text()));
    (any::<u64>(), choices(), text(), more).prop_map(
        |(config, tasks, reason, (cause, named, output))| wire::ProfileFailure {
            schema: wire::ProfileFailure::SCHEMA.to_owned(),
            record: "failure".to_owned(),
            config,
            task: tasks.first().filter(|_| named).map(|t| t.id.clone()),
            tasks,
            reason,
            cause,
            output,
        },
    )
}

/// The last record of a profile.
pub fn end() -> impl Strategy<Value = wire::ProfileEnd> {
    let scale = option::of((name(), positive(), positive(), any::<u64>()));
    let counts = (any::<u64>(), any::<u64>());
    (counts, positive(), scale).prop_map(|((measured, failed), cost_s, scale)| {
        let scale = scale.map(
            |(id, noise_scale, stderr, steps)| wire::MeasuredNoiseScale {
                id,
                noise_scale,
                stderr,
                steps,
            },
        );
        wire::ProfileEnd {
            noise_scales: scale.into_iter().collect(),
            schema: wire::ProfileEnd::SCHEMA.to_owned(),
            record: "end".to_owned(),
            measured,
            failed,
            cost_s,
            stopped: StopReason::Budget,
        }
    })
}
