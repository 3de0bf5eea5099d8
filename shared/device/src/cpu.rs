//! Real processes under CPU quotas.
//!
//! A share R is a quota of R % of the cores that this process may use, over all of them: jobs are
//! not pinned. Workers that take orders are kept between configurations, parked; their quota is
//! changed live and their batch size by an order. A job that takes no orders is started for one
//! configuration and stopped after it.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use doc::{DeviceFingerprint, DeviceKind, Workload};
use jobs::cgroup::{Cgroups, Group, Version};
use jobs::corun::{self, CountError};
use jobs::{Assignment, JobId, JobSpec, Order, RunDir, Supervisor};
use units::{Batch, Share};

use crate::cuda::{averaged, seconds};
use crate::{Device, MeasureError, Measurement, OpenError, Options, Run, Window};

/// How patient the device is.
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
    /// What is not counted at first.
    pub warm_up: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            ready: Duration::from_secs(120),
            stall: Duration::from_secs(60),
            park: Duration::from_secs(5),
            grace: Duration::from_secs(2),
            warm_up: Duration::from_millis(250),
        }
    }
}

/// Real jobs on the processors of this machine.
#[derive(Debug)]
pub struct Cpu {
    // Dropped in this order: jobs, then their control groups, then the directory of the run.
    supervisor: Supervisor,
    cgroups: Cgroups,
    run: RunDir,
    workload: Workload,
    workers: BTreeMap<usize, Worker>,
    patience: Patience,
    started: u64,
    interrupted: Arc<AtomicBool>,
}

#[derive(Debug)]
struct Worker {
    job: JobId,
    group: Group,
    batch: Batch,
    /// Whether it takes orders.
    pool: bool,
}

fn environment(reason: impl ToString) -> OpenError {
    OpenError::Environment {
        kind: DeviceKind::Cpu,
        reason: reason.to_string(),
    }
}

impl Cpu {
    /// Opens this machine's processors.
    ///
    /// # Errors
    /// [`OpenError::Environment`] where no control group can be written, with what to do;
    /// [`OpenError::Workload`] if a task has no job.
    pub fn open(workload: &Workload, options: &Options) -> Result<Self, OpenError> {
        let runs = RunDir::default_base();
        Self::with(workload, runs, Patience::default(), &options.interrupted)
    }

    /// Opens with everything given; `runs` is where the run directory is made.
    ///
    /// # Errors
    /// As [`Cpu::open`].
    pub fn with(
        workload: &Workload,
        runs: PathBuf,
        patience: Patience,
        interrupted: &Arc<AtomicBool>,
    ) -> Result<Self, OpenError> {
        if let Some(index) = workload.tasks.iter().position(|t| t.job.is_none()) {
            return Err(OpenError::workload(
                doc::Code::NeedsMore,
                &format!("$.tasks[{index}].job"),
                "the cpu device runs real jobs".to_owned(),
                "give the task a job, for example {\"argv\":[\"mt-worker\",\"--device\",\"cpu\"],\
                 \"pool\":true}",
            ));
        }
        let (mut run, _) = RunDir::create(&runs, "cpu").map_err(environment)?;
        let cgroups = Cgroups::create(&mut run).map_err(environment)?;
        let supervisor = Supervisor::new(run.token()).map_err(environment)?;
        Ok(Self {
            supervisor,
            cgroups,
            run,
            workload: workload.clone(),
            workers: BTreeMap::new(),
            patience,
            started: 0,
            interrupted: interrupted.clone(),
        })
    }

    /// Workers that live, parked or not.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.workers.len()
    }

    fn name(&self, task: usize) -> &str {
        self.workload.tasks[task].id.as_str()
    }

    /// Has a worker for every run, at its share and batch size.
    fn gather(&mut self, configuration: &[Run]) -> Result<Vec<JobId>, MeasureError> {
        let supervisor = &self.supervisor;
        self.workers.retain(|_, w| supervisor.is_running(w.job));
        let mut new = Vec::new();
        for run in configuration {
            if !self.workers.contains_key(&run.task) {
                self.start(run)?;
                new.push(*run);
            }
        }
        let fresh: Vec<JobId> = new.iter().map(|r| self.workers[&r.task].job).collect();
        let patience = self.patience.ready;
        corun::wait_ready(&mut self.supervisor, &fresh, patience, &self.interrupted)
            .map_err(|error| self.failed(&new, &error))?;
        for run in configuration {
            self.direct(run)?;
        }
        Ok(configuration
            .iter()
            .map(|run| self.workers[&run.task].job)
            .collect())
    }

    fn start(&mut self, run: &Run) -> Result<(), MeasureError> {
        let task = &self.workload.tasks[run.task];
        let failed = |what: String| MeasureError::Failed(format!("task {}: {what}", task.id));
        let Some(job) = &task.job else {
            return Err(failed("it has no job to start".to_owned()));
        };
        let assignment = Assignment {
            batch: Some(run.batch),
            share: Some(run.share),
            device: "cpu",
            round: 0,
            samples: None,
            orders: job.pool,
        };
        // A worker that waits for orders may use what it can until it is warm.
        let share = if job.pool { Share::FULL } else { run.share };
        let group = self
            .cgroups
            .group(task.id.as_str(), share)
            .map_err(|error| MeasureError::Unusable(error.to_string()))?;
        self.started += 1;
        let log = self
            .run
            .path()
            .join(format!("{}-{}.log", self.started, task.id));
        let mut spec = JobSpec::for_task(task, &job.argv, &assignment, log)
            .map_err(|error| failed(error.to_string()))?;
        spec.cgroup_procs = Some(group.procs());
        let id = self
            .supervisor
            .spawn(&spec)
            .map_err(|error| failed(error.to_string()))?;
        let worker = Worker {
            job: id,
            group,
            batch: run.batch,
            pool: job.pool,
        };
        self.workers.insert(run.task, worker);
        Ok(())
    }

    /// Sets the share and lets a worker that takes orders train at the batch size.
    fn direct(&mut self, run: &Run) -> Result<(), MeasureError> {
        let Some(worker) = self.workers.get_mut(&run.task) else {
            return Ok(());
        };
        worker
            .group
            .set_share(run.share)
            .map_err(|error| MeasureError::Unusable(error.to_string()))?;
        if !worker.pool {
            return Ok(());
        }
        let mut tell = |order| self.supervisor.order(worker.job, order);
        let told = if worker.batch == run.batch {
            tell(Order::Run)
        } else {
            worker.batch = run.batch;
            tell(Order::Batch(run.batch)).and_then(|()| tell(Order::Run))
        };
        let name = self.workload.tasks[run.task].id.as_str();
        told.map_err(|error| MeasureError::Failed(format!("task {name}: {error}")))
    }

    /// Parks what takes orders and ends what does not.
    fn rest(&mut self, configuration: &[Run]) -> Result<(), MeasureError> {
        let mut parking = Vec::new();
        for run in configuration {
            let Some(worker) = self.workers.get(&run.task) else {
                continue;
            };
            // One at a small share would need long to finish its step.
            let parked = worker.pool
                && worker.group.set_share(Share::FULL).is_ok()
                && self.supervisor.order(worker.job, Order::Park).is_ok();
            if parked {
                parking.push(worker.job);
            } else {
                self.end(run.task);
            }
        }
        let patience = self.patience.park;
        match corun::wait_parked(&mut self.supervisor, &parking, patience, &self.interrupted) {
            Err(CountError::Interrupted) => Err(MeasureError::Interrupted),
            // One that has ended is started again when it is needed.
            _ => Ok(()),
        }
    }

    /// Ends the worker of a task and waits until it has gone.
    fn end(&mut self, task: usize) {
        if let Some(worker) = self.workers.remove(&task) {
            self.supervisor.stop(worker.job, self.patience.grace);
            while self.supervisor.is_running(worker.job) {
                self.supervisor.poll(Duration::from_millis(100));
            }
        }
    }

    fn end_all(&mut self) {
        self.workers.clear();
        self.supervisor.stop_all(self.patience.grace);
        while self.supervisor.running() > 0 {
            self.supervisor.poll(Duration::from_millis(100));
        }
    }

    /// Translates a failed count, and ends the worker that it is about.
    fn failed(&mut self, configuration: &[Run], error: &CountError) -> MeasureError {
        let index = match error {
            CountError::Interrupted => return MeasureError::Interrupted,
            CountError::Ended { index, .. }
            | CountError::NotReady { index, .. }
            | CountError::Stalled { index, .. } => *index,
        };
        let text = error
            .to_string()
            .replacen(&format!("job {index}"), "the job", 1);
        let Some(run) = configuration.get(index) else {
            return MeasureError::Failed(text);
        };
        self.end(run.task);
        MeasureError::Failed(format!("task {}: {text}", self.name(run.task)))
    }

    fn windows(
        &mut self,
        configuration: &[Run],
        window: &Window,
    ) -> Result<Measurement, MeasureError> {
        let jobs = self.gather(configuration)?;
        let limits = corun::Limits {
            ready: self.patience.ready,
            stall: self.patience.stall,
            warm_up: self.patience.warm_up,
            least: seconds(window.least),
            most: seconds(window.most),
            precision: window.precision,
        };
        let mut counts = Vec::new();
        for _ in 0..window.repeats.max(1) {
            let counted = corun::count(&mut self.supervisor, &jobs, &limits, &self.interrupted);
            counts.push(counted.map_err(|error| self.failed(configuration, &error))?);
        }
        averaged(&counts)
    }
}

impl Device for Cpu {
    fn fingerprint(&self) -> DeviceFingerprint {
        cpu_fingerprint(&self.cgroups)
    }

    fn measure(
        &mut self,
        configuration: &[Run],
        window: &Window,
    ) -> Result<Measurement, MeasureError> {
        let measured = self.windows(configuration, window);
        let rested = match measured {
            Err(MeasureError::Interrupted) => Err(MeasureError::Interrupted),
            _ => self.rest(configuration),
        };
        if matches!(rested, Err(MeasureError::Interrupted)) {
            self.end_all();
            return Err(MeasureError::Interrupted);
        }
        measured
    }
}

/// What this machine's processors are, for documents.
#[must_use]
pub fn cpu_fingerprint(cgroups: &Cgroups) -> DeviceFingerprint {
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let version = match cgroups.version() {
        Version::V1 => 1,
        Version::V2 => 2,
    };
    DeviceFingerprint {
        kind: DeviceKind::Cpu,
        name: processor_name(),
        simulated: false,
        units: u32::try_from(cgroups.cores()).ok(),
        detail: Some(format!("Linux {}, cgroup v{version}", kernel.trim())),
        noise_percent: None,
    }
}

/// Name of the processor, as the kernel tells it.
fn processor_name() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = info.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == "model name").then(|| value.trim().to_owned())
    });
    name.unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}
