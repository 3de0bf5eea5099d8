//! The GPU as a device that measures configurations with a pool of workers under MPS.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use doc::{DeviceFingerprint, DeviceKind, Workload};
use jobs::corun::{self, CountError, Counted};
use jobs::{RunDir, Supervisor};
use units::{SamplesPerSec, Seconds, Share};

use super::cost::{Costs, Way};
use super::discovery::{self, Gpu, MpsSupport};
use super::pool::{Gathered, Limits, Pool, Trouble};
use crate::{Device, MeasureError, Measurement, OpenError, Options, Rate, Run, Window};
use jobs::mps::{Mps, MpsError, MpsOptions};

/// How to measure on a GPU.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The GPU.
    pub gpu: Gpu,
    /// Its daemon.
    pub mps: MpsOptions,
    /// Use a daemon that runs already instead of a private one.
    pub attach: bool,
    /// Where run directories with the logs of workers are made.
    pub runs: PathBuf,
    /// Processors of each task.
    pub cpus: Vec<Vec<usize>>,
    /// Patience and capacity.
    pub limits: Limits,
    /// How long a worker may go without a step.
    pub stall: Duration,
    /// What is not counted at first.
    pub warm_up: Duration,
    /// How long a faulted MPS server may take to recover.
    pub recovery: Duration,
}

/// Real jobs on a GPU under MPS.
#[derive(Debug)]
pub struct Cuda {
    // Dropped in this order: workers before their daemon, their directory last.
    pool: Pool,
    mps: Option<Mps>,
    _run: RunDir,
    setup: Setup,
    names: Vec<String>,
    costs: Costs,
    sms: BTreeMap<Share, u32>,
    interrupted: Arc<AtomicBool>,
}

impl Setup {
    /// A setup with the defaults for a GPU.
    #[must_use]
    pub fn new(gpu: Gpu, mut mps: MpsOptions, tasks: usize) -> Self {
        mps.gpu = Some(gpu.uuid.clone());
        let clients = match gpu.mps {
            MpsSupport::Available { client_limit } => client_limit,
            MpsSupport::Unavailable { .. } => discovery::client_limit(gpu.cuda_version),
        };
        let limits = Limits {
            clients,
            sms: Some(gpu.sms),
            memory: Some(gpu.memory.get() as f64),
            ..Limits::default()
        };
        Self {
            gpu,
            mps,
            attach: false,
            runs: RunDir::default_base(),
            cpus: vec![Vec::new(); tasks],
            limits,
            stall: Duration::from_secs(60),
            warm_up: Duration::from_millis(500),
            recovery: Duration::from_secs(30),
        }
    }
}

fn environment(reason: impl ToString) -> OpenError {
    OpenError::Environment {
        kind: DeviceKind::Cuda,
        reason: reason.to_string(),
    }
}

impl Cuda {
    /// Opens the first GPU of the workload, or the first that can be shared, and starts (or
    /// attaches to) its daemon.
    ///
    /// # Errors
    /// [`OpenError::Environment`] with what is missing.
    pub fn open(workload: &Workload, options: &Options) -> Result<Self, OpenError> {
        let gpu = discovery::shareable(&workload.device.gpu_names)
            .map_err(environment)?
            .swap_remove(0);
        let mps = MpsOptions::from_environment().map_err(environment)?;
        let mut setup = Setup::new(gpu, mps, workload.tasks.len());
        setup.cpus = options.cpus.divide(workload.tasks.len());
        setup.attach = options.attach_mps;
        Self::with(workload, setup, options.interrupted.clone())
    }

    /// Opens a GPU with everything given.
    ///
    /// # Errors
    /// [`OpenError::Environment`] if the daemon does not start,
    /// [`OpenError::Workload`] if a task has no job.
    pub fn with(
        workload: &Workload,
        setup: Setup,
        interrupted: Arc<AtomicBool>,
    ) -> Result<Self, OpenError> {
        if let Some(index) = workload.tasks.iter().position(|t| t.job.is_none()) {
            return Err(OpenError::workload(
                doc::Code::NeedsMore,
                &format!("$.tasks[{index}].job"),
                "the cuda device runs real jobs".to_owned(),
                "give the task a job, for example {\"argv\":[\"mt-worker\",\"--device\",\"cuda\"],\
                 \"pool\":true}",
            ));
        }
        let (run, _) = RunDir::create(&setup.runs, "cuda").map_err(environment)?;
        let supervisor = Supervisor::new(run.token()).map_err(environment)?;
        let mps = start_mps(&setup).map_err(environment)?;
        let pool = Pool::new(
            supervisor,
            workload,
            setup.cpus.clone(),
            run.path().to_owned(),
            setup.limits.clone(),
        );
        Ok(Self {
            pool,
            mps: Some(mps),
            _run: run,
            names: workload.tasks.iter().map(|t| t.id.to_string()).collect(),
            setup,
            costs: Costs::default(),
            sms: BTreeMap::new(),
            interrupted,
        })
    }

    /// What samples have cost so far.
    #[must_use]
    pub fn costs(&self) -> &Costs {
        &self.costs
    }

    /// Workers that live, parked or not.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.pool.len()
    }

    fn windows(
        &mut self,
        configuration: &[Run],
        window: &Window,
    ) -> Result<(Measurement, Gathered), MeasureError> {
        let mps = self.mps.as_ref().ok_or_else(no_daemon)?;
        let interrupted = &self.interrupted;
        let gathered = self.pool.gather(configuration, mps, interrupted);
        let (jobs, gathered) = gathered.map_err(|t| self.raised(t))?;
        self.sms.extend(self.pool.sms_seen());
        let woken = self.pool.wake(configuration);
        woken.map_err(|t| self.raised(t))?;
        let limits = corun::Limits {
            ready: self.setup.limits.ready,
            stall: self.setup.stall,
            warm_up: self.setup.warm_up,
            least: seconds(window.least),
            most: seconds(window.most),
            precision: window.precision,
        };
        let mut counts = Vec::new();
        for _ in 0..window.repeats.max(1) {
            let counted = corun::count(self.pool.supervisor(), &jobs, &limits, &self.interrupted);
            match counted {
                Ok(counted) => counts.push(counted),
                Err(error) => return Err(self.failed(configuration, &error)),
            }
        }
        Ok((averaged(&counts)?, gathered))
    }

    fn raised(&self, trouble: Trouble) -> MeasureError {
        match trouble {
            Trouble::Configuration(reason) => MeasureError::Failed(reason),
            Trouble::Attachment(reason) => MeasureError::Unusable(reason),
            Trouble::Interrupted => MeasureError::Interrupted,
        }
    }

    fn failed(&mut self, configuration: &[Run], error: &CountError) -> MeasureError {
        let (index, what) = match error {
            CountError::Interrupted => return MeasureError::Interrupted,
            CountError::Ended { index, .. }
            | CountError::NotReady { index, .. }
            | CountError::Stalled { index, .. } => (*index, error.to_string()),
        };
        let Some(run) = configuration.get(index) else {
            return MeasureError::Failed(what);
        };
        if let Some(mps) = &self.mps {
            // A worker that stalled would stall again.
            self.pool.end_run(run, mps);
        }
        let what = what.replacen(&format!("job {index}"), "the job", 1);
        MeasureError::Failed(format!("task {}: {what}", self.names[run.task]))
    }

    /// After trouble: ends what is stuck, and if the server has faulted, ends all workers so that
    /// it can recover; a server that does not is replaced.
    fn recover(&mut self) -> Result<Option<String>, MeasureError> {
        let mps = self.mps.as_ref().ok_or_else(no_daemon)?;
        self.pool.tidy(mps);
        match mps.is_faulted() {
            Ok(false) => return Ok(None),
            Ok(true) => {
                self.pool.end_all(mps);
                if mps.wait_recovered(self.setup.recovery).is_ok() {
                    return Ok(Some("the MPS server faulted and recovered".to_owned()));
                }
            }
            Err(_) => self.pool.end_all(mps),
        }
        if self.setup.attach {
            return Err(MeasureError::Unusable(
                "the MPS daemon attached to has a fault and does not recover; restart it"
                    .to_owned(),
            ));
        }
        self.mps = None;
        let fresh = start_mps(&self.setup).map_err(|e| MeasureError::Unusable(e.to_string()))?;
        self.mps = Some(fresh);
        Ok(Some("the MPS daemon had to be replaced".to_owned()))
    }

    /// The configuration, again where that can help: once with fresh workers for a client that
    /// missed the daemon, and with fewer parked ones while there is no memory beside them.
    fn attempt(
        &mut self,
        configuration: &[Run],
        window: &Window,
    ) -> Result<(Measurement, Gathered), MeasureError> {
        let mut fresh = false;
        loop {
            let result = self.windows(configuration, window);
            let Some(mps) = &self.mps else {
                return result;
            };
            let again = match &result {
                Err(MeasureError::Unusable(_)) if !fresh => {
                    fresh = true;
                    self.pool.end_all(mps);
                    true
                }
                Err(MeasureError::Failed(reason)) => {
                    is_out_of_memory(reason) && self.pool.shrink(configuration, mps)
                }
                _ => false,
            };
            if !again {
                return result;
            }
        }
    }
}

/// Whether a job's last words say that the GPU's memory did not do; as PyTorch and the CUDA
/// driver put it.
fn is_out_of_memory(reason: &str) -> bool {
    let reason = reason.to_ascii_lowercase();
    reason.contains("out of memory") || reason.contains("out_of_memory")
}

impl Device for Cuda {
    fn fingerprint(&self) -> DeviceFingerprint {
        let gpu = &self.setup.gpu;
        let (major, minor) = gpu.cuda_version;
        let driver = gpu.driver.as_deref().unwrap_or("of unknown version");
        DeviceFingerprint {
            kind: DeviceKind::Cuda,
            name: gpu.name.clone(),
            simulated: false,
            units: Some(gpu.sms),
            detail: Some(format!("driver {driver}, CUDA {major}.{minor}, MPS")),
            noise_percent: None,
        }
    }

    fn measure(
        &mut self,
        configuration: &[Run],
        window: &Window,
    ) -> Result<Measurement, MeasureError> {
        let begun = Instant::now();
        let result = self.attempt(configuration, window);
        if let Err(MeasureError::Interrupted | MeasureError::Unusable(_)) = &result {
            if let Some(mps) = &self.mps {
                self.pool.end_all(mps);
            }
            return result.map(|(measurement, _)| measurement);
        }
        let note = if result.is_err() {
            self.recover()?
        } else {
            None
        };
        let mps = self.mps.as_ref().ok_or_else(no_daemon)?;
        let rested = self.pool.rest(mps, &self.interrupted);
        rested.map_err(|t| self.raised(t))?;
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
            Err(MeasureError::Failed(reason)) => Err(MeasureError::Failed(match note {
                Some(note) => format!("{reason} ({note})"),
                None => reason,
            })),
            Err(other) => Err(other),
        }
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
        Some(text)
    }
}

fn start_mps(setup: &Setup) -> Result<Mps, MpsError> {
    if setup.attach {
        Mps::attach(&setup.mps, None)
    } else {
        Mps::start(&setup.mps)
    }
}

fn no_daemon() -> MeasureError {
    MeasureError::Unusable("the MPS daemon is gone".to_owned())
}

pub(crate) fn seconds(value: Seconds) -> Duration {
    Duration::try_from_secs_f64(value.get()).unwrap_or(Duration::MAX)
}

/// Means over windows; the standard error is the larger of what the windows say each for itself
/// and what their spread says.
pub(crate) fn averaged(counts: &[Counted]) -> Result<Measurement, MeasureError> {
    let windows = counts.len() as f64;
    let bad = |e: units::UnitError| MeasureError::Failed(e.to_string());
    let rate = |job: usize| {
        let rates: Vec<_> = counts.iter().map(|c| c.rates[job]).collect();
        let mean = rates.iter().map(|r| r.samples_per_s).sum::<f64>() / windows;
        let inner = rates
            .iter()
            .map(|r| r.std_error.powi(2))
            .sum::<f64>()
            .sqrt()
            / windows;
        let squares: f64 = rates.iter().map(|r| (r.samples_per_s - mean).powi(2)).sum();
        let outer = if counts.len() > 1 {
            (squares / (windows - 1.0) / windows).sqrt()
        } else {
            0.0
        };
        Ok(Rate {
            throughput: SamplesPerSec::new(mean).map_err(bad)?,
            stderr: Some(SamplesPerSec::new(inner.max(outer)).map_err(bad)?),
        })
    };
    let jobs = counts.first().map_or(0, |c| c.rates.len());
    let length = counts.iter().map(|c| c.window.as_secs_f64()).sum::<f64>() / windows;
    Ok(Measurement {
        rates: (0..jobs).map(rate).collect::<Result<_, _>>()?,
        window: Seconds::new(length).map_err(bad)?,
        repeats: u32::try_from(counts.len()).unwrap_or(u32::MAX),
    })
}
