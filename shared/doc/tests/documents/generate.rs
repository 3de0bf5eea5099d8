//! Random documents of every kind that are valid in all they say.

use std::collections::BTreeMap;

use doc::wire::{self, Wire};
use doc::*;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

/// A positive number of any size that JSON can hold.
pub fn positive() -> impl Strategy<Value = f64> {
    prop_oneof![
        proptest::num::f64::POSITIVE | proptest::num::f64::NORMAL,
        1e-3..1e6_f64,
        (1..10_000_u32).prop_map(f64::from),
    ]
}

/// Any finite number.
fn finite() -> impl Strategy<Value = f64> {
    prop_oneof![
        proptest::num::f64::NORMAL | proptest::num::f64::SUBNORMAL | proptest::num::f64::ZERO,
        -1e3..1e3_f64,
    ]
}

fn share_percent() -> impl Strategy<Value = f64> {
    (1..=10_000_u32).prop_map(|h| f64::from(h) / 100.0)
}

fn batch() -> impl Strategy<Value = u64> {
    1..=1_u64 << 20
}

fn count() -> impl Strategy<Value = u64> {
    1..=1_u64 << 53
}

fn text() -> impl Strategy<Value = String> {
    "[ -~\u{e4}\u{4e2d}\u{1f600}\"\\\\\n\t]{0,12}"
}

fn name() -> impl Strategy<Value = String> {
    "[A-Za-z0-9_][A-Za-z0-9._-]{0,12}"
}

/// 1 to 4 names that differ.
fn names() -> impl Strategy<Value = Vec<String>> {
    vec(name(), 1..=4).prop_map(|mut names| {
        for (i, name) in names.iter_mut().enumerate() {
            name.push_str(&i.to_string());
        }
        names
    })
}

fn provenance() -> impl Strategy<Value = Vec<Provenance>> {
    let one = (text(), text(), option::of(any::<u64>()), option::of(text()));
    let one = one.prop_map(|(tool, version, seed, device)| Provenance {
        tool,
        version,
        seed,
        device,
    });
    vec(one, 0..3)
}

fn update_bytes() -> impl Strategy<Value = wire::UpdateBytes> {
    (0..=1_u64 << 53, 0..=1_u64 << 53).prop_map(|(down, up)| wire::UpdateBytes { down, up })
}

fn link() -> impl Strategy<Value = wire::Link> {
    let duplex = prop_oneof![Just(Duplex::Full), Just(Duplex::Half), Just(Duplex::Shared)];
    (positive(), positive(), duplex).prop_map(|(down_bps, up_bps, duplex)| wire::Link {
        down_bps,
        up_bps,
        duplex,
    })
}

fn job() -> impl Strategy<Value = wire::Job> {
    let argv = vec(text().prop_map(|t| format!("p{t}")), 1..3);
    let env = proptest::collection::btree_map("[A-Z]{1,4}", text(), 0..3);
    let rest = (vec(text(), 0..2), vec(text(), 0..2), vec(text(), 0..2));
    let regex = option::of(Just("samples=(?P<samples>[0-9]+)".to_owned()));
    (argv, env, option::of(text()), regex, any::<bool>(), rest).prop_map(
        |(argv, env, cwd, regex, pool, (download, upload, resume))| wire::Job {
            argv,
            env,
            cwd,
            progress: Progress { regex },
            pool,
            download,
            upload,
            resume,
        },
    )
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

fn task() -> impl Strategy<Value = wire::Task> {
    let what = prop_oneof![
        text().prop_map(|model| (Some(model), Vec::new())),
        vec(layer(), 1..3).prop_map(|layers| (None, layers)),
    ];
    let memory = (0..=1_u64 << 53, 0..=1_u64 << 53).prop_map(|(f, s)| wire::Memory {
        fixed_bytes: f,
        bytes_per_sample: s,
    });
    let sizes = proptest::collection::btree_set(batch(), 1..4);
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
                batch_sizes: sizes.into_iter().collect(),
                samples: round.0,
                update_bytes: round.1,
                weight: rest.0,
                memory: rest.1,
                host_us_per_step: host.0,
                host_us_per_sample: host.1,
                job: rest.2,
            },
        )
}

fn device() -> impl Strategy<Value = wire::Device> {
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
    (kind, gpu, memory, option::of(2..=64_u32)).prop_map(|(kind, gpu, memory_bytes, gpus)| {
        wire::Device {
            kind,
            gpu: gpu.0,
            gpu_description: gpu.1,
            memory_bytes,
            gpus,
        }
    })
}

fn workload_of(names: Vec<String>) -> impl Strategy<Value = wire::Workload> {
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
}

/// A workload.
pub fn workload() -> impl Strategy<Value = wire::Workload> {
    names().prop_flat_map(workload_of)
}

fn fingerprint() -> impl Strategy<Value = DeviceFingerprint> {
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
        provenance(),
    )
        .prop_map(
            |(workload, device, design, seed, provenance)| wire::ProfileHeader {
                schema: wire::ProfileHeader::SCHEMA.to_owned(),
                record: "header".to_owned(),
                workload,
                device,
                design,
                seed,
                provenance,
            },
        )
}

/// A measured configuration.
pub fn sample() -> impl Strategy<Value = wire::ProfileSample> {
    let one = (batch(), share_percent(), positive(), option::of(positive()));
    let tasks =
        names().prop_flat_map(move |names| (Just(names.clone()), vec(one.clone(), names.len())));
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

fn choices() -> impl Strategy<Value = Vec<wire::Choice>> {
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

fn rate_rows(names: &[String], rates: &[f64]) -> Vec<wire::RateRow> {
    let single = |name: &String, &rate: &f64| wire::RateRow {
        active: vec![name.clone()],
        samples_per_s: BTreeMap::from([(name.clone(), rate)]),
    };
    let mut rows: Vec<_> = names.iter().zip(rates).map(|(n, r)| single(n, r)).collect();
    if names.len() > 1 {
        rows.push(wire::RateRow {
            active: names.to_vec(),
            samples_per_s: names.iter().cloned().zip(rates.iter().copied()).collect(),
        });
    }
    rows
}

fn points() -> impl Strategy<Value = Vec<wire::ParetoPoint>> {
    let point = (finite(), finite(), finite(), finite(), choices());
    let point = point.prop_map(
        |(objective, mismatch, total, fairness, tasks)| wire::ParetoPoint {
            objective,
            mismatch,
            total_samples_per_s: total,
            fairness,
            tasks,
        },
    );
    vec(point, 0..3)
}

fn search() -> impl Strategy<Value = Search> {
    (any::<u64>(), option::of(finite()), option::of(finite())).prop_map(
        |(points, bound, seconds)| Search {
            points,
            proof: Proof::Bounded,
            bound,
            seconds,
        },
    )
}

/// Fills the parts of a plan that are kept as they stand.
fn decorate(
    mut plan: wire::Plan,
    numbers: &[f64],
    fronts: (Vec<wire::ParetoPoint>, Vec<wire::ParetoPoint>),
    search: Option<Search>,
) -> wire::Plan {
    let n = |i: usize| numbers[i];
    let first = plan.tasks[0].id.clone();
    plan.objective = Some(wire::Objective {
        kind: ObjectiveKind::MaxMin,
        value: n(0),
    });
    plan.constraints = Some(wire::Constraints {
        share_step_percent: n(1),
        rv_percent: Some(n(2)),
        starvation_floor: Some(n(3)),
        memory_bytes: Some(17),
        batch: BatchPolicy::Same,
        mismatch: Some(n(4)),
        balance: Balance::Time,
    });
    plan.mismatch = Some(n(5));
    plan.unconstrained_objective = Some(n(6));
    plan.baselines.push(Baseline {
        name: "sharing".to_owned(),
        total_samples_per_s: n(7),
        fairness: n(8),
        objective: n(9),
        feasible: true,
        tasks: Vec::new(),
    });
    plan.explanation.push(wire::Marginal {
        id: first.clone(),
        share_percent: n(10),
        objective_change: n(11),
        samples_per_s_change: BTreeMap::from([(first.clone(), n(12))]),
    });
    plan.gpus.push(wire::GpuPlan {
        gpu: 0,
        tasks: vec![first],
        rv_percent: n(13),
        total_samples_per_s: n(14),
        fairness: n(15),
        objective: n(16),
    });
    (plan.pareto, plan.alternatives) = fronts;
    plan.search = search;
    plan
}

fn plan_task() -> impl Strategy<Value = wire::PlanTask> {
    let estimate = (positive(), positive(), positive()).prop_map(|(a, b, c)| wire::Estimate {
        samples_per_s: a,
        low_samples_per_s: b,
        high_samples_per_s: c,
    });
    let run = (
        option::of(batch()),
        option::of(share_percent()),
        option::of(0..8_u32),
    );
    let round = (option::of(count()), option::of(update_bytes()));
    (run, round, option::of(estimate), option::of(positive())).prop_map(
        |((batch, share_percent, gpu), (samples, update_bytes), throughput, solo)| wire::PlanTask {
            id: String::new(),
            batch,
            share_percent,
            gpu,
            samples,
            update_bytes,
            throughput,
            solo_samples_per_s: solo,
        },
    )
}

/// A plan with a table of rates, or a workload, or neither.
pub fn plan() -> impl Strategy<Value = wire::Plan> {
    let parts = names().prop_flat_map(|names| {
        let n = names.len();
        let carried = option::of(workload_of(names.clone()));
        (
            Just(names),
            vec(plan_task(), n),
            vec(positive(), n),
            carried,
        )
    });
    let head = (
        option::of(text()),
        option::of(link()),
        any::<bool>(),
        provenance(),
    );
    let extra = (
        vec(finite(), 17),
        (points(), points()),
        option::of(search()),
    );
    (parts, head, extra).prop_map(|((names, mut tasks, rates, workload), head, extra)| {
        for (task, name) in tasks.iter_mut().zip(&names) {
            task.id.clone_from(name);
        }
        let plan = wire::Plan {
            schema: wire::Plan::SCHEMA.to_owned(),
            id: head.0,
            link: head.1,
            tasks,
            rates: if head.2 {
                rate_rows(&names, &rates)
            } else {
                Vec::new()
            },
            rv_percent: Some(f64::from(names.len() as u32) * 66.67),
            objective: None,
            constraints: None,
            mismatch: None,
            unconstrained_objective: None,
            baselines: Vec::new(),
            pareto: Vec::new(),
            pareto_fairness: Vec::new(),
            alternatives: Vec::new(),
            explanation: Vec::new(),
            gpus: Vec::new(),
            search: None,
            infeasible: Vec::new(),
            model: None,
            workload,
            provenance: head.3,
        };
        decorate(plan, &extra.0, extra.1, extra.2)
    })
}

/// A timeline of a plan; its phases overlap at random.
pub fn timeline() -> impl Strategy<Value = wire::Timeline> {
    (
        plan(),
        vec(positive(), 8),
        finite(),
        search(),
        any::<bool>(),
    )
        .prop_map(|(plan, numbers, gap, search, proven)| {
            let names: Vec<String> = plan.tasks.iter().map(|t| t.id.clone()).collect();
            let phase = |(i, name): (usize, &String)| {
                let (a, b) = (numbers[i], numbers[i + 4]);
                wire::Phase {
                    task: name.clone(),
                    phase: PhaseKind::Compute,
                    start_s: a.min(b),
                    end_s: a.max(b),
                }
            };
            wire::Timeline {
                schema: wire::Timeline::SCHEMA.to_owned(),
                id: plan.id.clone(),
                rates: RatesKind::Fixed,
                upload_order: names.iter().rev().cloned().collect(),
                batches: vec![wire::TaskBatch {
                    id: names[0].clone(),
                    batch: 64,
                }],
                phases: names.iter().enumerate().map(phase).collect(),
                download_order: names,
                makespan_s: numbers[0],
                lower_bound_s: numbers[1],
                gap,
                proven,
                overlap_off_s: numbers[2],
                search,
                plan,
                provenance: Vec::new(),
            }
        })
}

/// A launch event with everything an event may have.
pub fn event() -> impl Strategy<Value = wire::RunEvent> {
    let numbers = vec(positive(), 8);
    let counts = (any::<u32>(), any::<u64>(), any::<i32>());
    (
        fingerprint(),
        numbers,
        counts,
        text(),
        timeline(),
        plan(),
        finite(),
    )
        .prop_map(
            |(device, n, (small, large, signed), text, timeline, plan, loss)| wire::RunEvent {
                schema: wire::RunEvent::SCHEMA.to_owned(),
                event: EventKind::Launch,
                time_s: n[0],
                round: Some(small),
                task: Some("a".to_owned()),
                batch: Some(large),
                share_percent: Some(n[1]),
                pid: Some(small),
                samples: Some(large),
                samples_per_s: Some(n[2]),
                predicted_samples_per_s: Some(n[3]),
                loss: Some(loss),
                phase: Some(PhaseKind::Upload),
                start_s: Some(n[4]),
                end_s: Some(n[5]),
                code: Some(signed),
                signal: Some(signed),
                restarts: Some(small),
                reason: Some(text),
                ok: Some(true),
                makespan_s: Some(n[6]),
                planned_makespan_s: Some(n[7]),
                tasks: vec![wire::TaskSummary {
                    id: "a".to_owned(),
                    finished: true,
                    samples: large,
                    samples_per_s: Some(n[2]),
                    predicted_samples_per_s: None,
                    first_loss: Some(loss),
                    last_loss: None,
                    restarts: small,
                    code: None,
                    signal: Some(signed),
                }],
                device: Some(device),
                timeline: Some(Box::new(timeline)),
                plan: Some(Box::new(plan)),
                provenance: Vec::new(),
            },
        )
}
