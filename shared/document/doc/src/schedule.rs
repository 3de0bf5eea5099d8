use std::collections::HashMap;

use units::Seconds;

use crate::wire::{self, ScheduleBaseline, ScheduleBound, SchedulePolicy, Switching, Wire as _};
use crate::{Checker, Cluster, Code, Document, Provenance};

/// Which task of a cluster's jobs runs where and when.
///
/// Names resolve, and rounds and tasks are those of the jobs; whether the schedule is feasible and its figures
/// are right is for a checker.
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    /// Name of the instance.
    pub id: Option<String>,
    /// Who scheduled.
    pub policy: SchedulePolicy,
    /// Sum of weight times completion.
    pub cost: f64,
    /// Sum of weight times (completion less arrival).
    pub flow_cost: f64,
    /// Mean of completion less arrival.
    pub mean: Seconds,
    /// 95th percentile of completion less arrival.
    pub p95: Seconds,
    /// The last completion.
    pub makespan: Seconds,
    /// Part of the GPUs' time until the makespan that is spent training.
    pub utilisation: f64,
    /// No schedule costs less.
    pub lower_bound: f64,
    /// Which relaxation says so.
    pub bound: ScheduleBound,
    /// `cost / lower_bound - 1`.
    pub gap: f64,
    /// Whether no schedule is better.
    pub proven: bool,
    /// The largest part by which a duration deviates from the cluster's.
    pub noise: f64,
    /// Seconds of synchronisation of all tasks together, where there is noise.
    pub sync: Option<Seconds>,
    /// Other policies on the same instance.
    pub baselines: Vec<ScheduleBaseline>,
    /// Modelled switching.
    pub switching: Option<Switching>,
    /// The instance.
    pub cluster: Cluster,
    /// Fingerprint of the instance.
    pub fingerprint: String,
    /// The tasks.
    pub assignments: Vec<ScheduledTask>,
    /// Which tools made the document.
    pub provenance: Vec<Provenance>,
}

/// One task of one round of a job on a GPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScheduledTask {
    /// Number of the job in the cluster.
    pub job: usize,
    /// Round, below the job's.
    pub round: u32,
    /// Task of the round, below the job's.
    pub task: u32,
    /// Number of the GPU in the cluster.
    pub gpu: usize,
    /// When the GPU begins with it.
    pub start: Seconds,
    /// Seconds of switching.
    pub switch: Seconds,
    /// When training ends.
    pub trained: Seconds,
    /// When its result is synchronised.
    pub synced: Seconds,
}

impl Document for Schedule {
    type Wire = wire::Schedule;

    fn from_wire(wire: &wire::Schedule, c: &mut Checker) -> Option<Self> {
        let cluster = c.field("cluster", |c| Cluster::from_nested(&wire.cluster, c))?;
        let mean = c.unit("mean_s", Seconds::new(wire.mean_s));
        let p95 = c.unit("p95_s", Seconds::new(wire.p95_s));
        let makespan = c.unit("makespan_s", Seconds::new(wire.makespan_s));
        let sync = c.optional_unit("sync_s", wire.sync_s, Seconds::new);
        let names = cluster.gpu_names();
        let gpus: HashMap<&str, usize> = names.iter().map(String::as_str).zip(0..).collect();
        let jobs: HashMap<&str, usize> = cluster
            .jobs
            .iter()
            .map(|j| j.id.as_str())
            .zip(0..)
            .collect();
        let assignments = c.list("assignments", &wire.assignments, |task, c| {
            let gpu = resolve(&gpus, "gpu", &task.gpu, c);
            let job = resolve(&jobs, "job", &task.job, c)?;
            scheduled(task, job, gpu?, &cluster, c)
        });
        if !(0.0..1.0).contains(&wire.noise) {
            c.field("noise", |c| {
                let problem = format_args!("{} is no part", wire.noise);
                c.fault(Code::OutOfRange, problem, "give a number from 0 to below 1");
            });
            return None;
        }
        Some(Self {
            id: wire.id.clone(),
            policy: wire.policy,
            cost: wire.cost,
            flow_cost: wire.flow_cost,
            mean: mean?,
            p95: p95?,
            makespan: makespan?,
            utilisation: wire.utilisation,
            lower_bound: wire.lower_bound,
            bound: wire.bound,
            gap: wire.gap,
            proven: wire.proven,
            noise: wire.noise,
            sync: sync?,
            baselines: wire.baselines.clone(),
            switching: wire.switching,
            fingerprint: wire.fingerprint.clone(),
            assignments: assignments?,
            provenance: wire.provenance.clone(),
            cluster,
        })
    }

    fn to_wire(&self) -> wire::Schedule {
        let gpus = self.cluster.gpu_names();
        wire::Schedule {
            schema: wire::Schedule::SCHEMA.to_owned(),
            id: self.id.clone(),
            policy: self.policy,
            cost: self.cost,
            flow_cost: self.flow_cost,
            mean_s: self.mean.get(),
            p95_s: self.p95.get(),
            makespan_s: self.makespan.get(),
            utilisation: self.utilisation,
            lower_bound: self.lower_bound,
            bound: self.bound,
            gap: self.gap,
            proven: self.proven,
            noise: self.noise,
            sync_s: self.sync.map(Seconds::get),
            baselines: self.baselines.clone(),
            switching: self.switching,
            cluster: self.cluster.to_wire(),
            fingerprint: self.fingerprint.clone(),
            assignments: self
                .assignments
                .iter()
                .map(|a| wire::ScheduledTask {
                    job: self.cluster.jobs[a.job].id.as_str().to_owned(),
                    round: a.round,
                    task: a.task,
                    gpu: gpus[a.gpu].clone(),
                    start_s: a.start.get(),
                    switch_s: a.switch.get(),
                    train_end_s: a.trained.get(),
                    synced_s: a.synced.get(),
                })
                .collect(),
            provenance: self.provenance.clone(),
        }
    }
}

fn resolve(
    known: &HashMap<&str, usize>,
    field: &str,
    name: &str,
    c: &mut Checker,
) -> Option<usize> {
    let found = known.get(name).copied();
    if found.is_none() {
        c.field(field, |c| {
            let problem = format_args!("the cluster has no {field} called {name:?}");
            c.fault(
                Code::UnknownName,
                problem,
                format_args!("name a {field} of the cluster"),
            );
        });
    }
    found
}

fn scheduled(
    wire: &wire::ScheduledTask,
    job: usize,
    gpu: usize,
    cluster: &Cluster,
    c: &mut Checker,
) -> Option<ScheduledTask> {
    let limits = [
        ("round", wire.round, cluster.jobs[job].rounds),
        ("task", wire.task, cluster.jobs[job].tasks),
    ];
    let mut sound = true;
    for (name, value, limit) in limits {
        if value >= limit {
            sound = false;
            c.field(name, |c| {
                let problem = format_args!("{value} is not below {limit}");
                c.fault(
                    Code::OutOfRange,
                    problem,
                    "rounds and tasks are numbered from 0",
                );
            });
        }
    }
    let start = c.unit("start_s", Seconds::new(wire.start_s));
    let switch = c.unit("switch_s", Seconds::new(wire.switch_s));
    let trained = c.unit("train_end_s", Seconds::new(wire.train_end_s));
    let synced = c.unit("synced_s", Seconds::new(wire.synced_s));
    sound.then_some(())?;
    Some(ScheduledTask {
        job,
        round: wire.round,
        task: wire.task,
        gpu,
        start: start?,
        switch: switch?,
        trained: trained?,
        synced: synced?,
    })
}
