//! Workers under MPS, one for each (task, share): parked on standard input when not needed.
//!
//! The share of a worker is fixed when it starts, so a configuration wakes the workers that it
//! needs and starts only those that there are not yet. The least recently used is evicted at the
//! client limit or when memory would run out. A job that does not speak the pool protocol is
//! started for one sample and stopped after it.

mod evict;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use doc::{Task, Workload};
use jobs::{Assignment, Event, Exit, Happening, JobId, JobSpec, Order, Supervisor};
use units::Share;

use crate::Run;
use jobs::mps::{Attachment, Mps, Ready};

/// How patient the pool is, and what it may use.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Most MPS clients at a time.
    pub clients: usize,
    /// SMs of the GPU, to see whether a share took effect.
    pub sms: Option<u32>,
    /// Device memory in bytes, if known.
    pub memory: Option<f64>,
    /// Longest time from the start of a worker until it is ready.
    pub ready: Duration,
    /// Longest time from `park` until it is parked.
    pub park: Duration,
    /// Time from SIGTERM to SIGKILL.
    pub grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            clients: 48,
            sms: None,
            memory: None,
            ready: Duration::from_secs(180),
            park: Duration::from_secs(30),
            grace: Duration::from_secs(5),
        }
    }
}

/// Why a configuration cannot be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Trouble {
    /// This configuration, as it is.
    Configuration(String),
    /// A worker runs outside MPS or at another share; others would too.
    Attachment(String),
    /// A signal came.
    Interrupted,
}

/// A process of the pool.
#[derive(Debug)]
struct Worker {
    run: Run,
    job: JobId,
    /// Whether it reads orders.
    pool: bool,
    ready: Option<Ready>,
    attachment: Option<Attachment>,
    parked: bool,
    /// When it was used last, on the pool's own clock.
    used: u64,
}

/// Workers of the tasks of a workload.
#[derive(Debug)]
pub(super) struct Pool {
    supervisor: Supervisor,
    workers: Vec<Worker>,
    tasks: Vec<Task>,
    cpus: Vec<Vec<usize>>,
    logs: PathBuf,
    limits: Limits,
    clock: u64,
    started: u64,
}

/// How the workers of a configuration were come by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Gathered {
    pub(super) started: usize,
    pub(super) restarted: usize,
}

/// How often a flag set by a signal handler is looked at.
const LOOK: Duration = Duration::from_millis(50);

impl Pool {
    pub(super) fn new(
        supervisor: Supervisor,
        workload: &Workload,
        cpus: Vec<Vec<usize>>,
        logs: PathBuf,
        limits: Limits,
    ) -> Self {
        Self {
            supervisor,
            workers: Vec::new(),
            tasks: workload.tasks.clone(),
            cpus,
            logs,
            limits,
            clock: 0,
            started: 0,
        }
    }

    pub(super) fn supervisor(&mut self) -> &mut Supervisor {
        &mut self.supervisor
    }

    /// Workers alive.
    pub(super) fn len(&self) -> usize {
        self.workers.len()
    }

    /// Has a verified worker for every run, parked or (where it takes no orders) training, and
    /// returns their jobs in order.
    pub(super) fn gather(
        &mut self,
        configuration: &[Run],
        mps: &Mps,
        interrupted: &AtomicBool,
    ) -> Result<(Vec<JobId>, Gathered), Trouble> {
        self.clock += 1;
        let mut gathered = Gathered::default();
        for run in configuration {
            if let Some(index) = self.position(run) {
                self.workers[index].used = self.clock;
            }
        }
        for run in configuration {
            if self.position(run).is_some() {
                continue;
            }
            self.make_room(run, configuration, mps);
            self.start(run, mps)?;
            if self.tasks[run.task].job.as_ref().is_some_and(|j| j.pool) {
                gathered.started += 1;
            } else {
                gathered.restarted += 1;
            }
        }
        self.wait_ready(interrupted)?;
        let jobs = configuration
            .iter()
            .map(|run| self.attached(run, mps))
            .collect::<Result<_, _>>()?;
        Ok((jobs, gathered))
    }

    /// Lets the workers of a configuration train, at its batch sizes.
    pub(super) fn wake(&mut self, configuration: &[Run]) -> Result<(), Trouble> {
        for run in configuration {
            let Some(index) = self.position(run) else {
                continue;
            };
            let worker = &mut self.workers[index];
            if !worker.pool {
                continue;
            }
            let batch = Order::Batch(run.batch);
            let mut tell = |order| self.supervisor.order(worker.job, order);
            if worker.run.batch != run.batch {
                tell(batch).map_err(|e| trouble(run, &self.tasks, &e.to_string()))?;
                worker.run.batch = run.batch;
            }
            tell(Order::Run).map_err(|e| trouble(run, &self.tasks, &e.to_string()))?;
            worker.parked = false;
        }
        Ok(())
    }

    /// Parks the workers that train and ends those that cannot be parked.
    pub(super) fn rest(&mut self, mps: &Mps, interrupted: &AtomicBool) -> Result<(), Trouble> {
        let mut end = Vec::new();
        for worker in self.workers.iter().filter(|w| !w.parked) {
            let parking = worker.pool && self.supervisor.order(worker.job, Order::Park).is_ok();
            if !parking {
                end.push(worker.job);
            }
        }
        for job in end {
            self.end(job, mps);
        }
        let deadline = Instant::now() + self.limits.park;
        while self.workers.iter().any(|w| !w.parked) && Instant::now() < deadline {
            if interrupted.load(Ordering::Relaxed) {
                return Err(Trouble::Interrupted);
            }
            for event in self.supervisor.poll(LOOK) {
                self.note(&event);
            }
        }
        let deaf: Vec<JobId> = self
            .workers
            .iter()
            .filter(|w| !w.parked)
            .map(|w| w.job)
            .collect();
        for job in deaf {
            self.end(job, mps);
        }
        Ok(())
    }

    /// The worker of a task at a share; one that takes no orders has its batch size for good.
    fn position(&self, run: &Run) -> Option<usize> {
        self.workers.iter().position(|w| {
            (w.run.task, w.run.share) == (run.task, run.share)
                && (w.pool || w.run.batch == run.batch)
        })
    }

    fn start(&mut self, run: &Run, mps: &Mps) -> Result<(), Trouble> {
        let spec = self.spec(run, mps)?;
        let pool = spec.orders;
        let job = self
            .supervisor
            .spawn(&spec)
            .map_err(|e| trouble(run, &self.tasks, &e.to_string()))?;
        self.workers.push(Worker {
            run: *run,
            job,
            pool,
            ready: None,
            attachment: None,
            parked: pool,
            used: self.clock,
        });
        Ok(())
    }

    fn spec(&mut self, run: &Run, mps: &Mps) -> Result<JobSpec, Trouble> {
        let task = &self.tasks[run.task];
        let fail = |what: &str| trouble(run, &self.tasks, what);
        let job = task
            .job
            .as_ref()
            .ok_or_else(|| fail("it has no job to start"))?;
        let assignment = Assignment {
            batch: Some(run.batch),
            share: Some(run.share),
            device: "cuda",
            round: 0,
            samples: None,
            orders: job.pool,
        };
        self.started += 1;
        let name = format!(
            "{}-{}-{}.log",
            self.started,
            task.id,
            run.share.hundredths()
        );
        let mut spec = JobSpec::for_task(task, &job.argv, &assignment, self.logs.join(name))
            .map_err(|e| fail(&e.to_string()))?;
        // Another daemon's settings in our environment are not meant for these clients.
        spec.env
            .retain(|name, _| !name.to_string_lossy().starts_with("CUDA_MPS_"));
        spec.env.extend(mps.client_environment(run.share));
        spec.cpus.clone_from(&self.cpus[run.task]);
        Ok(spec)
    }

    fn wait_ready(&mut self, interrupted: &AtomicBool) -> Result<(), Trouble> {
        let deadline = Instant::now() + self.limits.ready;
        while let Some(late) = self.workers.iter().find(|w| w.ready.is_none()) {
            if interrupted.load(Ordering::Relaxed) {
                return Err(Trouble::Interrupted);
            }
            if Instant::now() > deadline {
                let tail = self.supervisor.tail(late.job);
                let what = format!(
                    "was not ready after {} s{}",
                    self.limits.ready.as_secs_f64(),
                    last_line(&tail)
                );
                return Err(trouble(&late.run, &self.tasks, &what));
            }
            for event in self.supervisor.poll(LOOK) {
                let run = self.worker(event.job).map(|w| w.run);
                self.note(&event);
                if let (Some(run), Happening::Exited { exit, tail, .. }) = (run, &event.what) {
                    let what = format!("ended ({}) at its start{}", how(*exit), last_line(tail));
                    return Err(trouble(&run, &self.tasks, &what));
                }
            }
        }
        Ok(())
    }

    /// The job of a run once it is known to be a client at its share.
    fn attached(&mut self, run: &Run, mps: &Mps) -> Result<JobId, Trouble> {
        let sms = self.limits.sms;
        let Some(index) = self.position(run) else {
            return Err(trouble(run, &self.tasks, "has no worker"));
        };
        let worker = &mut self.workers[index];
        let Some(group) = self.supervisor.pid(worker.job) else {
            return Err(trouble(run, &self.tasks, "ended"));
        };
        match mps.verify(group, worker.ready.unwrap_or_default(), run.share, sms) {
            Ok(attachment) => worker.attachment = Some(attachment),
            Err(error) => {
                let text = format!("task {}: {error}", self.tasks[run.task].id);
                return Err(Trouble::Attachment(text));
            }
        }
        Ok(worker.job)
    }

    fn worker(&self, job: JobId) -> Option<&Worker> {
        self.workers.iter().find(|w| w.job == job)
    }

    fn note(&mut self, event: &Event) {
        let Some(index) = self.workers.iter().position(|w| w.job == event.job) else {
            return;
        };
        let worker = &mut self.workers[index];
        match event.what {
            Happening::Ready { sms, mps } => worker.ready = Some(Ready { mps, sms }),
            // A job that is not told of the protocol is ready with its first step.
            Happening::Steps { .. } => {
                worker.ready.get_or_insert_default();
            }
            Happening::Parked => worker.parked = true,
            Happening::Exited { .. } => {
                self.workers.remove(index);
            }
            _ => {}
        }
    }

    /// SMs that each worker reports, for the table of percentages and SMs.
    pub(super) fn sms_seen(&self) -> Vec<(Share, u32)> {
        self.workers
            .iter()
            .filter_map(|w| Some((w.run.share, w.attachment?.sms?)))
            .collect()
    }
}

fn trouble(run: &Run, tasks: &[Task], what: &str) -> Trouble {
    Trouble::Configuration(format!("task {}: {what}", tasks[run.task].id))
}

fn last_line(tail: &str) -> String {
    match tail.lines().last() {
        None => String::new(),
        Some(line) => format!("; its last line was: {line}"),
    }
}

fn how(exit: Exit) -> String {
    match exit {
        Exit::Code(code) => format!("exit code {code}"),
        Exit::Signal(signal) => format!("signal {signal}"),
    }
}
