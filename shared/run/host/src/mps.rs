//! Real processes that share GPUs under NVIDIA MPS.
//!
//! Each GPU has its own daemon, so a fault stays on its GPU. A process is a client of one daemon,
//! so if jobs need several GPUs at once, one daemon serves all of them, and a fault ends the jobs
//! of all. Either way a job sees only the GPUs that it was granted. CUDA reads a client's share
//! once, at start; it applies to each of its GPUs.

use std::time::{Duration, Instant};

use doc::{DeviceFingerprint, DeviceKind};
use jobs::mps::{Mps, MpsError, MpsOptions};
use jobs::{JobSpec, RunDir};

use crate::discovery::Gpu;
use crate::processes::{Admitted, Processes, Shares};
use crate::{Grant, Health, HostError, OpenError, Recovery, Regrants, Settled, Work};

/// Processes of this machine under MPS.
pub type MpsHost = Processes<Daemons>;

/// How to open GPUs under MPS.
#[derive(Debug, Clone)]
pub struct MpsSetup {
    /// The GPUs; a grant refers to them by their index here.
    pub gpus: Vec<Gpu>,
    /// How daemons are started; its GPU is not used.
    pub mps: MpsOptions,
    /// Use a running daemon instead of a private one.
    pub attach: bool,
    /// One daemon for all GPUs, so that a job can be granted several.
    pub together: bool,
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
            together: false,
            // Recovery takes a few seconds after all clients have gone; this is ten times that, because a replacement
            // ends everything else that the daemon serves.
            recovery: Duration::from_secs(30),
        }
    }
}

/// MPS daemons: one for each GPU, or one for all.
#[derive(Debug)]
pub struct Daemons {
    gpus: Vec<Gpu>,
    daemons: Vec<Daemon>,
    attach: bool,
    recovery: Duration,
    /// When daemons that have not recovered by themselves are replaced; set while one is faulted.
    replace_at: Option<Instant>,
}

#[derive(Debug)]
struct Daemon {
    options: MpsOptions,
    /// Absent after a daemon could not be replaced.
    mps: Option<Mps>,
}

impl Daemon {
    fn mps(&self) -> Result<&Mps, HostError> {
        let gone = || MpsError::Start {
            detail: "it is gone and could not be replaced".to_owned(),
        };
        Ok(self.mps.as_ref().ok_or_else(gone)?)
    }

    fn start(&mut self, attach: bool) -> Result<(), MpsError> {
        // The rest of the old daemon is stopped before the new one starts.
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
    /// Starts (or attaches to) a daemon for each GPU, or one for all.
    ///
    /// # Errors
    /// [`OpenError::Environment`] if a daemon does not start.
    pub fn open(setup: MpsSetup, run: RunDir) -> Result<Self, OpenError> {
        let uuids: Vec<String> = setup.gpus.iter().map(|gpu| gpu.uuid.clone()).collect();
        let sets = match setup.together {
            true => vec![uuids],
            false => uuids.into_iter().map(|uuid| vec![uuid]).collect(),
        };
        let mut daemons = Vec::with_capacity(sets.len());
        for gpus in sets {
            let mut daemon = Daemon {
                options: MpsOptions {
                    gpus,
                    ..setup.mps.clone()
                },
                mps: None,
            };
            let started = daemon.start(setup.attach);
            started.map_err(|e| OpenError::environment(DeviceKind::Cuda, e))?;
            daemons.push(daemon);
        }
        let daemons = Daemons {
            gpus: setup.gpus,
            daemons,
            attach: setup.attach,
            recovery: setup.recovery,
            replace_at: None,
        };
        Processes::new(daemons, run)
    }
}

impl Daemons {
    /// The GPUs of a grant, at least one.
    fn gpus(&self, grant: &Grant) -> Result<Vec<&Gpu>, HostError> {
        if let Some(gpu) = grant.gpus.beyond(self.gpus.len()) {
            return Err(HostError::NoGpu { gpu });
        }
        let numbers = grant.gpus.numbers().iter();
        Ok(numbers.map(|&gpu| &self.gpus[gpu]).collect())
    }

    /// The daemon that serves all GPUs of a grant.
    fn daemon(&self, grant: &Grant) -> Result<&Daemon, HostError> {
        let gpus = self.gpus(grant)?;
        let serves = |daemon: &&Daemon| {
            let served = &daemon.options.gpus;
            gpus.iter().all(|gpu| served.contains(&gpu.uuid))
        };
        let found = self.daemons.iter().find(serves);
        found.ok_or_else(|| HostError::Apart {
            gpus: grant.gpus.clone(),
        })
    }

    fn has_recovered(daemon: &Daemon) -> bool {
        daemon
            .mps
            .as_ref()
            .is_some_and(|mps| mps.recovered().is_ok())
    }
}

impl Shares for Daemons {
    fn kind(&self) -> DeviceKind {
        DeviceKind::Cuda
    }

    fn fingerprint(&self) -> DeviceFingerprint {
        let names: Vec<&str> = self.gpus.iter().map(|g| g.name.as_str()).collect();
        let detail = self.gpus.first().map(|gpu| {
            let (major, minor) = gpu.cuda_version;
            let driver = gpu.driver.as_deref().unwrap_or("of unknown version");
            format!("driver {driver}, CUDA {major}.{minor}, MPS")
        });
        DeviceFingerprint {
            kind: DeviceKind::Cuda,
            name: names.join(", "),
            simulated: false,
            units: self.gpus.first().map(|g| g.sms),
            detail,
            noise_percent: None,
        }
    }

    fn regrants(&self) -> Regrants {
        Regrants::NextStart
    }

    fn devices(&self) -> Vec<String> {
        self.gpus.iter().map(|gpu| gpu.uuid.clone()).collect()
    }

    fn prepare(&self, spec: &mut JobSpec, _: &Work<'_>, grant: &Grant) -> Result<(), HostError> {
        let mps = self.daemon(grant)?.mps()?;
        let gpus = self.gpus(grant)?;
        // Settings of another daemon in our environment are not for these clients.
        spec.env
            .retain(|name, _| !name.to_string_lossy().starts_with("CUDA_MPS_"));
        spec.env.extend(mps.client_environment(grant.share));
        let uuids: Vec<&str> = gpus.iter().map(|gpu| gpu.uuid.as_str()).collect();
        spec.env
            .insert("CUDA_VISIBLE_DEVICES".into(), uuids.join(",").into());
        if let Some(memory) = grant.memory {
            let (name, limit) = jobs::mps::memory_limit(memory, gpus.len());
            spec.env.insert(name.into(), limit.into());
        }
        spec.cpus.clone_from(&grant.processors);
        Ok(())
    }

    fn settle(&self, job: &Admitted) -> Result<Settled, HostError> {
        // A client reports the SMs of its first GPU.
        let sms = self.gpus(&job.grant)?.first().map(|gpu| gpu.sms);
        let seen =
            self.daemon(&job.grant)?
                .mps()?
                .verify(job.group, job.ready, job.grant.share, sms)?;
        Ok(Settled { sms: seen.sms })
    }

    fn release(&self, job: &Admitted) {
        if let Ok(mps) = self.daemon(&job.grant).and_then(Daemon::mps) {
            // Refused: it may not be a client (any more). Then nothing is pending, or only signals can help.
            mps.terminate_group(job.group).ok();
        }
    }

    fn health(&self) -> Health {
        let mut unknown = None;
        for daemon in &self.daemons {
            let faulted = daemon
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
        if self.daemons.iter().all(Self::has_recovered) {
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
        for daemon in &mut self.daemons {
            if !Self::has_recovered(daemon) {
                daemon.start(false)?;
            }
        }
        Ok(Recovery::Replaced)
    }
}
