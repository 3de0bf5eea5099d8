//! Workers on a host that measure configurations. They are kept between measurements, parked on
//! standard input.
//!
//! If shares are fixed at process start, there is one worker for each (task, share): a configuration wakes the
//! workers that it needs, and starts only missing ones. If shares change at once, there is one for each task. The
//! least recently used worker is evicted at the client limit or if memory would run out. A job that does not support
//! the pool protocol is started for one sample and then stopped.

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
    /// Longest time from `park` until it is parked.
    pub park: Duration,
    /// Time from SIGTERM to SIGKILL.
    pub grace: Duration,
    /// Warm-up that is not counted.
    pub warm_up: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            // Each is a time after which a user would call the job stuck, far above what a sound job needs: importing
            // PyTorch takes 5 to 15 s, longer from a cold disk.
            ready: Duration::from_secs(120),
            stall: Duration::from_secs(60),
            // A job parks at the end of a step, and those on processors are short.
            park: Duration::from_secs(5),
            grace: Duration::from_secs(2),
            // In addition to the first step of each job, which is never counted: ten periods of a quota of 20 ms, so
            // that it hardly matters in which part of a period a job began.
            warm_up: Duration::from_millis(250),
        }
    }
}

/// Capacity of a device for workers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Capacity {
    /// Maximum number at a time.
    pub clients: usize,
    /// Shared device memory in bytes, if known.
    pub memory: Option<f64>,
}

/// A job of the pool.
#[derive(Debug)]
struct Worker {
    run: Setting,
    job: JobId,
    /// Whether it reads orders.
    pool: bool,
    launched: Instant,
    /// Its start-up time, until it is queried.
    startup: Option<Duration>,
    ready: bool,
    /// Number of SMs that it reports.
    sms: Option<u32>,
    parked: bool,
    /// When it was used last, on the pool's own clock.
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
    /// Tasks whose workers continue to train after they have reported that they are parked.
    restless: BTreeSet<usize>,
    /// Tasks that report nothing before they end, with their shortest run.
    whole: BTreeMap<usize, Duration>,
    /// What coming configurations need: started along with missing workers, since jobs start side by side.
    expected: Vec<Setting>,
    /// Whether no worker that was started ahead has failed.
    ahead: bool,
    /// What the user must hear and has not been told yet.
    untold: Vec<String>,
    /// What has been told of which task: each kind once, since workers of a task are alike.
    told: HashSet<(usize, Discriminant<Happening>)>,
}

/// Number of workers that had to be started for a configuration.
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
        (patience, capacity): (Patience, Capacity),
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

    /// Sets what coming configurations need, in their order.
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

    /// Workers alive.
    pub(crate) fn len(&self) -> usize {
        self.workers.len()
    }

    /// Ensures a worker for every run: settled and parked, or (if it takes no orders) just launched.
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
        let missing = configuration.iter().filter(|r| self.position(r).is_none());
        let missing: Vec<Setting> = missing.copied().collect();
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
        // They train at once, so they come last.
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
                    // It has ended meanwhile; the next event says how, and what it printed last.
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
                // A worker with a small share would need long to finish the current step.
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
        // Workers of a measurement are on one GPU.
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

    /// Records that a task reports nothing before it ends, after `time` just now.
    pub(crate) fn runs_whole(&mut self, task: usize, time: Duration) {
        let known = self.whole.entry(task).or_insert(time);
        *known = time.min(*known);
    }

    /// Whether a task is counted by whole runs.
    pub(crate) fn is_whole(&self, task: usize) -> bool {
        self.whole.contains_key(&task)
    }

    /// Time limit for a run of such a task beside `together` others: four times what its shortest run would take with
    /// its share of the device, divided by all. It detects a job that hangs.
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

    /// Why a job has not trained after `limit`.
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
        let admitted = self.host.admit(&work, &grant);
        let admitted = admitted.map_err(|e| self.refused(run, &e))?;
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

    /// Consequence of a host's refusal for the measurement.
    fn refused(&self, run: &Setting, error: &HostError) -> MeasureError {
        if error.is_of_the_job() {
            refusal(run, &self.tasks, &error.to_string(), "")
        } else {
            MeasureError::Unusable(format!("task {}: {error}", self.tasks[run.task].id))
        }
    }

    /// Starts expected workers beside those that are starting: at most one on each processor in all, so that none
    /// slows down another's start, and none that another would have to make room for.
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

    /// Waits for every worker. One that was started ahead and fails is left out, and no more are started ahead: it
    /// fails again, or tells why, where it is needed.
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
            // It has ended meanwhile; the next event says how, and what it printed last.
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
            // A job without the protocol is ready with its first step.
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

    /// Keeps what the user must hear. A doubt about a share ends the measuring, and is told as its error.
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

    /// What has happened to jobs since the last call that the user must hear.
    pub(crate) fn untold(&mut self) -> Vec<String> {
        std::mem::take(&mut self.untold)
    }

    /// Tasks whose workers do not park although they report it.
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
