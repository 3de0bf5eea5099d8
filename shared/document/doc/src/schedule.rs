use std::collections::{BTreeSet, HashMap};

use units::{Seconds, shown};

use crate::wire::{self, ScheduleBaseline, ScheduleBound, SchedulePolicy, Switching, Wire as _};
use crate::{Checker, Cluster, Code, Document, Provenance};

/// Which task of a cluster's jobs runs where and when.
///
/// In memory each task of each round has an entry, up to [`Schedule::MOST_TASKS`] of them; a document of many tasks
/// merges equal rounds into one. Of more tasks, equal rounds are one entry in memory as well. Names resolve, and rounds and tasks are those of the jobs; a checker decides whether the schedule is feasible and its
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

/// One task of one round of a job on a GPU, and of equal rounds after it.
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
    /// Equal rounds, this one and those after it.
    pub rounds: u32,
    /// Seconds from a round to the next; 0 for a single one.
    pub period: f64,
}

impl ScheduledTask {
    /// Seconds from the first round to the last.
    #[must_use]
    pub fn moved(&self) -> f64 {
        f64::from(self.rounds - 1) * self.period
    }

    /// When training of the last round ends.
    #[must_use]
    pub fn last_trained(&self) -> f64 {
        self.trained.get() + self.moved()
    }

    /// When the last round is synchronised.
    #[must_use]
    pub fn last_synced(&self) -> f64 {
        self.synced.get() + self.moved()
    }

    /// The same task from a later round of the entry on, for so many rounds.
    fn from(&self, later: u32, rounds: u32) -> Self {
        let later_by = f64::from(later) * self.period;
        // Within range: the last round was checked when the entry was read.
        let moved = |s: Seconds| Seconds::new(s.get() + later_by).unwrap_or(s);
        Self {
            round: self.round + later,
            start: moved(self.start),
            trained: moved(self.trained),
            synced: moved(self.synced),
            rounds,
            period: if rounds > 1 { self.period } else { 0.0 },
            ..*self
        }
    }
}

impl Schedule {
    /// Most entries: this many are about 64 MiB, the limit of a document, and a reader keeps each. Up to as many tasks
    /// are expanded, each to an entry of its own.
    pub const MOST_TASKS: u64 = 600_000;

    /// Tasks of all rounds.
    #[must_use]
    pub fn tasks(&self) -> u64 {
        let rounds = self.assignments.iter().map(|a| u64::from(a.rounds));
        rounds.fold(0, u64::saturating_add)
    }

    /// Whether equal rounds are one entry in memory.
    #[must_use]
    pub fn is_merged(&self) -> bool {
        self.assignments.iter().any(|a| a.rounds > 1)
    }
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
        let assignments = assignments.and_then(|all| kept(wire, all, &cluster, c));
        let sums = [
            ("cost", wire.cost),
            ("flow_cost", wire.flow_cost),
            ("lower_bound", wire.lower_bound),
        ];
        let sound = sums.map(|(name, value)| is_sum(name, value, c));
        (sound == [true; 3]).then_some(())?;
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
                .map(|a| wire::ScheduledTask {
                    job: self.cluster.jobs[a.job].id.as_str().to_owned(),
                    round: a.round,
                    task: a.task,
                    gpu: gpus[a.gpu].clone(),
                    start_s: a.start.get(),
                    switch_s: a.switch.get(),
                    train_end_s: a.trained.get(),
                    synced_s: a.synced.get(),
                    rounds: a.rounds,
                    period_s: a.period,
                })
                .collect(),
            provenance: self.provenance.clone(),
        }
    }
}

/// Up to this many tasks each has its own entry, which is easier to read and to process: they take about 1
/// MiB.
const SINGLE: usize = 10_000;

/// The times of merged rounds are multiples of the period, while those of a plan are sums: they may
/// differ by this fraction, which a checker attributes to rounding.
const ALIKE: f64 = 1e-10;

/// The entries of a document, by start. A long job is alone on its GPU most of the time, so its rounds
/// become few entries.
fn stretches(tasks: &[ScheduledTask]) -> Vec<ScheduledTask> {
    if tasks.len() <= SINGLE && tasks.iter().all(|t| t.rounds == 1) {
        return tasks.to_vec();
    }
    let mut order: Vec<usize> = (0..tasks.len()).collect();
    order.sort_by_key(|&i| (tasks[i].job, tasks[i].task, tasks[i].round));
    let mut out: Vec<ScheduledTask> = Vec::new();
    for i in order {
        let task = &tasks[i];
        let goes_on = out.last_mut().is_some_and(|last| takes(last, task));
        if !goes_on {
            out.push(*task);
        }
    }
    by_start(&mut out);
    out
}

fn by_start(tasks: &mut [ScheduledTask]) {
    let key = |t: &ScheduledTask| (t.job, t.round, t.task);
    tasks.sort_by(|a, b| {
        let starts = a.start.get().total_cmp(&b.start.get());
        starts.then(key(a).cmp(&key(b)))
    });
}

/// Appends the rounds of a task to an entry, if they equal those before.
fn takes(first: &mut ScheduledTask, task: &ScheduledTask) -> bool {
    let same = (first.job, first.task, first.gpu) == (task.job, task.task, task.gpu)
        && first.round + first.rounds == task.round
        && first.switch == Seconds::ZERO
        && task.switch == Seconds::ZERO;
    let period = match first.rounds {
        1 => task.start.get() - first.start.get(),
        _ => first.period,
    };
    let alike = |rounds: u32, before: Seconds, after: f64| {
        (before.get() + f64::from(rounds) * period - after).abs() <= ALIKE * after
    };
    let goes_on = same
        && period > 0.0
        && alike(first.rounds, first.start, task.start.get())
        && alike(first.rounds, first.trained, task.trained.get())
        && alike(first.rounds, first.synced, task.synced.get())
        && alike(
            first.rounds + task.rounds - 1,
            first.synced,
            task.last_synced(),
        );
    if goes_on {
        first.rounds += task.rounds;
        first.period = period;
    }
    goes_on
}

/// The entries as they are kept in memory: of so many tasks as a reader can keep each for itself, each; of more, entries
/// that all tasks of a job have for the same rounds, so that whoever follows or checks them can go from one to the next.
/// There must be few enough of these, so that a short document cannot demand all memory.
fn kept(
    wire: &wire::Schedule,
    entries: Vec<ScheduledTask>,
    cluster: &Cluster,
    c: &mut Checker,
) -> Option<Vec<ScheduledTask>> {
    let rounds = entries.iter().map(|a| u64::from(a.rounds));
    let tasks = rounds.fold(0, u64::saturating_add);
    if tasks <= Schedule::MOST_TASKS {
        return Some(cut(entries, |a| {
            (a.round + 1..a.round + a.rounds).collect()
        }));
    }
    if wire.switching.is_some() {
        c.field("switching", |c| {
            let problem = format_args!("a model of switching for {tasks} tasks");
            let advice = format_args!("leave it out for more than {}", Schedule::MOST_TASKS);
            c.fault(Code::Conflict, problem, advice);
        });
        return None;
    }
    // The rounds at which an entry of the job begins or ends.
    let mut ends: Vec<BTreeSet<u32>> = vec![BTreeSet::new(); cluster.jobs.len()];
    for a in &entries {
        ends[a.job].extend([a.round, a.round + a.rounds]);
    }
    let inside = |a: &ScheduledTask| ends[a.job].range(a.round + 1..a.round + a.rounds);
    // Stops at the first too many: counting all would take long where a few entries overlap many.
    let mut pieces = 0_u64;
    for a in &entries {
        pieces += 1 + inside(a).take(Schedule::MOST_TASKS as usize).count() as u64;
        if pieces > Schedule::MOST_TASKS {
            c.field("assignments", |c| {
                let problem = format_args!(
                    "more than {} entries, cut where another task of the job has the end of one",
                    Schedule::MOST_TASKS
                );
                let advice =
                    "merge more rounds, and give all tasks of a job entries for the same rounds";
                c.fault(Code::TooMany, problem, advice);
            });
            return None;
        }
    }
    Some(cut(entries, |a| inside(a).copied().collect()))
}

/// Cuts every entry at rounds that lie inside it; the pieces by start.
fn cut(
    entries: Vec<ScheduledTask>,
    rounds: impl Fn(&ScheduledTask) -> Vec<u32>,
) -> Vec<ScheduledTask> {
    if entries.iter().all(|a| a.rounds == 1) {
        return entries;
    }
    let mut out = Vec::new();
    for a in entries {
        let mut begin = a.round;
        for end in rounds(&a).into_iter().chain([a.round + a.rounds]) {
            out.push(a.from(begin - a.round, end - begin));
            begin = end;
        }
    }
    by_start(&mut out);
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
        rounds: wire.rounds,
        period: wire.period_s,
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
