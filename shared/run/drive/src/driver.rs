//! A schedule in progress: starts tasks on GPUs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Instant;

use doc::{EventPayload, PhaseKind, ProcessEnd, Task, TaskSummary};
use host::{Gpus, Grant, Work};
use jobs::RecordsError;
use runner::{Limits, Reports, Runner, Start};
use units::{SamplesPerSec, Seconds, Share, TaskId};

use crate::journal::{Past, TaskJournal};
use crate::orders::Orders;
use crate::seats::{Seats, Who};
use crate::view::View;
use crate::{Agenda, Settings, TaskPlace};

/// Identifies a process of a schedule by a number that is never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key(pub u64);

/// The runner of a schedule.
pub(crate) type Run<'a> = Runner<'a, Key>;

/// A schedule in progress: the policy that follows its agenda.
pub(crate) struct Driver<'a> {
    pub agenda: Agenda,
    pub cluster: &'a doc::Cluster,
    pub settings: &'a Settings,
    pub seats: Seats,
    /// For each job, the program of its tasks.
    pub programs: Vec<Task>,
    pub logs: PathBuf,
    /// The journal of the run, which outlives this process.
    pub kept: TaskJournal,
    /// Progress of the run before this process.
    pub past: Past,
    /// Number of the next process.
    pub next: u64,
    pub running: BTreeMap<Key, Running>,
    /// Processes that wait between two tasks.
    pub parked: BTreeMap<Key, Parked>,
    pub jobs: Vec<Told>,
    /// For each GPU, the time before which no task starts there.
    pub pauses: Vec<Instant>,
    /// Deadlines of started tasks, if there is a limit.
    pub due: BTreeMap<TaskPlace, Instant>,
    /// For each GPU, the jobs that have failed there since the last success.
    pub failures: Vec<BTreeSet<usize>>,
    /// Tasks that were moved, with the GPU from which they were moved.
    pub moved: BTreeMap<TaskPlace, usize>,
    /// Whether nothing is started any more.
    pub stopped: bool,
    /// Time of the last new plan.
    pub replanned: Instant,
    /// Progress of the schedule for display.
    pub view: View,
    /// Commands of the user during the run.
    pub orders: Orders,
    /// Lost GPUs.
    pub lost: BTreeSet<usize>,
    /// Time at which the status was last written.
    pub told_status: Option<Instant>,
    /// Whether a failure to write the status was reported.
    pub told_unwritten: bool,
}

/// A process that waits between two tasks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parked {
    pub job: usize,
    pub gpu: usize,
    pub slot: usize,
    /// Time at which it was told to end.
    pub leaving: Option<Instant>,
}

/// A process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Running {
    pub place: TaskPlace,
    pub gpu: usize,
    /// Its number among the processes on the GPU.
    pub slot: usize,
    /// Whether it takes orders, and stays after the task.
    pub stays: bool,
    /// Time at which it started or was woken, in seconds since the start of the run.
    pub since: f64,
    /// Time at which its training was done, in seconds since the start of the run.
    pub trained: Option<f64>,
    /// The reason why it is being ended: another task of its gang has failed, or its GPU is lost. Its messages no
    /// longer count then.
    pub ended: Option<&'static str>,
}

/// Summary, over all rounds of a job, of the tasks with one index.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lane {
    pub samples: u64,
    /// Seconds of its compute phases.
    pub trained: f64,
    pub restarts: u32,
    pub first_loss: Option<f64>,
    pub last_loss: Option<f64>,
    pub end: Option<ProcessEnd>,
}

/// Statistics of a job.
#[derive(Debug, Clone, Default)]
pub(crate) struct Told {
    pub lanes: Vec<Lane>,
    /// Number of failures of each failed task.
    pub attempts: BTreeMap<TaskPlace, u32>,
    pub given_up: bool,
    /// Mean ratio of measured to planned training times in the current round, and the number of tasks in it.
    pub drift: (f64, u32),
}

impl Told {
    /// The initial statistics of a job.
    pub fn of(job: &doc::ClusterJob) -> Self {
        Self {
            lanes: vec![Lane::default(); job.tasks as usize],
            ..Self::default()
        }
    }
}

impl Driver<'_> {
    /// Name of a task in events: the name of its job, followed by its number if a round has several tasks.
    pub fn name(&self, place: TaskPlace) -> TaskId {
        let job = &self.cluster.jobs[place.job];
        if job.tasks == 1 {
            return job.id.clone();
        }
        // The name with a number is invalid only if it becomes too long.
        TaskId::new(&format!("{}.{}", job.id, place.task)).unwrap_or_else(|_| job.id.clone())
    }

    /// Continues from the point that the previous process reached.
    pub fn go_on(&mut self, run: &mut Run<'_>) {
        if self.past.elapsed().is_none() {
            return;
        }
        let done = self.past.done.len();
        let open = self.past.started.iter();
        let ran = open.filter(|p| !self.past.done.contains_key(p)).count();
        self.view.done = done;
        self.agenda.resume(&self.past.done, now(run));
        let reason = format!(
            "the run continues: {done} tasks done, {ran} unfinished ones started again, the others planned again"
        );
        run.note(&reason);
        run.tell(EventPayload::Replan {
            round: None,
            reason,
            planned: None,
        });
    }

    /// A task has trained and synchronised: writes this to disk first, and then announces it.
    pub fn confirm(&mut self, run: &mut Run<'_>, place: TaskPlace) {
        let written = self.kept.done(self.cluster, place, now(run));
        look_at_journal(run, written);
    }

    pub fn start_all(&mut self, run: &mut Run<'_>) {
        if run.is_faulted() {
            return;
        }
        let at = run.now();
        let startable = self.agenda.startable(now(run));
        let mut held = BTreeSet::new();
        let jobs = startable.iter().map(|(p, _)| p.job);
        let gangs: BTreeSet<usize> = jobs.filter(|&n| self.agenda.is_gang(n)).collect();
        // If a task must wait, its whole gang is held back; a task without a gang only holds back its GPU.
        let key = |place: TaskPlace, gpu: usize| match gangs.contains(&place.job) {
            true => (place.job, None),
            false => (place.job, Some(gpu)),
        };
        for &(place, gpu) in &startable {
            // While a process of the job is being ended, its tasks wait.
            let ending = |r: &Running| r.ended.is_some() && r.place.job == place.job;
            let ends = self.running.values().any(ending);
            if ends || self.pauses[gpu] > at || !self.room(run, gpu, place.job) {
                held.insert(key(place, gpu));
            }
        }
        for (place, gpu) in startable {
            // A task that has to wait also makes its gang wait.
            if held.contains(&key(place, gpu)) {
                continue;
            }
            let written = self.kept.started(self.cluster, place);
            look_at_journal(run, written);
            self.agenda.start(gpu, now(run));
            match self.begin(run, place, gpu) {
                Ok((key, running)) => self.begun(run, key, running),
                // The failure may change the next task of every GPU, so the remaining tasks are examined again later.
                Err(reason) => return self.try_again(run, place, gpu, &reason),
            }
        }
    }

    /// Wakes the process of the task's job that is parked on the GPU, or starts one.
    fn begin(
        &mut self,
        run: &mut Run<'_>,
        place: TaskPlace,
        gpu: usize,
    ) -> Result<(Key, Running), String> {
        if let (Some(limit), false) = (self.settings.limits.total, self.due.contains_key(&place)) {
            self.due.insert(place, run.now() + limit);
        }
        let mut running = Running {
            place,
            gpu,
            slot: 0,
            stays: self.can_stay(place.job),
            since: now(run),
            trained: None,
            ended: None,
        };
        if let Some((key, slot)) = self.wake(run, place, gpu) {
            run.limit(key, self.limits(place), true);
            running.slot = slot;
            return Ok((key, running));
        }
        running.slot = self.slot(gpu);
        let key = Key(self.next);
        self.next += 1;
        self.spawn(run, key, place, gpu, running.slot)?;
        // The process reads the order when it is ready. Sending fails only if the process has ended, which is reported
        // as its exit.
        let _ = running.stays && self.order(run, key, place);
        Ok((key, running))
    }

    fn begun(&mut self, run: &mut Run<'_>, key: Key, running: Running) {
        let there = |r: &&Running| r.gpu == running.gpu && r.trained.is_none() && r.ended.is_none();
        let beside = self.running.values().find(there).map(|r| r.place);
        self.running.insert(key, running);
        run.tell(EventPayload::Start {
            round: running.place.round as u32,
            task: self.name(running.place),
            batch: None,
            share: None,
            gpu: Some(self.seats.all[running.gpu].name.clone()),
            beside: beside.map(|place| self.name(place)),
            pid: run.pid(key),
            predicted: None,
        });
    }

    fn limits(&self, place: TaskPlace) -> Limits {
        let limits = &self.settings.limits;
        let progress = self.cluster.jobs[place.job]
            .job
            .as_ref()
            .map(|job| &job.progress);
        let silent = limits.no_progress || progress.is_some_and(|p| p.none);
        let matched = progress.is_some_and(|p| p.regex.is_some());
        Limits {
            ready: limits.ready,
            stall: limits.stall,
            until: self.due.get(&place).copied().zip(limits.total),
            grace: None,
            reports: match (silent, matched) {
                (true, _) => Reports::Nothing,
                (false, true) => Reports::Matched,
                (false, false) => Reports::Lines,
            },
        }
    }

    fn spawn(
        &mut self,
        run: &mut Run<'_>,
        key: Key,
        place: TaskPlace,
        gpu: usize,
        slot: usize,
    ) -> Result<(), String> {
        let job = &self.cluster.jobs[place.job];
        let task = Task {
            id: self.name(place),
            ..self.programs[place.job].clone()
        };
        let Some(program) = &task.job else {
            return Err("the job has no program".to_owned());
        };
        let failed = self.jobs[place.job].attempts.contains_key(&place);
        let again = failed || self.past.started.contains(&place);
        let argv = match again && !program.resume.is_empty() {
            true => &program.resume,
            false => &program.argv,
        };
        let who = Who {
            job: job.id.as_str(),
            round: place.round,
            task: place.task,
        };
        let mut env = self.seats.variables(gpu);
        env.push(("MT_TASK".to_owned(), job.id.to_string()));
        env.push(("MT_RANK".to_owned(), place.task.to_string()));
        env.push(("MT_TASKS".to_owned(), job.tasks.to_string()));
        if let Some(peers) = self.agenda.peers(place) {
            let names = peers.iter().map(|&gpu| self.seats.all[gpu].address());
            env.push(("MT_PEERS".to_owned(), names.collect::<Vec<_>>().join(",")));
        }
        let work = Work {
            task: &task,
            phase: PhaseKind::Compute,
            argv: &self.seats.command(gpu, &who, argv),
            batch: None,
            env: &env,
            round: place.round as u32,
            samples: job.samples.map(|s| s.round() as u64),
            orders: self.can_stay(place.job),
            log: self.logs.join(format!("{}.log", self.name(place))),
            log_limits: self.settings.supervision.log_limits,
        };
        let grant = Grant {
            gpus: Gpus::one(gpu),
            start: slot as u32,
            ..Grant::of(Share::FULL)
        };
        let start = Start {
            work: &work,
            grant: &grant,
            limits: self.limits(place),
        };
        match run.start(key, &start) {
            Ok(true) => Ok(()),
            Ok(false) => Err("the job has no program".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Outcome of every job, with one row for each task index of its rounds.
    pub fn summaries(&self) -> Vec<TaskSummary> {
        let completions = self.agenda.completions();
        let rows = |(job, completed): (usize, Option<f64>)| {
            let lanes = self.jobs[job].lanes.iter().enumerate();
            lanes.map(move |(task, lane)| TaskSummary {
                finished: completed.is_some(),
                interrupted: self.stopped && completed.is_none() && !self.jobs[job].given_up,
                samples: lane.samples,
                trained: Seconds::new(lane.trained)
                    .ok()
                    .filter(|_| lane.trained > 0.0),
                rate: SamplesPerSec::new(lane.samples as f64 / lane.trained)
                    .ok()
                    .filter(|_| lane.samples > 0),
                first_loss: lane.first_loss,
                last_loss: lane.last_loss,
                restarts: lane.restarts,
                end: lane.end,
                ..TaskSummary::new(self.name(TaskPlace {
                    job,
                    round: 0,
                    task,
                }))
            })
        };
        completions.into_iter().enumerate().flat_map(rows).collect()
    }

    /// The smallest number that no process on the GPU uses. A process that synchronises may still be there when the
    /// next one trains, and each has its own control group.
    fn slot(&self, gpu: usize) -> usize {
        let running = self.running.values().map(|r| (r.gpu, r.slot));
        let parked = self.parked.values().map(|p| (p.gpu, p.slot));
        let taken: BTreeSet<(usize, usize)> = running.chain(parked).collect();
        (0..)
            .find(|slot| !taken.contains(&(gpu, *slot)))
            .unwrap_or_default()
    }
}

/// Seconds since the start of the run, which an earlier process may have begun.
pub(crate) fn now(run: &Run<'_>) -> f64 {
    run.elapsed().get()
}

/// Reports a failure to write the journal; the jobs continue.
pub(crate) fn look_at_journal(run: &mut Run<'_>, written: Result<(), RecordsError>) {
    if let Err(error) = written {
        run.warn(&format!(
            "{error}; until it can be written, a resumed run repeats tasks that end now"
        ));
    }
}
