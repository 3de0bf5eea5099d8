//! Starting tasks and waiting for them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use cli::{Console, Failure, Output};
use doc::{EventPayload, ProcessEnd, RunEvent, TaskSummary};
use jobs::{Assignment, JobId, JobSpec, Journal, Progress, RecordsError, Supervisor};
use units::{SamplesPerSec, Seconds, TaskId};

use crate::journal::{Past, TaskJournal};
use crate::orders::Orders;
use crate::seats::{Seats, Who};
use crate::view::View;
use crate::{Agenda, Place, Settings};

/// Longest wait for an event, so that signals and back-offs are looked at.
const LOOK: Duration = Duration::from_millis(100);

/// A schedule under way.
pub(crate) struct Driver<'a> {
    pub agenda: Agenda,
    pub cluster: &'a doc::Cluster,
    pub settings: &'a Settings,
    pub seats: Seats,
    pub supervisor: Supervisor,
    pub output: &'a mut Output,
    pub console: &'a Console,
    pub logs: PathBuf,
    pub journal: Journal,
    /// Continues after this process exits.
    pub kept: TaskJournal,
    /// How far the run was before this process.
    pub past: Past,
    pub running: BTreeMap<JobId, Running>,
    /// Processes between two tasks.
    pub parked: BTreeMap<JobId, Parked>,
    pub jobs: Vec<Told>,
    /// No task starts on a GPU before this.
    pub pauses: Vec<Instant>,
    /// Jobs that failed on a GPU since a task succeeded there.
    pub failures: Vec<BTreeSet<usize>>,
    /// Tasks that were moved, from which GPU.
    pub moved: BTreeMap<Place, usize>,
    pub written: Result<(), Failure>,
    /// Why no more tasks are started, if so.
    pub stopped: Option<String>,
    /// Seconds since a plan was last made again.
    pub replanned: Instant,
    /// Display meanwhile.
    pub view: View,
    /// Commands of the user meanwhile.
    pub orders: Orders,
    /// GPUs that are not used any more.
    pub lost: BTreeSet<usize>,
    /// When the status was last written.
    pub told_status: Option<Instant>,
    /// Whether it was told that it could not be.
    pub told_unwritten: bool,
}

/// A process between two tasks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parked {
    pub job: usize,
    pub gpu: usize,
    pub slot: usize,
    /// When it was told to end.
    pub leaving: Option<Instant>,
}

/// A process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Running {
    pub place: Place,
    pub gpu: usize,
    /// Which of the processes on the GPU it is.
    pub slot: usize,
    pub ready: bool,
    /// Whether it takes orders, and stays after the task.
    pub stays: bool,
    /// When it started or was woken.
    pub since: f64,
    /// When its training was done, if it is.
    pub trained: Option<f64>,
    /// Why it is ended, if another task of its gang has failed or its GPU is lost: what it says counts no
    /// more.
    pub ended: Option<&'static str>,
}

/// Summary of the tasks with one number over all rounds of a job.
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

/// How a job fares.
#[derive(Debug, Clone, Default)]
pub(crate) struct Told {
    pub lanes: Vec<Lane>,
    /// Failures of each of its tasks that has failed.
    pub attempts: BTreeMap<Place, u32>,
    pub given_up: bool,
    /// Mean of measured over planned training times in the present round, and of how many.
    pub drift: (f64, u32),
}

impl Told {
    /// For a job of which nothing has happened.
    pub fn of(job: &doc::ClusterJob) -> Self {
        Self {
            lanes: vec![Lane::default(); job.tasks as usize],
            ..Self::default()
        }
    }
}

impl Driver<'_> {
    /// Seconds since the start.
    pub fn now(&self) -> f64 {
        self.journal.time(Instant::now()).get()
    }

    /// Name of a task in events: of its job, with its number where a round has several.
    pub fn name(&self, place: Place) -> TaskId {
        let job = &self.cluster.jobs[place.job];
        if job.tasks == 1 {
            return job.id.clone();
        }
        // A name with a number behind it is a name, unless it becomes too long.
        TaskId::new(&format!("{}.{}", job.id, place.task)).unwrap_or_else(|_| job.id.clone())
    }

    /// Writes an event. The jobs continue whatever happens to it; only a lost reader stops them.
    pub fn tell(&mut self, payload: EventPayload) {
        let event = self.journal.event(Instant::now(), payload);
        self.record(&event);
    }

    /// Like [`Driver::tell`], of an event that has its time.
    pub fn record(&mut self, event: &RunEvent) {
        let written = self.output.record(event);
        if self.written.is_ok() {
            self.written = written;
        }
    }

    /// Goes on where the process before this one was.
    pub fn go_on(&mut self) {
        if self.past.elapsed().is_none() {
            return;
        }
        let done = self.past.done.len();
        let open = self.past.started.iter();
        let ran = open.filter(|p| !self.past.done.contains_key(p)).count();
        self.view.done = done;
        self.agenda.resume(&self.past.done, self.now());
        let reason = format!(
            "the run continues: {done} tasks done, {ran} unfinished ones started again, the others planned again"
        );
        self.console.note(&reason);
        self.tell(EventPayload::Replan {
            round: None,
            reason,
            planned: None,
        });
    }

    /// A task has trained and synchronised: on the disk first, then for everybody.
    pub fn confirm(&mut self, place: Place) {
        let now = self.now();
        let written = self.kept.done(self.cluster, place, now);
        self.look_at_journal(written);
    }

    /// The jobs go on where the disk does not take what becomes of them.
    pub fn look_at_journal(&self, written: Result<(), RecordsError>) {
        if let Err(error) = written {
            self.console.warn(&format!(
                "{error}; until it can be written, a resumed run repeats tasks that end now"
            ));
        }
    }

    /// Runs until nothing is left to run, or a signal; returns the signal.
    pub fn drive(&mut self) -> Option<i32> {
        let mut heard = 0;
        loop {
            let arrived = self.supervisor.arrived();
            if arrived.count > heard {
                // A second signal means that the user does not want to wait.
                let grace = if heard == 0 {
                    self.settings.supervision.grace
                } else {
                    Duration::ZERO
                };
                heard = arrived.count;
                self.stop("a signal arrived", grace);
            }
            if matches!(self.written, Err(Failure::ClosedPipe)) {
                self.stop(
                    "nobody reads the events any more",
                    self.settings.supervision.grace,
                );
            }
            if self.stopped.is_none() {
                self.heed_orders();
                self.start_all();
            }
            self.keep_status();
            let nothing = self.running.is_empty();
            if nothing && (self.stopped.is_some() || self.agenda.done()) {
                self.dismiss_all();
                return arrived.first;
            }
            for event in self.supervisor.poll(self.patience()) {
                self.happened(event);
            }
            self.show();
        }
    }

    /// How long to wait for something to happen.
    fn patience(&self) -> Duration {
        let arrival = self.agenda.next_arrival(self.now());
        let left = arrival.map(|at| Duration::from_secs_f64((at - self.now()).max(0.0)));
        let now = Instant::now();
        let paused = self.pauses.iter().map(|p| p.saturating_duration_since(now));
        let paused = paused.filter(|d| !d.is_zero()).min();
        left.into_iter().chain(paused).fold(LOOK, Duration::min)
    }

    /// Ends everything that runs, and starts nothing any more.
    fn stop(&mut self, reason: &str, grace: Duration) {
        if self.stopped.is_none() {
            self.stopped = Some(reason.to_owned());
            self.tell(EventPayload::Stop {
                round: None,
                task: None,
                reason: reason.to_owned(),
            });
        }
        self.supervisor.stop_all(grace);
    }

    fn start_all(&mut self) {
        let now = Instant::now();
        let startable = self.agenda.startable(self.now());
        let mut held = BTreeSet::new();
        let jobs = startable.iter().map(|(p, _)| p.job);
        let gangs: BTreeSet<usize> = jobs.filter(|&n| self.agenda.is_gang(n)).collect();
        // A gang is held as a whole, another task on its GPU.
        let key = |place: Place, gpu: usize| match gangs.contains(&place.job) {
            true => (place.job, None),
            false => (place.job, Some(gpu)),
        };
        for &(place, gpu) in &startable {
            // While a process of the job is being ended there, its gang waits.
            let ending = |r: &Running| r.ended.is_some() && r.place.job == place.job;
            let ends = self.running.values().any(ending);
            if ends || self.pauses[gpu] > now || !self.room(gpu, place.job) {
                held.insert(key(place, gpu));
            }
        }
        for (place, gpu) in startable {
            // A task that has to wait makes its gang wait.
            if held.contains(&key(place, gpu)) {
                continue;
            }
            let written = self.kept.started(self.cluster, place);
            self.look_at_journal(written);
            self.agenda.start(gpu, self.now());
            match self.begin(place, gpu) {
                Ok((id, running)) => self.begun(id, running),
                // The outcome may change what is next everywhere, so the rest is examined again.
                Err(reason) => return self.failed(place, gpu, &reason),
            }
        }
    }

    /// Wakes the process of the task's job that is parked on the GPU, or starts one.
    fn begin(&mut self, place: Place, gpu: usize) -> Result<(JobId, Running), String> {
        let mut running = Running {
            place,
            gpu,
            slot: 0,
            ready: false,
            stays: self.can_stay(place.job),
            since: self.now(),
            trained: None,
            ended: None,
        };
        if let Some((id, slot)) = self.wake(place, gpu) {
            (running.slot, running.ready) = (slot, true);
            return Ok((id, running));
        }
        running.slot = self.slot(gpu);
        let id = self.spawn(place, (gpu, running.slot))?;
        // Read when it is ready. An order fails to arrive only because the process has ended.
        let _ = running.stays && self.order(id, place);
        Ok((id, running))
    }

    fn begun(&mut self, id: JobId, running: Running) {
        let there = |r: &&Running| r.gpu == running.gpu && r.trained.is_none() && r.ended.is_none();
        let beside = self.running.values().find(there).map(|r| r.place);
        self.running.insert(id, running);
        let pid = self.supervisor.pid(id).and_then(|p| u32::try_from(p).ok());
        self.tell(EventPayload::Start {
            round: running.place.round as u32,
            task: self.name(running.place),
            batch: None,
            share: None,
            gpu: Some(self.seats.all[running.gpu].name.clone()),
            beside: beside.map(|place| self.name(place)),
            pid,
            predicted: None,
        });
    }

    fn spawn(&mut self, place: Place, at: (usize, usize)) -> Result<JobId, String> {
        let cluster = self.cluster;
        let job = &cluster.jobs[place.job];
        let Some(program) = &job.job else {
            return Err("the job has no program".to_owned());
        };
        let name = self.name(place);
        let failed = self.jobs[place.job].attempts.contains_key(&place);
        let again = failed || self.past.started.contains(&place);
        let argv = if again && !program.resume.is_empty() {
            &program.resume
        } else {
            &program.argv
        };
        let passing = &self.settings.supervision.passing;
        let mut env = passing.base_environment();
        let own = program.env.iter().chain(passing.set());
        env.extend(own.map(|(n, v)| (n.into(), v.into())));
        let assignment = Assignment {
            batch: None,
            share: None,
            device: self.settings.place.word(),
            round: place.round as u32,
            samples: job.samples.map(|s| s.round() as u64),
            orders: self.can_stay(place.job),
        };
        let own = assignment.variables(job.id.as_str());
        env.extend(own.into_iter().map(|(n, v)| (n.into(), v.into())));
        env.insert("MT_RANK".into(), place.task.to_string().into());
        env.insert("MT_TASKS".into(), job.tasks.to_string().into());
        if let Some(peers) = self.agenda.peers(place) {
            let names = peers.iter().map(|&gpu| self.seats.all[gpu].address());
            env.insert(
                "MT_PEERS".into(),
                names.collect::<Vec<_>>().join(",").into(),
            );
        }
        let units = jobs::Units {
            step: None,
            epoch: assignment.samples,
        };
        let progress = Progress::from_document(&program.progress, units);
        let progress = progress.map_err(|e| e.to_string())?;
        let mut spec = JobSpec {
            log: self.logs.join(format!("{name}.log")),
            task: name,
            argv: assignment.arguments(argv).map(Into::into).collect(),
            env,
            cwd: program.cwd.as_ref().map(PathBuf::from),
            orders: assignment.orders,
            progress,
            cgroup_procs: None,
            cpus: Vec::new(),
            origin: None,
            log_limits: self.settings.supervision.log_limits,
        };
        let who = Who {
            job: job.id.as_str(),
            round: place.round,
            task: place.task,
        };
        self.seats.put(at, &who, &mut spec)?;
        self.supervisor.spawn(&spec).map_err(|e| e.to_string())
    }

    /// Outcome of every job, a row for each task of its rounds.
    pub fn summaries(&self) -> Vec<TaskSummary> {
        let completions = self.agenda.completions();
        let rows = |(job, completed): (usize, Option<f64>)| {
            let lanes = self.jobs[job].lanes.iter().enumerate();
            lanes.map(move |(task, lane)| TaskSummary {
                finished: completed.is_some(),
                interrupted: self.stopped.is_some()
                    && completed.is_none()
                    && !self.jobs[job].given_up,
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
                ..TaskSummary::new(self.name(Place {
                    job,
                    round: 0,
                    task,
                }))
            })
        };
        completions.into_iter().enumerate().flat_map(rows).collect()
    }

    /// The least number that no process on the GPU has: one that synchronises may still be there
    /// when the next trains, and each has a control group of its own.
    fn slot(&self, gpu: usize) -> usize {
        let running = self.running.values().map(|r| (r.gpu, r.slot));
        let parked = self.parked.values().map(|p| (p.gpu, p.slot));
        let taken: BTreeSet<(usize, usize)> = running.chain(parked).collect();
        (0..)
            .find(|slot| !taken.contains(&(gpu, *slot)))
            .unwrap_or_default()
    }
}
