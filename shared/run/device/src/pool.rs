//! Workers on a host that measure configurations. They are kept between measurements, parked on
//! standard input.
//!
//! If shares are fixed at process start, there is one worker for each pair of task and share: a configuration wakes the
//! workers that it needs, and starts only missing ones. If shares can change at run time, there is one worker for each
//! task. The least recently used worker is evicted at the client limit or if memory would run out. A job that does not
//! support the pool protocol is started for one sample and then stopped.

mod evict;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::mem::{Discriminant, discriminant};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use doc::{FailureCause, PhaseKind, Task};
use host::{Gpus, Grant, Health, Host, HostError, LOOK, Recovery, Regrants, Work};
use jobs::{Event, Happening, JobId, LogLimits, Order, OrderError};
use units::corun::Setting;
use units::{Batch, Share};

use crate::error::Failed;
use crate::{MeasureError, cause};

/// Time limits of a device for its jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// Longest time from the start of a job until it is ready.
    pub ready: Duration,
    /// Longest time between two steps.
    pub stall: Duration,
    /// Longest time from the order `park` until it is parked.
    pub park: Duration,
    /// Time from SIGTERM to SIGKILL.
    pub grace: Duration,
    /// Warm-up that is not counted.
    pub warm_up: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            // After each of these times a user would consider the job stuck; they are far above the needs of a healthy
            // job: importing PyTorch takes 5 to 15 s, longer from a cold disk.
            ready: Duration::from_secs(120),
            stall: Duration::from_secs(60),
            // A job parks at the end of a step, and steps on processors are short.
            park: Duration::from_secs(5),
            grace: Duration::from_secs(2),
            // In addition to the first step of each job, which never counts: about ten periods of a 20 ms quota, so
            // that it hardly matters at which point of a period a job began.
            warm_up: Duration::from_millis(250),
        }
    }
}

/// Capacity of a device for workers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Capacity {
    /// Maximum number of workers at a time.
    pub clients: usize,
    /// Shared device memory in bytes, if known.
    pub memory: Option<f64>,
}

/// A job of the pool.
#[derive(Debug)]
struct Worker {
    run: Setting,
    job: JobId,
    /// Whether it takes orders.
    pool: bool,
    launched: Instant,
    /// Its start-up time; taken by the first query.
    startup: Option<Duration>,
    ready: bool,
    /// Number of SMs that it reports.
    sms: Option<u32>,
    parked: bool,
    /// Time of its last use, on the pool's logical clock.
    used: u64,
}

/// Workers of the tasks of a workload.
pub(crate) struct Pool {
    host: Box<dyn Host>,
    workers: Vec<Worker>,
    tasks: Vec<Task>,
    cpus: Vec<Vec<usize>>,
    logs: PathBuf,
    patience: Patience,
    capacity: Capacity,
    clock: u64,
    started: u64,
    /// Tasks whose workers train although they have reported that they are parked.
    restless: BTreeSet<usize>,
    /// Tasks that report nothing before they end, with the duration of their shortest run.
    whole: BTreeMap<usize, Duration>,
    /// Settings of coming configurations. Their workers are started together with missing ones, because several jobs
    /// can start at once.
    expected: Vec<Setting>,
    /// Whether workers may be started ahead: false after one of them has failed.
    ahead: bool,
    /// Messages for the user that have not been reported yet.
    untold: Vec<String>,
    /// Kinds of messages that were reported for each task. Each is reported once, since the workers of a task are
    /// alike.
    told: HashSet<(usize, Discriminant<Happening>)>,
}

/// Numbers of workers that had to be started for a configuration.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Gathered {
    pub(crate) started: usize,
    pub(crate) restarted: usize,
}

impl Pool {
    pub(crate) fn new(
        host: Box<dyn Host>,
        tasks: Vec<Task>,
        cpus: Vec<Vec<usize>>,
        logs: PathBuf,
        patience: Patience,
        capacity: Capacity,
    ) -> Self {
        Self {
            host,
            workers: Vec::new(),
            tasks,
            cpus,
            logs,
            patience,
            capacity,
            clock: 0,
            started: 0,
            restless: BTreeSet::new(),
            whole: BTreeMap::new(),
            expected: Vec::new(),
            ahead: true,
            untold: Vec::new(),
            told: HashSet::new(),
        }
    }

    /// Sets the settings of coming configurations, in their order.
    pub(crate) fn expect(&mut self, coming: &[Setting]) {
        self.expected = coming
            .iter()
            .filter(|run| self.is_of_pool(run))
            .copied()
            .collect();
    }

    pub(crate) fn host(&mut self) -> &mut dyn Host {
        self.host.as_mut()
    }

    /// Last output of a job.
    pub(crate) fn tail(&self, job: JobId) -> String {
        self.host.tail(job)
    }

    /// Number of live workers.
    pub(crate) fn len(&self) -> usize {
        self.workers.len()
    }

    /// Ensures a worker for every setting: settled and parked, or (if it takes no orders) just launched.
    pub(crate) fn gather(
        &mut self,
        configuration: &[Setting],
        interrupted: &AtomicBool,
    ) -> Result<Gathered, MeasureError> {
        self.clock += 1;
        let mut gathered = Gathered::default();
        let host = &self.host;
        self.workers.retain(|w| host.is_running(w.job));
        for run in configuration {
            if let Some(index) = self.position(run) {
                self.workers[index].used = self.clock;
            }
        }
        let missing: Vec<Setting> = configuration
            .iter()
            .filter(|r| self.position(r).is_none())
            .copied()
            .collect();
        let (of_pool, alone): (Vec<_>, Vec<_>) =
            missing.into_iter().partition(|run| self.is_of_pool(run));
        for run in &of_pool {
            self.make_room(run, configuration);
            self.start(run)?;
            gathered.started += 1;
        }
        if gathered.started > 0 {
            self.start_ahead();
        }
        self.wait_ready(configuration, interrupted)?;
        for run in configuration {
            if self.is_of_pool(run) {
                self.settled(run)?;
            }
        }
        // These workers begin to train at once, so they are started last.
        for run in &alone {
            self.make_room(run, configuration);
            self.start(run)?;
            gathered.restarted += 1;
        }
        Ok(gathered)
    }

    /// Makes the workers of a configuration train, at its batch sizes.
    pub(crate) fn wake(&mut self, configuration: &[Setting]) -> Result<(), MeasureError> {
        for run in configuration {
            let Some(index) = self.position(run) else {
                continue;
            };
            let worker = &mut self.workers[index];
            if !worker.pool {
                continue;
            }
            let mut orders = vec![Order::Run];
            if worker.run.batch != run.batch {
                orders.insert(0, Order::Batch(run.batch));
            }
            for order in orders {
                match self.host.order(worker.job, order) {
                    // It has ended meanwhile; the next event contains its exit and its last output.
                    Ok(()) | Err(OrderError::Ended) => {}
                    Err(why) => {
                        let tail = self.host.tail(worker.job);
                        return Err(refusal(run, &self.tasks, &why.to_string(), &tail));
                    }
                }
            }
            worker.run.batch = run.batch;
            worker.parked = false;
        }
        Ok(())
    }

    /// Parks the workers that train and ends those that cannot be parked.
    pub(crate) fn rest(&mut self, interrupted: &AtomicBool) -> Result<(), MeasureError> {
        let mut end = Vec::new();
        for worker in self.workers.iter_mut().filter(|w| !w.parked) {
            let mut parking = worker.pool && !self.restless.contains(&worker.run.task);
            if parking && self.host.regrants() == Regrants::Now {
                // With a small share, a worker would need long to finish its current step.
                parking = self.host.regrant(worker.job, Share::FULL).is_ok();
                worker.run.share = Share::FULL;
            }
            parking = parking && self.host.order(worker.job, Order::Park).is_ok();
            if !parking {
                end.push(worker.job);
            }
        }
        for job in end {
            self.end(job);
        }
        let deadline = Instant::now() + self.patience.park;
        while self.workers.iter().any(|w| !w.parked) && Instant::now() < deadline {
            if interrupted.load(Ordering::Relaxed) {
                return Err(MeasureError::Interrupted);
            }
            for event in self.host.poll(Some(deadline.min(Instant::now() + LOOK))) {
                self.note(&event);
            }
        }
        let deaf = self.workers.iter().filter(|w| !w.parked).map(|w| w.job);
        for job in deaf.collect::<Vec<_>>() {
            self.end(job);
        }
        Ok(())
    }

    /// After a failed configuration: ends stuck workers; if the device has a fault, ends all workers and waits until
    /// the device has recovered. Returns messages about the actions.
    pub(crate) fn recover(&mut self) -> Result<Option<&'static str>, MeasureError> {
        self.tidy();
        let gpus = match self.host.health() {
            Health::Good => return Ok(None),
            Health::Faulted(faults) => faults.into_iter().next().map(|fault| fault.gpus),
            Health::Unknown(_) => None,
        };
        // All workers of a measurement are on one GPU.
        let gpus = gpus.unwrap_or_else(|| Gpus::one(0));
        self.end_all();
        loop {
            let recovery = self.host.recover(&gpus);
            match recovery.map_err(|e| MeasureError::Unusable(e.to_string()))? {
                Recovery::Pending => std::thread::sleep(Duration::from_millis(20)),
                Recovery::Recovered => return Ok(Some("the MPS server faulted and recovered")),
                Recovery::Replaced => return Ok(Some("the MPS daemon had to be replaced")),
            }
        }
    }

    /// Whether a worker can serve a run: it has its task, its share or one that can be changed to it, and its batch
    /// size or one that an order can change.
    fn serves(&self, worker: &Worker, run: &Setting) -> bool {
        worker.run.task == run.task
            && (worker.run.share == run.share || self.host.regrants() == Regrants::Now)
            && (worker.pool || worker.run.batch == run.batch)
    }

    /// Whether the task of a run has workers that take orders.
    pub(crate) fn is_of_pool(&self, run: &Setting) -> bool {
        self.tasks[run.task].job.as_ref().is_some_and(|j| j.pool)
    }

    /// Samples of a round of a task, if the workload has them.
    pub(crate) fn samples(&self, task: usize) -> Option<u64> {
        self.tasks[task].samples.map(units::Samples::get)
    }

    /// Records that a task reports nothing before it ends; its last run took `time`.
    pub(crate) fn runs_whole(&mut self, task: usize, time: Duration) {
        let known = self.whole.entry(task).or_insert(time);
        *known = time.min(*known);
    }

    /// Whether a task is counted by whole runs.
    pub(crate) fn is_whole(&self, task: usize) -> bool {
        self.whole.contains_key(&task)
    }

    /// Time limit for a run of such a task among `together` tasks, to detect a job that hangs: four times the time that
    /// its shortest run would take with its share of a device that all tasks divide equally.
    pub(crate) fn whole_limit(&self, run: &Setting, together: usize) -> Option<Duration> {
        let shortest = self.whole.get(&run.task)?;
        Some(shortest.mul_f64(4.0 * together as f64 / run.share.fraction().max(0.01)))
    }

    /// Launch time of the job of a run, and how long its worker took to start if it was launched for this
    /// configuration.
    pub(crate) fn launch_of(&mut self, run: &Setting) -> (Option<Instant>, Option<Duration>) {
        let Some(index) = self.position(run) else {
            return (None, None);
        };
        let worker = &mut self.workers[index];
        (Some(worker.launched), worker.startup.take())
    }

    /// The failure of a job that has not trained after `limit`.
    pub(crate) fn late(
        &self,
        run: &Setting,
        limit: Duration,
        tail: &str,
    ) -> (FailureCause, String) {
        let seconds = limit.as_secs_f64();
        if tail.is_empty() {
            return (
                FailureCause::Timeout,
                format!("reported no progress within {seconds} s"),
            );
        }
        let progress = self.tasks[run.task].job.as_ref().map(|j| &j.progress);
        let regex = progress.is_some_and(|p| p.regex.is_some());
        let no_match = if regex { jobs::NO_MATCH } else { "" };
        (
            FailureCause::Silent,
            format!("reported no progress within {seconds} s{no_match}"),
        )
    }

    /// A failure of the job of a run, whose last output was `tail`.
    pub(crate) fn failed(
        &self,
        run: &Setting,
        cause: FailureCause,
        what: &str,
        tail: &str,
    ) -> Failed {
        Failed {
            reason: format!("task {}: {what}", self.tasks[run.task].id),
            cause: Some(cause),
            task: Some(run.task),
            output: jobs::plain(tail),
        }
    }

    fn position(&self, run: &Setting) -> Option<usize> {
        self.workers.iter().position(|w| self.serves(w, run))
    }

    /// Launches the job of a run.
    pub(crate) fn start(&mut self, run: &Setting) -> Result<(), MeasureError> {
        let task = &self.tasks[run.task];
        let Some(job) = &task.job else {
            return Err(refusal(run, &self.tasks, "it has no job to start", ""));
        };
        self.started += 1;
        let name = format!(
            "{}-{}-{}.log",
            self.started,
            task.id,
            run.share.hundredths()
        );
        let work = Work {
            task,
            phase: PhaseKind::Compute,
            argv: &job.argv,
            batch: Some(run.batch),
            env: &[],
            round: 0,
            samples: None,
            orders: job.pool,
            log: self.logs.join(name),
            log_limits: LogLimits::default(),
        };
        let grant = Grant {
            processors: self.cpus[run.task].clone(),
            ..Grant::of(run.share)
        };
        let launched = Instant::now();
        let admitted = self
            .host
            .admit(&work, &grant)
            .map_err(|e| self.refused(run, &e))?;
        let Some(id) = admitted else {
            return Err(refusal(run, &self.tasks, "its job has no program", ""));
        };
        self.workers.push(Worker {
            run: *run,
            job: id,
            pool: job.pool,
            launched,
            startup: None,
            ready: false,
            sms: None,
            parked: job.pool,
            used: self.clock,
        });
        Ok(())
    }

    /// Converts a host's refusal into an error of the measurement.
    fn refused(&self, run: &Setting, error: &HostError) -> MeasureError {
        if error.is_of_the_job() {
            refusal(run, &self.tasks, &error.to_string(), "")
        } else {
            MeasureError::Unusable(format!("task {}: {error}", self.tasks[run.task].id))
        }
    }

    /// Starts expected workers together with those that are starting. In total at most one per processor starts at a
    /// time, so that they do not slow down each other's start; and none is started for which another worker would have
    /// to be evicted.
    fn start_ahead(&mut self) {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        for run in std::mem::take(&mut self.expected) {
            let starting = self.workers.iter().filter(|w| !w.ready).count();
            let room = self.workers.len() < self.capacity.clients && self.fits(&run);
            if starting >= processors || !room || !self.ahead {
                return;
            }
            if self.position(&run).is_none() {
                self.ahead = self.start(&run).is_ok();
            }
        }
    }

    /// Waits until every worker is ready. A worker that was started ahead and fails is dropped, and no more are started
    /// ahead: if it fails again when it is needed, that is reported.
    fn wait_ready(
        &mut self,
        configuration: &[Setting],
        interrupted: &AtomicBool,
    ) -> Result<(), MeasureError> {
        let deadline = Instant::now() + self.patience.ready;
        while let Some(late) = self.workers.iter().find(|w| !w.ready) {
            if interrupted.load(Ordering::Relaxed) {
                return Err(MeasureError::Interrupted);
            }
            if Instant::now() > deadline {
                if !self.is_needed(late, configuration) {
                    let job = late.job;
                    self.ahead = false;
                    self.end(job);
                    continue;
                }
                let tail = self.host.tail(late.job);
                let (cause, what) = self.late(&late.run, self.patience.ready, &tail);
                let what = format!("{what}{}", cause::last_line(&tail));
                let failed = self.failed(&late.run, cause, &what, &tail);
                return Err(MeasureError::Failed(Box::new(failed)));
            }
            for event in self.host.poll(Some(deadline.min(Instant::now() + LOOK))) {
                let worker = self.worker(event.job);
                let needed = worker.is_none_or(|w| self.is_needed(w, configuration));
                let run = worker.map(|w| w.run);
                self.note(&event);
                if !needed && matches!(event.what, Happening::Exited { .. }) {
                    self.ahead = false;
                    continue;
                }
                if let Happening::Doubt(why) = event.what {
                    return Err(MeasureError::Unusable(why));
                }
                if let (
                    Some(run),
                    Happening::Exited {
                        exit,
                        tail,
                        out_of_memory,
                        ..
                    },
                ) = (run, &event.what)
                {
                    let last = cause::last_line(tail);
                    let what = format!("ended ({}) before its first step{last}", cause::how(*exit));
                    let cause = cause::of_exit(*exit, tail, out_of_memory.is_some());
                    let failed = self.failed(&run, cause, &what, tail);
                    return Err(MeasureError::Failed(Box::new(failed)));
                }
            }
        }
        Ok(())
    }

    /// The job of a run.
    pub(crate) fn job_of(&self, run: &Setting) -> Result<JobId, MeasureError> {
        let job = self.position(run).map(|index| self.workers[index].job);
        job.ok_or_else(|| refusal(run, &self.tasks, "has no worker", ""))
    }

    /// Ensures that the job of a run has its share.
    pub(crate) fn settled(&mut self, run: &Setting) -> Result<(), MeasureError> {
        let Some(index) = self.position(run) else {
            return Err(refusal(run, &self.tasks, "has no worker", ""));
        };
        let job = self.workers[index].job;
        let mut settled = Ok(());
        if self.workers[index].run.share != run.share {
            settled = self.host.regrant(job, run.share);
            self.workers[index].run.share = run.share;
        }
        match settled.and_then(|()| self.host.settle(job)) {
            Ok(settled) => self.workers[index].sms = settled.sms,
            // It has ended meanwhile; the next event contains its exit and its last output.
            Err(HostError::Ended) => {}
            Err(error) => return Err(self.refused(run, &error)),
        }
        Ok(())
    }

    fn worker(&self, job: JobId) -> Option<&Worker> {
        self.workers.iter().find(|w| w.job == job)
    }

    pub(crate) fn note(&mut self, event: &Event) {
        let Some(index) = self.workers.iter().position(|w| w.job == event.job) else {
            return;
        };
        self.tell(self.workers[index].run.task, &event.what);
        let worker = &mut self.workers[index];
        match event.what {
            // A job without the worker protocol is ready with its first step.
            Happening::Ready { .. } | Happening::Steps { .. } => {
                if !worker.ready {
                    worker.startup = Some(event.at.saturating_duration_since(worker.launched));
                }
                worker.ready = true;
            }
            Happening::Parked => worker.parked = true,
            Happening::Exited { .. } => {
                self.workers.remove(index);
            }
            _ => {}
        }
    }

    /// Stores messages for the user. A doubt about a share is not stored, because it ends the measurement as an error.
    fn tell(&mut self, task: usize, what: &Happening) {
        if matches!(what, Happening::Doubt(_)) {
            return;
        }
        let told = what.told(self.tasks[task].id.as_str());
        if let Some(text) = told
            && self.told.insert((task, discriminant(what)))
        {
            self.untold.push(text);
        }
    }

    /// Messages for the user about jobs since the last call.
    pub(crate) fn untold(&mut self) -> Vec<String> {
        std::mem::take(&mut self.untold)
    }

    /// Tasks whose workers train although they have reported that they are parked.
    pub(crate) fn restless(&self) -> impl Iterator<Item = usize> {
        self.restless.iter().copied()
    }

    /// SMs that each worker reports, for the table of percentages and SMs.
    pub(crate) fn sms_seen(&self) -> Vec<(Share, u32)> {
        self.workers
            .iter()
            .filter_map(|w| Some((w.run.share, w.sms?)))
            .collect()
    }

    /// Memory that a task needs at a batch size, according to the workload.
    fn need(&self, task: usize, batch: Batch) -> f64 {
        let memory = self.tasks[task].memory.as_ref();
        memory.map_or(0.0, |m| m.at(batch))
    }
}

/// A failure before a job could train.
fn refusal(run: &Setting, tasks: &[Task], what: &str, tail: &str) -> MeasureError {
    MeasureError::Failed(Box::new(Failed {
        reason: format!("task {}: {what}", tasks[run.task].id),
        cause: Some(FailureCause::Program),
        task: Some(run.task),
        output: jobs::plain(tail),
    }))
}
