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

/// A measured configuration.
pub fn sample() -> impl Strategy<Value = wire::ProfileSample> {
    let one = || (batch(), share_percent(), positive(), option::of(positive()));
    let tasks = names().prop_flat_map(move |names| (Just(names.clone()), vec(one(), names.len())));
    (any::<u64>(), tasks, positive(), any::<u32>()).prop_map(
        |(config, tasks, window_s, repeats)| {
            let tasks = tasks.0.into_iter().zip(tasks.1);
            wire::ProfileSample {
                schema: wire::ProfileSample::SCHEMA.to_owned(),
                record: "sample".to_owned(),
                config,
                tasks: tasks
                    .map(
                        |(id, (batch, share_percent, samples_per_s, stderr))| wire::MeasuredTask {
                            id,
                            batch,
                            share_percent,
                            samples_per_s,
                            stderr_samples_per_s: stderr,
                        },
                    )
                    .collect(),
                window_s,
                repeats,
            }
        },
    )
}

pub fn choices() -> impl Strategy<Value = Vec<wire::Choice>> {
    let choice = (name(), batch(), share_percent());
    let choice = choice.prop_map(|(id, batch, share_percent)| wire::Choice {
        id,
        batch,
        share_percent,
    });
    vec(choice, 0..3)
}

/// A configuration that failed.
pub fn failure() -> impl Strategy<Value = wire::ProfileFailure> {
    (any::<u64>(), choices(), text()).prop_map(|(config, tasks, reason)| wire::ProfileFailure {
        schema: wire::ProfileFailure::SCHEMA.to_owned(),
        record: "failure".to_owned(),
        config,
        tasks,
        reason,
    })
}

/// The last record of a profile.
pub fn end() -> impl Strategy<Value = wire::ProfileEnd> {
    (any::<u64>(), any::<u64>(), positive()).prop_map(|(measured, failed, cost_s)| {
        wire::ProfileEnd {
            schema: wire::ProfileEnd::SCHEMA.to_owned(),
            record: "end".to_owned(),
            measured,
            failed,
            cost_s,
            stopped: StopReason::Budget,
        }
    })
}
