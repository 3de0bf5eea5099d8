//! Workloads.

use doc::wire::{self, Wire};
use doc::*;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;

pub fn job() -> BoxedStrategy<wire::Job> {
    let argv = vec(text().prop_map(|t| format!("p{t}")), 1..3);
    let env = proptest::collection::btree_map("[A-Z]{1,4}", text(), 0..3);
    let rest = (vec(text(), 0..2), vec(text(), 0..2), vec(text(), 0..2));
    let regex = option::of(Just("samples=(?P<samples>[0-9]+)".to_owned()));
    (argv, env, option::of(text()), regex, any::<bool>(), rest)
        .prop_map(
            |(argv, env, cwd, regex, pool, (download, upload, resume))| {
                let none = regex.is_none() && !pool && env.is_empty();
                wire::Job {
                    argv,
                    env,
                    cwd,
                    progress: Progress { regex, none },
                    pool,
                    download,
                    upload,
                    resume,
                }
            },
        )
        .boxed()
}

fn layer() -> impl Strategy<Value = LayerDescription> {
    let n = 1..4096_u32;
    prop_oneof![
        (n.clone(), n.clone(), 1..8_u32).prop_map(|(i, o, k)| LayerDescription::Conv {
            in_channels: i,
            out_channels: o,
            kernel: k,
            stride: 1,
            out_pixels: 16,
            groups: 1,
        }),
        (n.clone(), n.clone()).prop_map(|(i, o)| LayerDescription::Linear {
            in_features: i,
            out_features: o,
        }),
        (n.clone(), n.clone())
            .prop_map(|(channels, pixels)| LayerDescription::Norm { channels, pixels }),
        (n.clone(), n).prop_map(|(channels, out_pixels)| LayerDescription::Pool {
            channels,
            out_pixels
        }),
    ]
}

/// A law, or a table of rounds that rise and progress that falls.
fn efficiency() -> BoxedStrategy<wire::Efficiency> {
    let source = prop::sample::select(
        &[
            EfficiencySource::Declared,
            EfficiencySource::Measured,
            EfficiencySource::Learnt,
        ][..],
    );
    let scale = (1e-3..1e9_f64, option::of((0.1..=1.0_f64, 1.0..10.0_f64))).prop_map(
        |(noise_scale, around)| wire::Efficiency {
            noise_scale: Some(noise_scale),
            interval: around.map(|(low, high)| [low * noise_scale, high * noise_scale]),
            ..wire::Efficiency::default()
        },
    );
    let around = option::of((0.1..=1.0_f64, 1.0..10.0_f64));
    let table = (1e-3..1e3_f64, any::<bool>(), around).prop_map(|(value, by_rounds, around)| {
        let row = |k: u64| {
            let factor = (k + 1) as f64;
            let value = if by_rounds {
                value * factor
            } else {
                value / factor
            };
            wire::EfficiencyRow {
                batch: 8 + k,
                progress: (!by_rounds).then_some(value),
                rounds: by_rounds.then_some(value),
                interval: around.map(|(low, high)| [low * value, high * value]),
            }
        };
        wire::Efficiency {
            table: (0..3).map(row).collect(),
            ..wire::Efficiency::default()
        }
    });
    (prop_oneof![scale, table], source)
        .prop_map(|(efficiency, source)| wire::Efficiency {
            source,
            ..efficiency
        })
        .boxed()
}

fn task() -> BoxedStrategy<wire::Task> {
    let what = prop_oneof![
        text().prop_map(|model| (Some(model), Vec::new())),
        vec(layer(), 1..3).prop_map(|layers| (None, layers)),
    ];
    let memory = (0..=1_u64 << 53, 0..=1_u64 << 53).prop_map(|(f, s)| wire::Memory {
        fixed_bytes: f,
        bytes_per_sample: s,
    });
    let sizes = (
        proptest::collection::btree_set(batch(), 1..4),
        option::of(any::<prop::sample::Index>()),
        option::of(positive()),
    )
        .prop_flat_map(|(sizes, index, rounds)| {
            let sizes: Vec<u64> = sizes.into_iter().collect();
            let reference = index.map(|index| *index.get(&sizes));
            (Just((sizes, reference, rounds)), option::of(efficiency()))
        });
    let costs = option::of((positive(), positive()));
    let host = (option::of(positive()), option::of(positive()));
    let round = (option::of(count()), option::of(update_bytes()));
    let rest = (
        option::of(positive()),
        option::of(memory),
        option::of(job()),
    );
    (
        what,
        option::of(8..4096_u32),
        costs,
        sizes,
        round,
        rest,
        host,
    )
        .prop_map(
            |((model, layers), input_pixels, costs, sizes, round, rest, host)| wire::Task {
                id: String::new(),
                model,
                input_pixels,
                layers,
                flops_per_sample: costs.map(|c| c.0),
                bytes_per_sample: costs.map(|c| c.1),
                batch_sizes: sizes.0.0,
                batch: sizes.0.1,
                efficiency: sizes.1,
                rounds_to_target: sizes.0.2,
                samples: round.0,
                update_bytes: round.1,
                weight: rest.0,
                memory: rest.1,
                host_us_per_step: host.0,
                host_us_per_sample: host.1,
                job: rest.2,
            },
        )
        .boxed()
}

fn device() -> BoxedStrategy<wire::Device> {
    let kind = prop_oneof![
        Just(DeviceKind::Auto),
        Just(DeviceKind::Sim),
        Just(DeviceKind::Cpu),
        Just(DeviceKind::Cuda),
        Just(DeviceKind::Replay),
    ];
    let host = vec(positive(), 4).prop_map(|v| HostDescription {
        us_per_step: v[0],
        us_per_sample: v[1],
        contention: v[2],
        launch_us: v[3],
    });
    let described = (
        text(),
        1..=10_000_u32,
        positive(),
        positive(),
        option::of(host),
    )
        .prop_map(
            |(name, sms, fp32_tflops, memory_gb_per_s, host)| GpuDescription {
                name,
                sms,
                fp32_tflops,
                memory_gb_per_s,
                memory_bytes: None,
                host,
            },
        );
    let gpu = prop_oneof![
        Just((None, None)),
        text().prop_map(|name| (Some(name), None)),
        described.prop_map(|gpu| (None, Some(gpu))),
    ];
    let memory = option::of(0..=1_u64 << 53);
    let gpus = prop_oneof![
        (2..=64_u32).prop_map(wire::Gpus::Count),
        Just(wire::Gpus::Names(vec![
            "GPU-a".to_owned(),
            "GPU-b".to_owned()
        ])),
    ];
    (kind, gpu, memory, option::of(gpus))
        .prop_map(|(kind, gpu, memory_bytes, gpus)| wire::Device {
            kind,
            gpu: gpu.0,
            gpu_description: gpu.1,
            memory_bytes,
            gpus,
        })
        .boxed()
}

pub fn workload_of(names: Vec<String>) -> BoxedStrategy<wire::Workload> {
    let tasks = vec(task(), names.len());
    (
        option::of(text()),
        device(),
        option::of(link()),
        tasks,
        provenance(),
    )
        .prop_map(move |(id, device, link, mut tasks, provenance)| {
            for (task, name) in tasks.iter_mut().zip(&names) {
                task.id.clone_from(name);
            }
            wire::Workload {
                schema: wire::Workload::SCHEMA.to_owned(),
                id,
                device,
                link,
                tasks,
                provenance,
            }
        })
        .boxed()
}

/// A workload.
pub fn workload() -> impl Strategy<Value = wire::Workload> {
    names().prop_flat_map(workload_of)
}
