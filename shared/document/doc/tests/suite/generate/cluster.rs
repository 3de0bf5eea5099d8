//! Clusters, their schedules, and what a live system and a scheduler tell one another.

use doc::wire::{self, Wire};
use doc::*;
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use serde_json::json;
use units::{Seconds, TaskId};

use super::*;

/// Names of GPUs and their types end in a letter, so that `NAME-1` cannot be another's name.
fn kinds() -> impl Strategy<Value = Vec<String>> {
    let letters = ["a", "b", "c"].map(str::to_owned);
    vec("[A-Za-z0-9]{0,8}", 1..=3).prop_map(move |names| {
        names
            .iter()
            .zip(&letters)
            .map(|(n, l)| n.clone() + l)
            .collect()
    })
}

fn gpu() -> impl Strategy<Value = wire::ClusterGpu> {
    let numbers = (option::of(1..20_u32), positive(), option::of(positive()));
    (
        option::of("[A-Z]{2,8}"),
        numbers,
        option::of(name()),
        option::of("(GPU|MIG)-[0-9a-f]{4}(/[0-9]){0,2}"),
    )
        .prop_map(|(id, (count, memory, bus), node, uuid)| wire::ClusterGpu {
            id,
            kind: String::new(),
            count,
            node,
            uuid,
            memory_bytes: Some(memory),
            bus_bytes_per_s: bus,
        })
}

fn cluster_job() -> BoxedStrategy<wire::ClusterJob> {
    let counts = (1..50_u32, 1..9_u32);
    let times = (positive(), 0.0..1e9_f64);
    let others = btree_map("[a-z]{1,4}", positive(), 0..3);
    let layer =
        (positive(), positive()).prop_map(|(bytes, compute_s)| LayerGroup { bytes, compute_s });
    let rest = (
        option::of(positive()),
        option::of(positive()),
        vec(layer, 0..3),
    );
    (0.5..9e3_f64, times, counts, others, rest, option::of(job()))
        .prop_map(|(weight, (train, arrival_s), counts, others, rest, job)| {
            let (samples_per_task, model_bytes, layers) = rest;
            let mut train_s = others.clone();
            train_s.insert(String::new(), train);
            wire::ClusterJob {
                id: String::new(),
                weight,
                arrival_s,
                rounds: counts.0,
                tasks_per_round: counts.1,
                gang: false,
                same_node: false,
                train_s,
                sync_s: others,
                samples_per_task,
                model_bytes,
                layers,
                memory_bytes: None,
                job,
            }
        })
        .boxed()
}

/// A job that can run on GPUs of a type, within its memory.
fn fit(mut job: wire::ClusterJob, id: String, gpu: &wire::ClusterGpu) -> wire::ClusterJob {
    let train = job.train_s.remove("").expect("the time to be named");
    job.train_s.insert(gpu.kind.clone(), train);
    // Minimum number of GPUs: those of the first group, which are all of one node if a node is given.
    let fits = job.tasks_per_round <= gpu.count.unwrap_or(1);
    job.gang = fits && job.rounds.is_multiple_of(3);
    job.same_node = job.gang && gpu.node.is_some();
    if job.rounds.is_multiple_of(2) {
        job.memory_bytes = gpu.memory_bytes;
    }
    job.id = id;
    job
}

/// A cluster on which every job can run.
pub fn cluster() -> BoxedStrategy<wire::Cluster> {
    let jobs = vec(cluster_job(), 4);
    (
        kinds(),
        vec(gpu(), 3),
        names(),
        jobs,
        option::of(text()),
        provenance(),
    )
        .prop_map(|(kinds, gpus, names, jobs, id, provenance)| {
            let named = |(i, (mut gpu, kind)): (usize, (wire::ClusterGpu, String))| {
                gpu.kind = kind;
                gpu.id = gpu.id.map(|id| format!("{id}{i}x"));
                gpu
            };
            let gpus: Vec<_> = gpus.into_iter().zip(kinds).enumerate().map(named).collect();
            let jobs: Vec<_> = jobs
                .into_iter()
                .zip(names)
                .map(|(job, name)| fit(job, name, &gpus[0]))
                .collect();
            let sharing = match &jobs[..] {
                [a, b, ..] if !a.gang && !b.gang => vec![wire::ClusterSharing {
                    jobs: [a.id.clone(), b.id.clone()],
                    kind: gpus[0].kind.clone(),
                    rates: [0.75, 1.0],
                }],
                _ => Vec::new(),
            };
            wire::Cluster {
                schema: wire::Cluster::SCHEMA.to_owned(),
                id,
                jobs,
                gpus,
                sharing,
                provenance,
            }
        })
        .boxed()
}

fn switching() -> impl Strategy<Value = Switching> {
    let mode = prop::sample::select(vec![
        SwitchingMode::Restart,
        SwitchingMode::Pipelined,
        SwitchingMode::Hare,
    ]);
    (mode, any::<[u32; 4]>(), finite(), finite()).prop_map(|(mode, counts, total_s, share)| {
        let [switches, hits, hits_newest, hits_belady] = counts;
        Switching {
            mode,
            modelled: true,
            switches,
            hits,
            hits_newest,
            hits_belady,
            total_s,
            share,
        }
    })
}

/// A schedule whose names and numbers of rounds and tasks are those of its cluster.
pub fn schedule() -> BoxedStrategy<wire::Schedule> {
    let policies = vec![
        SchedulePolicy::Hare,
        SchedulePolicy::HareLiteral,
        SchedulePolicy::Online,
    ];
    let policy = prop::sample::select(policies);
    let bounds = vec![
        ScheduleBound::Chain,
        ScheduleBound::Prices,
        ScheduleBound::Exact,
    ];
    let bound = prop::sample::select(bounds);
    let figures = (
        vec(finite(), 8),
        vec(positive(), 16),
        0.0..1.0_f64,
        any::<bool>(),
    );
    (
        cluster(),
        policy,
        bound,
        figures,
        option::of(switching()),
        text(),
    )
        .prop_map(
            |(cluster, policy, bound, (f, t, noise, proven), switching, fingerprint)| {
                let first = &cluster.gpus[0];
                let name = first.id.as_ref().unwrap_or(&first.kind);
                let gpu = first
                    .count
                    .map_or(name.clone(), |count| format!("{name}-{}", count - 1));
                let task = |(i, job): (usize, &wire::ClusterJob)| wire::ScheduledTask {
                    job: job.id.clone(),
                    round: job.rounds - 1,
                    task: job.tasks_per_round - 1,
                    gpu: gpu.clone(),
                    start_s: t[i],
                    switch_s: if i == 0 { 0.0 } else { t[i + 4] },
                    train_end_s: t[i + 8],
                    synced_s: t[i + 12],
                    rounds: 1,
                    period_s: 0.0,
                };
                let baseline = ScheduleBaseline {
                    name: SchedulePolicy::Fifo,
                    cost: f[5],
                    flow_cost: f[6],
                    over_bound: f[7],
                };
                wire::Schedule {
                    schema: wire::Schedule::SCHEMA.to_owned(),
                    id: cluster.id.clone(),
                    policy,
                    cost: t[0] * t[1],
                    flow_cost: t[2] * t[3],
                    mean_s: t[0],
                    p95_s: t[1],
                    makespan_s: t[2],
                    utilisation: f[2],
                    lower_bound: t[4] * t[5],
                    bound,
                    gap: f[4],
                    proven,
                    noise,
                    sync_s: proven.then_some(t[3]),
                    baselines: if proven { vec![baseline] } else { Vec::new() },
                    switching,
                    assignments: cluster.jobs.iter().enumerate().map(task).collect(),
                    fingerprint,
                    provenance: cluster.provenance.clone(),
                    cluster,
                }
            },
        )
        .boxed()
}

/// An event of any kind with the fields of its kind.
pub fn queue_event() -> BoxedStrategy<QueueEvent> {
    let spec = cluster_job().prop_map(|mut spec| {
        let train = spec.train_s.remove("").expect("the time to be named");
        spec.train_s.insert("t4".to_owned(), train);
        spec.id = "new".to_owned();
        spec
    });
    let fields = (name(), any::<u32>(), 1..u32::MAX, text(), spec);
    (0..14, positive(), fields)
        .prop_map(|(kind, time_s, (job, round, task, gpu, spec))| {
            let event = match kind {
                0 => json!({"event": "arrival", "job": job}),
                1 => json!({"event": "arrival", "spec": spec}),
                2 => json!({"event": "started", "job": job, "round": round, "task": task, "gpu": gpu}),
                3 => json!({"event": "trained", "job": job, "round": round, "task": task}),
                4 => json!({"event": "finished", "job": job, "round": round, "task": task}),
                5 => json!({"event": "failed", "job": job, "round": round, "task": task}),
                6 => json!({"event": "cancelled", "job": job}),
                7 => json!({"event": "lost", "gpu": gpu}),
                8 => json!({"event": "found", "gpu": gpu}),
                9 => json!({"event": "time"}),
                10 => json!({"event": "weight", "job": job, "weight": time_s}),
                11 => json!({"event": "estimate", "job": job, "rounds_left": task, "train_s": {"t4": time_s}}),
                12 => json!({"event": "deadline", "job": job, "deadline_s": time_s}),
                _ => json!({"event": "status"}),
            };
            let time = Seconds::new(time_s).expect("a time");
            QueueEvent::new(time, serde_json::from_value(event).expect("an event"))
        })
        .boxed()
}

/// A task to start.
pub fn queue_start() -> impl Strategy<Value = QueueStart> {
    let place = (text(), option::of(text()));
    (positive(), name(), any::<u32>(), any::<u32>(), place).prop_map(
        |(time_s, job, round, task, (gpu, node))| {
            let job = TaskId::new(&job).expect("a name");
            let time = Seconds::new(time_s).expect("a time");
            QueueStart::new(time, QueueTask { job, round, task }, gpu, node)
        },
    )
}

/// Progress of two jobs, of which the second waits.
pub fn status() -> impl Strategy<Value = wire::ClusterStatus> {
    let place = (text(), text(), option::of(positive()));
    (positive(), name(), 0u32..9, 0u32..9, place).prop_map(
        |(time_s, job, done, left, (gpu, waits, deadline_s))| {
            let running = wire::TaskStatus {
                task: left,
                gpu: gpu.clone(),
                trains: done % 2 == 0,
            };
            let one = wire::JobStatus {
                job: format!("{job}1"),
                state: wire::JobState::Running,
                weight: time_s,
                rounds_done: done,
                rounds: done + left,
                running: vec![running],
                waits: None,
                next_start_s: None,
                next_gpu: None,
                end_s: Some(time_s),
                end_low_s: Some(time_s),
                end_high_s: Some(time_s),
                deadline_s,
            };
            let other = wire::JobStatus {
                job,
                state: wire::JobState::Waiting,
                running: Vec::new(),
                waits: Some(waits),
                next_start_s: Some(time_s),
                next_gpu: Some(gpu.clone()),
                ..one.clone()
            };
            wire::ClusterStatus {
                schema: wire::ClusterStatus::SCHEMA.to_owned(),
                time_s,
                lost: vec![gpu],
                jobs: vec![one, other],
            }
        },
    )
}
