//! Measures real jobs on a host: under CPU quotas, or on a GPU under MPS.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use doc::{DeviceFingerprint, DeviceKind, FailureCause, Workload};
use host::discovery::{self, Gpu, MpsSupport};
use host::{ControlGroups, Host, Meter, MpsHost, MpsSetup, Processes, Shares};
use jobs::mps::MpsOptions;
use jobs::{JobId, Neighbours, RunDir};
use units::corun::Setting;
use units::{SamplesPerSec, Seconds, Share};

use crate::cost::{Costs, Way};
use crate::count::member::Member;
use crate::count::{self, Count, CountError, Counted};
use crate::effort::Effort;
use crate::pool::{Capacity, Gathered, Patience, Pool};
use crate::track::JobRate;
use crate::{Device, MeasureError, Measurement, OpenError, Options, Rate, Window};

/// How to measure on a GPU.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The GPU and its daemon.
    pub host: MpsSetup,
    /// Folder in which run directories with the logs of workers are created.
    pub runs: PathBuf,
    /// Processors of each task.
    pub cpus: Vec<Vec<usize>>,
    /// Time limits.
    pub patience: Patience,
    /// Capacity of the GPU.
    pub capacity: Capacity,
}

/// Real jobs on a host.
pub struct Real {
    pool: Pool,
    patience: Patience,
    fingerprint: DeviceFingerprint,
    names: Vec<String>,
    costs: Costs,
    effort: Effort,
    sms: BTreeMap<Share, u32>,
    /// Reads the GPU utilisation, or a message why that is impossible.
    meter: Option<Result<Arc<Meter>, String>>,
    interrupted: Arc<AtomicBool>,
    /// This profile's registration among the programs that use the device.
    neighbours: Neighbours,
    /// Message about programs that already used the device.
    others: Option<String>,
}

/// Name of the profiler in messages of other programs that share a device, or that clean up after it.
const TOOL: &str = "mt-profile";

impl Setup {
    /// A setup with the defaults for a GPU.
    #[must_use]
    pub fn new(gpu: Gpu, mps: MpsOptions, tasks: usize) -> Self {
        let clients = match gpu.mps {
            MpsSupport::Available { client_limit } => client_limit,
            MpsSupport::Unavailable { .. } => discovery::client_limit(gpu.cuda_version),
        };
        let memory = Some(gpu.memory.get() as f64);
        Self {
            host: MpsSetup::new(vec![gpu], mps),
            runs: RunDir::default_base(),
            cpus: vec![Vec::new(); tasks],
            // A job on a GPU starts and parks more slowly: it loads CUDA, and its steps are longer.
            patience: Patience {
                ready: Duration::from_secs(180),
                park: Duration::from_secs(30),
                grace: Duration::from_secs(5),
                warm_up: Duration::from_millis(500),
                ..Patience::default()
            },
            capacity: Capacity { clients, memory },
        }
    }
}

impl Real {
    /// Opens this machine's processors.
    ///
    /// # Errors
    /// [`OpenError::Environment`] with advice if no control group can be written;
    /// [`OpenError::Workload`] if a task has no job.
    pub fn cpu(workload: &Workload, options: &Options) -> Result<Self, OpenError> {
        let runs = RunDir::default_base();
        Self::cpu_with(workload, &runs, Patience::default(), options)
    }

    /// Like [`Real::cpu`] with all parameters; `runs` is the parent of the run directory.
    ///
    /// # Errors
    /// Like [`Real::cpu`].
    pub fn cpu_with(
        workload: &Workload,
        runs: &Path,
        patience: Patience,
        options: &Options,
    ) -> Result<Self, OpenError> {
        check_jobs(workload, DeviceKind::Cpu)?;
        let run = run_dir(runs, DeviceKind::Cpu, options.guarded)?;
        let host = ControlGroups::open(run)?;
        let any = vec![Vec::new(); workload.tasks.len()];
        // No limit is needed: waiting processes use no processor, and each task has at most one.
        let capacity = Capacity {
            clients: usize::MAX,
            memory: None,
        };
        Self::on(host, workload, any, patience, capacity, options)
    }

    /// Opens the first GPU of the workload, or the first that can be shared, and starts (or
    /// attaches to) its daemon.
    ///
    /// # Errors
    /// [`OpenError::Environment`] with what is missing.
    pub fn cuda(workload: &Workload, options: &Options) -> Result<Self, OpenError> {
        let environment = |reason: String| {
            OpenError::from(host::OpenError::environment(DeviceKind::Cuda, reason))
        };
        let gpu = discovery::shareable(&workload.device.gpu_names, 1)
            .map_err(|e| environment(e.to_string()))?
            .swap_remove(0);
        let mps = MpsOptions::from_environment().map_err(|e| environment(e.to_string()))?;
        let mut setup = Setup::new(gpu, mps, workload.tasks.len());
        setup.cpus = options.cpus.divide(workload.tasks.len());
        setup.host.attach = options.attach_mps;
        Self::cuda_with(workload, setup, options)
    }

    /// Opens a GPU with all parameters.
    ///
    /// # Errors
    /// [`OpenError::Environment`] if the daemon does not start,
    /// [`OpenError::Workload`] if a task has no job.
    pub fn cuda_with(
        workload: &Workload,
        setup: Setup,
        options: &Options,
    ) -> Result<Self, OpenError> {
        check_jobs(workload, DeviceKind::Cuda)?;
        let run = run_dir(&setup.runs, DeviceKind::Cuda, options.guarded)?;
        let meter = setup.host.gpus.first().map(|gpu| Meter::open(&gpu.uuid));
        let host = MpsHost::open(setup.host, run)?;
        let (patience, capacity) = (setup.patience, setup.capacity);
        let real = Self::on(host, workload, setup.cpus, patience, capacity, options)?;
        let meter = meter.map(|opened| opened.map(Arc::new));
        Ok(Self { meter, ..real })
    }

    fn on<S: Shares + 'static>(
        mut host: Processes<S>,
        workload: &Workload,
        cpus: Vec<Vec<usize>>,
        patience: Patience,
        capacity: Capacity,
        options: &Options,
    ) -> Result<Self, OpenError> {
        host.pass(options.passing.clone());
        let kind = host.fingerprint().kind;
        let joined = host.neighbours(TOOL);
        let (neighbours, others) = joined.map_err(|e| host::OpenError::environment(kind, e))?;
        if options.guarded {
            // All children of this program are jobs.
            host.supervisor().sweep_strays();
        }
        let logs = host.run().path().to_owned();
        let host: Box<dyn Host> = Box::new(host);
        Ok(Self {
            fingerprint: host.fingerprint(),
            pool: Pool::new(host, workload.tasks.clone(), cpus, logs, patience, capacity),
            patience,
            names: workload.tasks.iter().map(|t| t.id.to_string()).collect(),
            costs: Costs::default(),
            effort: Effort::default(),
            sms: BTreeMap::new(),
            meter: None,
            interrupted: options.interrupted.clone(),
            neighbours,
            others,
        })
    }

    /// Message about programs that used the device when it was opened.
    #[must_use]
    pub fn others(&self) -> Option<String> {
        self.others.clone()
    }

    /// Cost of samples so far.
    #[must_use]
    pub fn costs(&self) -> &Costs {
        &self.costs
    }

    /// Live workers, parked or not.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.pool.len()
    }

    fn windows(
        &mut self,
        configuration: &[Setting],
        window: &Window,
    ) -> Result<(Measurement, Gathered), MeasureError> {
        let gathered = self.pool.gather(configuration, &self.interrupted)?;
        self.sms.extend(self.pool.sms_seen());
        self.pool.wake(configuration)?;
        let limits = count::Limits {
            ready: self.patience.ready,
            stall: self.patience.stall,
            warm_up: self.patience.warm_up,
            least: seconds(window.least),
            most: seconds(window.most),
            precision: window.precision,
        };
        let meter = self.meter.as_ref().and_then(|meter| meter.clone().ok());
        let reading = meter.as_ref().map(|meter| meter.begin());
        let effort = self.effort.begin();
        let mut count = Count::new(&mut self.pool, configuration, limits, &self.interrupted)?;
        let mut counts = Vec::new();
        let repeats = window.repeats.max(1) as usize;
        while counts.len() < repeats {
            match count.window() {
                Ok(counted) => counts.push(counted),
                // The restless worker is ended, so it can spoil no further window.
                Err(CountError::Restless(job)) => count.distrust(job),
                // Ends the job, since a stalled one would stall again.
                Err(CountError::Job(job, failed)) => {
                    self.pool.end(job);
                    return Err(MeasureError::Failed(failed));
                }
                Err(CountError::Other(error)) => return Err(error),
            }
        }
        self.effort.end(effort);
        let launched = averaged(&counts, count.members());
        let jobs: Vec<JobId> = count.members().iter().map(|m| m.job).collect();
        let gpu = reading.and_then(|reading| {
            let groups = jobs.iter().map(|&job| self.pool.host().pid(job));
            // A job that has just ended uses no memory; no process has the group -1.
            let groups: Vec<i32> = groups.map(|group| group.unwrap_or(-1)).collect();
            reading.end(&groups)
        });
        let measurement = Measurement { gpu, ..launched? };
        Ok((measurement, gathered))
    }

    /// Measures the configuration, and retries where that can help: once with a new worker for one that does not run at
    /// its share (a client that missed the daemon), and with fewer parked workers while memory is short.
    fn attempt(
        &mut self,
        configuration: &[Setting],
        window: &Window,
    ) -> Result<(Measurement, Gathered), MeasureError> {
        let mut fresh = false;
        loop {
            let result = self.windows(configuration, window);
            let again = match &result {
                Err(MeasureError::Unusable(_)) if !fresh => {
                    fresh = true;
                    self.pool.end_all();
                    true
                }
                Err(error) if error.is_memory() => self.pool.shrink(configuration),
                _ => false,
            };
            if !again {
                return result;
            }
        }
    }
}

impl Device for Real {
    fn fingerprint(&self) -> DeviceFingerprint {
        self.fingerprint.clone()
    }

    fn measure(
        &mut self,
        configuration: &[Setting],
        window: &Window,
    ) -> Result<Measurement, MeasureError> {
        let begun = Instant::now();
        let result = self.attempt(configuration, window);
        if let Err(MeasureError::Interrupted | MeasureError::Unusable(_)) = &result {
            self.pool.end_all();
            return result.map(|(measurement, _)| measurement);
        }
        let note = if result.is_err() {
            self.pool.recover()?
        } else {
            None
        };
        if let Err(error) = self.pool.rest(&self.interrupted) {
            self.pool.end_all();
            return Err(error);
        }
        match result {
            Ok((measurement, gathered)) => {
                let way = match gathered {
                    Gathered { restarted: 1.., .. } => Way::Restarted,
                    Gathered { started: 1.., .. } => Way::Started,
                    Gathered { .. } => Way::Woken,
                };
                let counted = seconds(measurement.window) * measurement.repeats;
                self.costs.note(way, begun.elapsed(), counted);
                Ok(measurement)
            }
            Err(MeasureError::Failed(mut failed)) => {
                if let Some(note) = note {
                    failed.reason = format!("{} ({note})", failed.reason);
                }
                Err(MeasureError::Failed(failed))
            }
            Err(other) => Err(other),
        }
    }

    fn expect(&mut self, coming: Vec<Vec<Setting>>) {
        self.pool.expect(&coming.concat());
    }

    fn untold(&mut self) -> Vec<String> {
        self.pool.untold()
    }

    fn summary(&self) -> Option<String> {
        let mut text = format!("cost of the measuring: {}", self.costs);
        if !self.sms.is_empty() {
            let table: Vec<String> = self
                .sms
                .iter()
                .map(|(share, sms)| format!("{share}: {sms}"))
                .collect();
            text += &format!(
                "; SMs that workers saw at their share: {}",
                table.join(", ")
            );
        }
        let restless: Vec<&str> = self.pool.restless().map(|t| &*self.names[t]).collect();
        if !restless.is_empty() {
            text += &format!(
                "; started anew for every sample, because it trains on after it has said that it \
                 is parked: {}",
                restless.join(", ")
            );
        }
        text += &self.effort.told();
        if let Some(Err(why)) = &self.meter {
            text += &format!("; NVML does not report how the GPU was used: {why}");
        }
        if let Some(others) = self.neighbours.newcomers() {
            text += &format!("; {others}");
        }
        Some(text)
    }
}

/// A run directory, with a guard if the program supports it.
fn run_dir(runs: &Path, kind: DeviceKind, guarded: bool) -> Result<RunDir, OpenError> {
    let begun = RunDir::begin(runs, TOOL, guarded);
    let (run, _) = begun.map_err(|e| host::OpenError::environment(kind, e))?;
    Ok(run)
}

/// Checks that every task has a job whose program and script exist, before anything is started.
fn check_jobs(workload: &Workload, kind: DeviceKind) -> Result<(), OpenError> {
    let Some(index) = workload.tasks.iter().position(|t| t.job.is_none()) else {
        for (index, task) in workload.tasks.iter().enumerate() {
            let checked = task.job.as_ref().map_or(Ok(()), jobs::program::check);
            checked.map_err(|missing| {
                let path = format!("$.tasks[{index}].job.argv[{}]", missing.word);
                let problem = format!("task {}: {}", task.id, missing.problem);
                let code = doc::Code::UnknownName;
                OpenError::workload(code, &path, problem, &missing.advice)
            })?;
        }
        return Ok(());
    };
    let kind = host::word(kind);
    let advice = format!(
        "give the task a job, for example \
         {{\"argv\":[\"mt-worker\",\"--device\",\"{kind}\"],\"pool\":true}}"
    );
    let fault = host::OpenError::workload(
        doc::Code::NeedsMore,
        &format!("$.tasks[{index}].job"),
        format!("the {kind} device runs real jobs"),
        &advice,
    );
    Err(fault.into())
}

fn seconds(value: Seconds) -> Duration {
    Duration::try_from_secs_f64(value.get()).unwrap_or(Duration::MAX)
}

/// Means over windows. The standard error is the larger of the windows' own errors and the one from their spread. A
/// single run of a job without progress has no standard error.
fn averaged(counts: &[Counted], members: &[Member]) -> Result<Measurement, MeasureError> {
    let windows = counts.len() as f64;
    let bad = |e: units::UnitError| MeasureError::failed(FailureCause::Other, e.to_string());
    let rate = |(job, member): (usize, &Member)| {
        let rates: Vec<_> = counts.iter().map(|c| c.rates[job]).collect();
        let mean = rates.iter().map(|r| r.samples_per_s).sum::<f64>() / windows;
        let squares: Option<f64> = rates.iter().map(|r| r.std_error.map(|e| e.powi(2))).sum();
        let inner = squares.map(|sum| sum.sqrt() / windows);
        let squares: f64 = rates.iter().map(|r| (r.samples_per_s - mean).powi(2)).sum();
        let outer = (counts.len() > 1).then(|| (squares / (windows - 1.0) / windows).sqrt());
        let stderr = match (inner, outer) {
            (Some(inner), Some(outer)) => Some(inner.max(outer)),
            (inner, outer) => inner.or(outer),
        };
        let all = JobRate {
            samples_per_s: mean,
            std_error: stderr,
        };
        Ok::<Rate, MeasureError>(Rate {
            throughput: SamplesPerSec::new(mean).map_err(bad)?,
            gradient: member.gradient.to_document(),
            stderr: stderr.map(SamplesPerSec::new).transpose().map_err(bad)?,
            launch: member.launch(&all),
        })
    };
    let length = counts.iter().map(|c| c.window.as_secs_f64()).sum::<f64>() / windows;
    Ok(Measurement {
        rates: members
            .iter()
            .enumerate()
            .map(rate)
            .collect::<Result<_, _>>()?,
        window: Seconds::new(length).map_err(bad)?,
        repeats: u32::try_from(counts.len()).unwrap_or(u32::MAX),
        gpu: None,
    })
}
