//! Real processes that share GPUs under NVIDIA MPS.
//!
//! Each GPU has its own daemon, so a fault affects only one GPU. A process is a client of one daemon, so if jobs need
//! several GPUs at once, one daemon serves all GPUs, and a fault ends the jobs on all of them. Either way a job sees
//! only the GPUs that it was granted. CUDA reads a client's share once, at start; it applies to each of its GPUs.

use std::cell::OnceCell;
use std::ffi::OsString;
use std::time::{Duration, Instant};

use doc::{DeviceFingerprint, DeviceKind};
use jobs::mps::{Mps, MpsError, MpsOptions};
use jobs::{JobSpec, RunDir};

use crate::discovery::Gpu;
use crate::processes::{Admitted, Processes, Shares};
use crate::sight::Sight;
use crate::{
    Fault, FaultKind, Gpus, Grant, Health, HostError, OpenError, Recovery, Regrants, Settled,
};

/// Processes of this machine under MPS.
pub type MpsHost = Processes<Daemons>;

/// How to open GPUs under MPS.
#[derive(Debug, Clone)]
pub struct MpsSetup {
    /// The GPUs; a grant refers to them by their index here.
    pub gpus: Vec<Gpu>,
    /// How daemons are started; its `gpus` are ignored.
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
    /// How daemons are started.
    options: MpsOptions,
    daemons: Vec<Daemon>,
    attach: bool,
    recovery: Duration,
    /// NVML, loaded at the first fault; `None` inside if it cannot be loaded.
    sight: OnceCell<Option<Sight>>,
}

#[derive(Debug)]
struct Daemon {
    options: MpsOptions,
    /// Absent after the daemon could not be replaced.
    mps: Option<Mps>,
    /// Time at which it is replaced unless it has recovered by itself; set while it is faulted.
    replace_at: Option<Instant>,
}

/// Time for a faulted server to notice that its last clients have gone. Normally it notices at once. If it still lists
/// clients after this time, it counts clients that no longer exist, and will never recover.
const ZOMBIES: Duration = Duration::from_secs(3);

impl Daemon {
    fn mps(&self) -> Result<&Mps, HostError> {
        let gone = || MpsError::Start {
            detail: "it is gone and could not be replaced".to_owned(),
        };
        Ok(self.mps.as_ref().ok_or_else(gone)?)
    }

    /// The current fault of the daemon, if any.
    fn fault(&self) -> Result<Option<FaultKind>, HostError> {
        let Some(mps) = &self.mps else {
            return Ok(Some(FaultKind::Daemon));
        };
        match mps.is_faulted() {
            Ok(faulted) => Ok(faulted.then_some(FaultKind::Server)),
            Err(_) if mps.is_gone() => Ok(Some(FaultKind::Daemon)),
            Err(error) => Err(error.into()),
        }
    }

    /// See [`Host::recover`](crate::Host::recover).
    fn recover(&mut self, attach: bool, patience: Duration) -> Result<Recovery, HostError> {
        let mps = self.mps.as_ref();
        if mps.is_some_and(|mps| mps.recovered().is_ok()) {
            self.replace_at = None;
            return Ok(Recovery::Recovered);
        }
        let patience = match mps {
            Some(mps) if mps.is_gone() => Duration::ZERO,
            Some(mps) if mps.has_only_zombies() => ZOMBIES.min(patience),
            Some(_) => patience,
            None => Duration::ZERO,
        };
        let now = Instant::now();
        let at = self
            .replace_at
            .unwrap_or(now + patience)
            .min(now + patience);
        self.replace_at = Some(at);
        if now < at {
            return Ok(Recovery::Pending);
        }
        self.replace_at = None;
        if attach {
            return Err(HostError::AttachedFault);
        }
        self.start(false)?;
        Ok(Recovery::Replaced)
    }

    fn start(&mut self, attach: bool) -> Result<(), MpsError> {
        // Stops the remaining processes of the old daemon before the new one starts.
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
        let started = Daemons::start_all(setup);
        let daemons = started.map_err(|e| OpenError::environment(DeviceKind::Cuda, e))?;
        Processes::new(daemons, run)
    }
}

impl Daemons {
    /// The GPUs with their daemons.
    pub(crate) fn start_all(setup: MpsSetup) -> Result<Self, MpsError> {
        let uuids: Vec<String> = setup.gpus.iter().map(|gpu| gpu.uuid.clone()).collect();
        let sets = match setup.together {
            true => vec![uuids],
            false => uuids.into_iter().map(|uuid| vec![uuid]).collect(),
        };
        let mut daemons = Self::without(setup);
        for gpus in sets {
            daemons.start(gpus)?;
        }
        Ok(daemons)
    }

    /// The GPUs, without any daemon yet.
    pub(crate) fn without(setup: MpsSetup) -> Self {
        Self {
            gpus: setup.gpus,
            options: setup.mps,
            daemons: Vec::new(),
            attach: setup.attach,
            recovery: setup.recovery,
            sight: OnceCell::new(),
        }
    }

    /// Starts (or attaches to) a daemon for these GPUs.
    fn start(&mut self, gpus: Vec<String>) -> Result<(), MpsError> {
        let mut daemon = Daemon {
            options: MpsOptions {
                gpus,
                ..self.options.clone()
            },
            mps: None,
            replace_at: None,
        };
        daemon.start(self.attach)?;
        self.daemons.push(daemon);
        Ok(())
    }

    /// Ensures that a GPU has a daemon.
    pub(crate) fn serve(&mut self, gpu: usize) -> Result<(), HostError> {
        let gpu = self.gpus.get(gpu).ok_or(HostError::NoGpu { gpu })?;
        let uuid = gpu.uuid.clone();
        let serves = |daemon: &Daemon| daemon.options.gpus.contains(&uuid);
        if !self.daemons.iter().any(serves) {
            self.start(vec![uuid])?;
        }
        Ok(())
    }

    /// Variables of a client of the daemon that serves the GPUs of a grant.
    pub(crate) fn client(&self, grant: &Grant) -> Result<Vec<(OsString, OsString)>, HostError> {
        Ok(self.daemon(grant)?.mps()?.client_environment(grant.share))
    }

    /// The GPUs, by their numbers.
    pub(crate) fn all(&self) -> &[Gpu] {
        &self.gpus
    }

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

    /// The reason why a GPU has stopped working, if NVML reports that.
    fn lost(&self, gpu: usize) -> Option<String> {
        let sight = self.sight.get_or_init(|| Sight::open().ok());
        sight.as_ref()?.lost(&self.gpus.get(gpu)?.uuid)
    }

    /// Numbers of the GPUs of a daemon.
    fn numbers(&self, daemon: &Daemon) -> Option<Gpus> {
        let served = &daemon.options.gpus;
        let gpus = self.gpus.iter().enumerate();
        let own = gpus.filter(|(_, gpu)| served.contains(&gpu.uuid));
        Gpus::of(&own.map(|(number, _)| number).collect::<Vec<_>>())
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

    fn prepare(&self, spec: &mut JobSpec, _: bool, grant: &Grant) -> Result<(), HostError> {
        let mps = self.daemon(grant)?.mps()?;
        let gpus = self.gpus(grant)?;
        // Settings in our environment belong to another daemon and must not reach these clients.
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
            // If this is refused, the job may not be a client (any more). Then no work is pending, or only signals can
            // end it.
            mps.terminate_group(job.group).ok();
        }
    }

    fn health(&self) -> Health {
        let lost = |gpu| {
            self.lost(gpu).map(|why| Fault {
                gpus: Gpus::one(gpu),
                kind: FaultKind::Lost(why),
            })
        };
        let mut faults: Vec<Fault> = (0..self.gpus.len()).filter_map(lost).collect();
        let mut unknown = None;
        for daemon in &self.daemons {
            match daemon.fault() {
                Ok(None) => {}
                Ok(Some(kind)) => {
                    let gpus = self.numbers(daemon);
                    faults.extend(gpus.map(|gpus| Fault { gpus, kind }));
                }
                Err(error) => unknown = Some(error),
            }
        }
        match faults.is_empty() {
            true => unknown.map_or(Health::Good, Health::Unknown),
            false => Health::Faulted(faults),
        }
    }

    fn recover(&mut self, gpus: &Gpus) -> Result<Recovery, HostError> {
        if let Some(why) = gpus.numbers().iter().find_map(|&gpu| self.lost(gpu)) {
            return Err(HostError::GpuLost(why));
        }
        let (attach, patience) = (self.attach, self.recovery);
        let serves: Vec<bool> = self
            .daemons
            .iter()
            .map(|daemon| self.numbers(daemon).is_some_and(|own| own.share_any(gpus)))
            .collect();
        let mut overall = Recovery::Recovered;
        for (daemon, _) in self.daemons.iter_mut().zip(serves).filter(|(_, s)| *s) {
            match daemon.recover(attach, patience)? {
                Recovery::Recovered => {}
                Recovery::Pending => return Ok(Recovery::Pending),
                Recovery::Replaced => overall = Recovery::Replaced,
            }
        }
        Ok(overall)
    }
}
