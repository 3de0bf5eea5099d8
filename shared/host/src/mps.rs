//! Real processes that share GPUs under NVIDIA MPS.
//!
//! Each GPU has a daemon of its own, so that a fault stays on its GPU and a job is shown the one
//! that it was granted. The share of a client is read when CUDA starts in it and never again.

use std::time::{Duration, Instant};

use doc::{DeviceFingerprint, DeviceKind};
use jobs::mps::{Mps, MpsError, MpsOptions};
use jobs::{JobSpec, RunDir};
use units::Share;

use crate::discovery::Gpu;
use crate::processes::{Admitted, Processes, Shares};
use crate::{Grant, Health, HostError, OpenError, Recovery, Regrants, Settled, Work};

/// Processes of this machine under MPS.
pub type MpsHost = Processes<Daemons>;

/// How to open GPUs under MPS.
#[derive(Debug, Clone)]
pub struct MpsSetup {
    /// The GPUs; a grant names them by their place here.
    pub gpus: Vec<Gpu>,
    /// How daemons are started; its GPU is not used.
    pub mps: MpsOptions,
    /// Use the daemon that runs already instead of a private one.
    pub attach: bool,
    /// How long a faulted server may take to recover before its daemon is replaced.
    pub recovery: Duration,
}

impl MpsSetup {
    /// GPUs under private daemons.
    #[must_use]
    pub fn new(gpus: Vec<Gpu>, mps: MpsOptions) -> Self {
        Self {
            gpus,
            mps,
            attach: false,
            // Recovery takes a few seconds once all clients have gone; ten times that, because a
            // replacement ends whatever else the daemon still knows.
            recovery: Duration::from_secs(30),
        }
    }
}

/// MPS daemons, one for each GPU.
#[derive(Debug)]
pub struct Daemons {
    gpus: Vec<SharedGpu>,
    attach: bool,
    recovery: Duration,
    /// When daemons that have not recovered by themselves are replaced; set while one is faulted.
    replace_at: Option<Instant>,
}

#[derive(Debug)]
struct SharedGpu {
    gpu: Gpu,
    options: MpsOptions,
    /// Absent after a daemon could not be replaced.
    mps: Option<Mps>,
}

impl SharedGpu {
    fn mps(&self) -> Result<&Mps, HostError> {
        let gone = || MpsError::Start {
            detail: "it is gone and could not be replaced".to_owned(),
        };
        Ok(self.mps.as_ref().ok_or_else(gone)?)
    }

    fn start(&mut self, attach: bool) -> Result<(), MpsError> {
        // What is left of the old daemon is stopped before the new one starts.
        self.mps = None;
        self.mps = Some(if attach {
            Mps::attach(&self.options, None)?
        } else {
            Mps::start(&self.options)?
        });
        Ok(())
    }
}

impl MpsHost {
    /// Starts (or attaches to) a daemon for each GPU.
    ///
    /// # Errors
    /// [`OpenError::Environment`] if a daemon does not start.
    pub fn open(setup: MpsSetup, run: RunDir) -> Result<Self, OpenError> {
        let mut gpus = Vec::with_capacity(setup.gpus.len());
        for gpu in setup.gpus {
            let mut options = setup.mps.clone();
            options.gpu = Some(gpu.uuid.clone());
            let mut shared = SharedGpu {
                gpu,
                options,
                mps: None,
            };
            let started = shared.start(setup.attach);
            started.map_err(|e| OpenError::environment(DeviceKind::Cuda, e))?;
            gpus.push(shared);
        }
        let daemons = Daemons {
            gpus,
            attach: setup.attach,
            recovery: setup.recovery,
            replace_at: None,
        };
        Processes::new(daemons, run)
    }
}

impl Daemons {
    /// The one GPU of a grant.
    fn gpu(&self, grant: &Grant) -> Result<&SharedGpu, HostError> {
        let &[gpu] = grant.gpus.as_slice() else {
            return Err(HostError::GpuCount {
                count: grant.gpus.len(),
            });
        };
        self.gpus.get(gpu).ok_or(HostError::NoGpu { gpu })
    }

    fn has_recovered(gpu: &SharedGpu) -> bool {
        gpu.mps.as_ref().is_some_and(|mps| mps.recovered().is_ok())
    }
}

impl Shares for Daemons {
    const KIND: DeviceKind = DeviceKind::Cuda;

    fn fingerprint(&self) -> DeviceFingerprint {
        let names: Vec<&str> = self.gpus.iter().map(|g| g.gpu.name.as_str()).collect();
        let detail = self.gpus.first().map(|shared| {
            let (major, minor) = shared.gpu.cuda_version;
            let driver = shared.gpu.driver.as_deref().unwrap_or("of unknown version");
            format!("driver {driver}, CUDA {major}.{minor}, MPS")
        });
        DeviceFingerprint {
            kind: DeviceKind::Cuda,
            name: names.join(", "),
            simulated: false,
            units: self.gpus.first().map(|g| g.gpu.sms),
            detail,
            noise_percent: None,
        }
    }

    fn regrants(&self) -> Regrants {
        Regrants::NextStart
    }

    fn prepare(&self, spec: &mut JobSpec, _: &Work<'_>, grant: &Grant) -> Result<(), HostError> {
        let mps = self.gpu(grant)?.mps()?;
        // Another daemon's settings in our environment are not meant for these clients.
        spec.env
            .retain(|name, _| !name.to_string_lossy().starts_with("CUDA_MPS_"));
        spec.env.extend(mps.client_environment(grant.share));
        if let Some(memory) = grant.memory {
            let (name, limit) = jobs::mps::memory_limit(memory);
            spec.env.insert(name.into(), limit.into());
        }
        spec.cpus.clone_from(&grant.processors);
        Ok(())
    }

    fn settle(&self, job: &Admitted) -> Result<Settled, HostError> {
        let gpu = self.gpu(&job.grant)?;
        let sms = Some(gpu.gpu.sms);
        let seen = gpu
            .mps()?
            .verify(job.group, job.ready, job.grant.share, sms)?;
        Ok(Settled { sms: seen.sms })
    }

    /// Not reached: the next start is granted the new share.
    fn regrant(&self, _: &Admitted, _: Share) -> Result<(), HostError> {
        Ok(())
    }

    fn release(&self, job: &Admitted) {
        if let Ok(mps) = self.gpu(&job.grant).and_then(SharedGpu::mps) {
            // Refused: it may be no client (any more). Then nothing is pending, or signals are all
            // there is.
            mps.terminate_group(job.group).ok();
        }
    }

    fn health(&self) -> Health {
        let mut unknown = None;
        for gpu in &self.gpus {
            let faulted = gpu
                .mps()
                .and_then(|mps| mps.is_faulted().map_err(HostError::Mps));
            match faulted {
                Ok(false) => {}
                Ok(true) => return Health::Faulted,
                Err(error) => unknown = Some(error),
            }
        }
        unknown.map_or(Health::Good, Health::Unknown)
    }

    fn recover(&mut self) -> Result<Recovery, HostError> {
        if self.gpus.iter().all(Self::has_recovered) {
            self.replace_at = None;
            return Ok(Recovery::Recovered);
        }
        let now = Instant::now();
        if now < *self.replace_at.get_or_insert(now + self.recovery) {
            return Ok(Recovery::Pending);
        }
        self.replace_at = None;
        if self.attach {
            return Err(HostError::AttachedFault);
        }
        for gpu in &mut self.gpus {
            if !Self::has_recovered(gpu) {
                gpu.start(false)?;
            }
        }
        Ok(Recovery::Replaced)
    }
}
