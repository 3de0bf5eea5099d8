use std::collections::HashMap;

use units::{Seconds, shown};

use crate::wire::{self, ScheduleBaseline, ScheduleBound, SchedulePolicy, Switching, Wire as _};
use crate::{Checker, Cluster, Code, Document, Provenance};

/// Which task of a cluster's jobs runs where and when.
///
/// In memory each task of each round has an entry; a document of many tasks merges equal rounds into one. Names
/// resolve, and rounds and tasks are those of the jobs; a checker decides whether the schedule is feasible and its
/// figures are right.
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
    /// Fraction of GPU time until the makespan that is spent training.
    pub utilisation: f64,
    /// No schedule costs less.
    pub lower_bound: f64,
    /// Which relaxation gave the bound.
    pub bound: ScheduleBound,
    /// `cost / lower_bound - 1`.
    pub gap: f64,
    /// Whether no schedule is better.
    pub proven: bool,
    /// Largest relative deviation of a duration from the cluster's.
    pub noise: f64,
    /// Total synchronisation time of all tasks in seconds, if there is noise.
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

impl Schedule {
    /// Most tasks: this many are about 64 MiB, the limit of a document, if all rounds differ, and a reader keeps
    /// each.
    pub const MOST_TASKS: u64 = 600_000;
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
        let within = few_enough(wire, c);
        let assignments = c.list("assignments", &wire.assignments, |task, c| {
            let gpu = resolve(&gpus, "gpu", &task.gpu, c);
            let job = resolve(&jobs, "job", &task.job, c)?;
            scheduled(task, job, gpu?, &cluster, c)
        });
        within.then_some(())?;
        let sums = [
            ("cost", wire.cost),
            ("flow_cost", wire.flow_cost),
            ("lower_bound", wire.lower_bound),
        ];
        let sound = sums.map(|(name, value)| is_sum(name, value, c));
        (sound == [true; 3]).then_some(())?;
        let assignments = assignments.map(|all| expanded(&wire.assignments, all));
        if !(0.0..1.0).contains(&wire.noise) {
            c.field("noise", |c| {
                let problem = format_args!("{} is no part", shown(wire.noise));
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
            assignments: stretches(&self.assignments)
                .into_iter()
                .map(|s| wire::ScheduledTask {
                    job: self.cluster.jobs[s.first.job].id.as_str().to_owned(),
                    round: s.first.round,
                    task: s.first.task,
                    gpu: gpus[s.first.gpu].clone(),
                    start_s: s.first.start.get(),
                    switch_s: s.first.switch.get(),
                    train_end_s: s.first.trained.get(),
                    synced_s: s.first.synced.get(),
                    rounds: s.rounds,
                    period_s: s.period,
                })
                .collect(),
            provenance: self.provenance.clone(),
        }
    }
}

/// Equal rounds of a task: on one GPU, at equal intervals.
struct Stretch {
    first: ScheduledTask,
    rounds: u32,
    /// Seconds from start to start; 0 for a single round.
    period: f64,
}

/// Up to this many tasks each has its own entry, which is easier to read and to process: they take about 1
/// MiB.
const SINGLE: usize = 10_000;

/// The times of merged rounds are multiples of the period, while those of a plan are sums: they may
/// differ by this fraction, which a checker attributes to rounding.
const ALIKE: f64 = 1e-10;

/// The entries of a document, by start. A long job is alone on its GPU most of the time, so its rounds
/// become few entries.
fn stretches(tasks: &[ScheduledTask]) -> Vec<Stretch> {
    let single = |first: &ScheduledTask| Stretch {
        first: *first,
        rounds: 1,
        period: 0.0,
    };
    if tasks.len() <= SINGLE {
        return tasks.iter().map(single).collect();
    }
    let mut order: Vec<usize> = (0..tasks.len()).collect();
    order.sort_by_key(|&i| (tasks[i].job, tasks[i].task, tasks[i].round));
    let mut out: Vec<Stretch> = Vec::new();
    for i in order {
        let task = &tasks[i];
        let goes_on = out.last_mut().is_some_and(|last| last.takes(task));
        if !goes_on {
            out.push(single(task));
        }
    }
    let key = |s: &Stretch| (s.first.job, s.first.round, s.first.task);
    out.sort_by(|a, b| {
        let starts = a.first.start.get().total_cmp(&b.first.start.get());
        starts.then(key(a).cmp(&key(b)))
    });
    out
}

impl Stretch {
    /// Appends the task as the next round, if it equals the previous ones.
    fn takes(&mut self, task: &ScheduledTask) -> bool {
        let first = &self.first;
        let same = (first.job, first.task, first.gpu) == (task.job, task.task, task.gpu)
            && first.round + self.rounds == task.round
            && first.switch == Seconds::ZERO
            && task.switch == Seconds::ZERO;
        let period = match self.rounds {
            1 => task.start.get() - first.start.get(),
            _ => self.period,
        };
        let moved = f64::from(self.rounds) * period;
        let alike = |before: Seconds, after: Seconds| {
            (before.get() + moved - after.get()).abs() <= ALIKE * after.get()
        };
        let goes_on = same
            && period > 0.0
            && alike(first.start, task.start)
            && alike(first.trained, task.trained)
            && alike(first.synced, task.synced);
        if goes_on {
            self.rounds += 1;
            self.period = period;
        }
        goes_on
    }
}

/// Whether all entries together have no more tasks than a schedule may have, so that a short document
/// cannot demand all memory.
fn few_enough(wire: &wire::Schedule, c: &mut Checker) -> bool {
    let rounds = wire.assignments.iter().map(|a| u64::from(a.rounds));
    let tasks = rounds.fold(0, u64::saturating_add);
    if tasks > Schedule::MOST_TASKS {
        c.field("assignments", |c| {
            let problem = format_args!("{tasks} tasks");
            let advice = format_args!("give at most {}", Schedule::MOST_TASKS);
            c.fault(Code::TooMany, problem, advice);
        });
    }
    tasks <= Schedule::MOST_TASKS
}

/// Expands all entries to single rounds, by start.
fn expanded(wire: &[wire::ScheduledTask], first: Vec<ScheduledTask>) -> Vec<ScheduledTask> {
    if wire.iter().all(|w| w.rounds == 1) {
        return first;
    }
    let mut out = Vec::new();
    for (entry, task) in wire.iter().zip(first) {
        out.extend((0..entry.rounds).map(|k| {
            let later = |s: Seconds| {
                let moved = s.get() + f64::from(k) * entry.period_s;
                // Within range: the last round was checked when the entry was read.
                Seconds::new(moved).unwrap_or(s)
            };
            ScheduledTask {
                round: task.round + k,
                start: later(task.start),
                trained: later(task.trained),
                synced: later(task.synced),
                ..task
            }
        }));
    }
    out.sort_by(|a, b| {
        let key = |t: &ScheduledTask| (t.job, t.round, t.task);
        a.start
            .get()
            .total_cmp(&b.start.get())
            .then(key(a).cmp(&key(b)))
    });
    out
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
    let last = wire.round.saturating_add(wire.rounds.saturating_sub(1));
    let limits = [
        ("round", last, cluster.jobs[job].rounds),
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
    sound &= repeats(wire, c);
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

/// Whether a sum of weight times seconds can be one: of at most 600,000 jobs, each at most 1e30 times 1e30.
fn is_sum(name: &str, value: f64, c: &mut Checker) -> bool {
    let sound = (0.0..=1e66).contains(&value);
    if !sound {
        c.field(name, |c| {
            let problem = format_args!("{} is no sum of weight times seconds", shown(value));
            c.fault(Code::OutOfRange, problem, "give a number from 0 to 1e66");
        });
    }
    sound
}

/// Whether the rounds of an entry can follow each other: the next starts no earlier than this one is
/// synchronised.
fn repeats(wire: &wire::ScheduledTask, c: &mut Checker) -> bool {
    if wire.rounds == 0 {
        c.field("rounds", |c| {
            c.fault(
                Code::OutOfRange,
                "0 is too few",
                "give 1 or more, or leave it out",
            );
        });
        return false;
    }
    if wire.rounds == 1 {
        // Nothing follows.
        return true;
    }
    let last = wire.synced_s + f64::from(wire.rounds - 1) * wire.period_s;
    let least = (wire.synced_s - wire.start_s) * (1.0 - 1e-9);
    let sound = wire.period_s >= least && Seconds::new(last).is_ok();
    if !sound {
        c.field("period_s", |c| {
            let problem = format_args!("{} s from one round to the next", shown(wire.period_s));
            let advice =
                format_args!("give at least {least}, what a round takes, and at most 1e30 in all");
            c.fault(Code::OutOfRange, problem, advice);
        });
    }
    sound
}
