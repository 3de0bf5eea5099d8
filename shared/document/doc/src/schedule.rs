use std::collections::{BTreeSet, HashMap};

use units::{Seconds, shown};

use crate::wire::{self, ScheduleBaseline, ScheduleBound, SchedulePolicy, Switching, Wire as _};
use crate::{Checker, Cluster, Code, Document, Provenance};

/// A schedule: where and when each task of a cluster's jobs runs.
///
/// In memory each task of each round has its own entry, up to [`Schedule::MOST_TASKS`] tasks; with more tasks, equal
/// consecutive rounds share one entry. A document of many tasks merges equal rounds as well. Reading checks that names
/// resolve, and that rounds and tasks are within those of the jobs. A separate checker decides whether the schedule is
/// feasible and its figures are right.
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    /// Name of the instance.
    pub id: Option<String>,
    /// The policy that made the schedule.
    pub policy: SchedulePolicy,
    /// Sum over the jobs of weight × completion time.
    pub cost: f64,
    /// Sum over the jobs of weight × (completion time - arrival time).
    pub flow_cost: f64,
    /// Mean over the jobs of completion time - arrival time.
    pub mean: Seconds,
    /// 95th percentile over the jobs of completion time - arrival time.
    pub p95: Seconds,
    /// Completion time of the last job.
    pub makespan: Seconds,
    /// Fraction of GPU time until the makespan that is spent training.
    pub utilisation: f64,
    /// Lower bound of the cost: no schedule costs less.
    pub lower_bound: f64,
    /// Which relaxation gave the bound.
    pub bound: ScheduleBound,
    /// `cost / lower_bound - 1`.
    pub gap: f64,
    /// Whether this schedule is proven optimal.
    pub proven: bool,
    /// Largest relative deviation of a duration from its value in the cluster document.
    pub noise: f64,
    /// Total synchronisation time of all tasks in seconds, if there is noise.
    pub sync: Option<Seconds>,
    /// Results of other policies on the same instance.
    pub baselines: Vec<ScheduleBaseline>,
    /// Model of the cost of switching a GPU between jobs.
    pub switching: Option<Switching>,
    /// The instance: GPUs and jobs.
    pub cluster: Cluster,
    /// Fingerprint of the instance.
    pub fingerprint: String,
    /// The tasks.
    pub assignments: Vec<ScheduledTask>,
    /// Which tools made the document.
    pub provenance: Vec<Provenance>,
}

/// One task of one round of a job on a GPU, and of the equal rounds that follow it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScheduledTask {
    /// Number of the job in the cluster.
    pub job: usize,
    /// Index of the round, below the job's number of rounds.
    pub round: u32,
    /// Index of the task in its round, below the job's tasks per round.
    pub task: u32,
    /// Number of the GPU in the cluster.
    pub gpu: usize,
    /// When the GPU starts with the task, switching included.
    pub start: Seconds,
    /// Switching time before training.
    pub switch: Seconds,
    /// When training ends.
    pub trained: Seconds,
    /// When the synchronisation of its result ends.
    pub synced: Seconds,
    /// Number of equal rounds: this one and those after it.
    pub rounds: u32,
    /// Seconds from one round to the next; 0 for a single round.
    pub period: f64,
}

impl ScheduledTask {
    /// Seconds from the first round of the entry to the last.
    #[must_use]
    pub fn moved(&self) -> f64 {
        f64::from(self.rounds - 1) * self.period
    }

    /// When training of the entry's last round ends.
    #[must_use]
    pub fn last_trained(&self) -> f64 {
        self.trained.get() + self.moved()
    }

    /// When synchronisation of the entry's last round ends.
    #[must_use]
    pub fn last_synced(&self) -> f64 {
        self.synced.get() + self.moved()
    }

    /// The part of the entry that starts `later` rounds after its first and has `rounds` rounds.
    fn from(&self, later: u32, rounds: u32) -> Self {
        let later_by = f64::from(later) * self.period;
        // Cannot be out of range: the last round was checked when the entry was read.
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
    /// Maximum number of entries. This many take about 64 MiB, the limit of a document, and a reader keeps each in
    /// memory. Schedules of up to this many tasks are expanded to one entry per task.
    pub const MOST_TASKS: u64 = 600_000;

    /// Number of tasks over all rounds.
    #[must_use]
    pub fn tasks(&self) -> u64 {
        let rounds = self.assignments.iter().map(|a| u64::from(a.rounds));
        rounds.fold(0, u64::saturating_add)
    }

    /// Whether an entry in memory may stand for several equal rounds.
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

/// Up to this many tasks, each task has its own entry in a document, which is easier to read and to process; that many
/// entries take about 1 MiB.
const SINGLE: usize = 10_000;

/// Relative tolerance for the times of merged rounds: in a merged entry they are multiples of the period, in a plan
/// they are sums. A checker attributes a difference up to this fraction to rounding.
const ALIKE: f64 = 1e-10;

/// The entries of a document, by start time. A long job is alone on its GPU most of the time, so most of its rounds are
/// equal and become few entries.
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

/// Appends the rounds of `task` to the entry `first` if they continue its period; returns whether they did.
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

/// The entries as kept in memory. Up to [`Schedule::MOST_TASKS`] tasks, each task has its own. With more tasks, all
/// tasks of a job get entries for the same rounds, so that a reader or checker can go from one group of rounds to the
/// next. The number of these entries is limited, so that a short document cannot fill the memory.
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
    // For each job, the rounds at which one of its entries begins or ends.
    let mut ends: Vec<BTreeSet<u32>> = vec![BTreeSet::new(); cluster.jobs.len()];
    for a in &entries {
        ends[a.job].extend([a.round, a.round + a.rounds]);
    }
    let inside = |a: &ScheduledTask| ends[a.job].range(a.round + 1..a.round + a.rounds);
    // Stops once the limit is exceeded: counting all pieces would take long if a few entries overlap many others.
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

/// Cuts every entry at the given rounds inside it; returns the pieces by start time.
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

/// Checks that a value can be a sum of weight × seconds: at most 600,000 jobs, each at most 1e30 × 1e30.
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

/// Checks that the rounds of an entry can follow each other: the next round must not start before this one is
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
        // A single round has no period to check.
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
