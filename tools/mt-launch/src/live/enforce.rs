//! What makes a share real.

use cli::Failure;
use device::cuda::discovery::{self, MpsSupport};
use device::cuda::mps::{Mps, MpsOptions, Ready};
use doc::DeviceKind;
use jobs::cgroup::{Cgroups, Group};
use jobs::{JobSpec, RunDir};
use units::{Share, TaskId};

/// Control groups or MPS.
pub enum Enforcer {
    /// CPU quotas, changeable at any time.
    Cpu(Cgroups),
    /// A private MPS daemon; a share is fixed when a job starts.
    Cuda {
        /// The daemon.
        mps: Box<Mps>,
        /// How it was started.
        options: Box<MpsOptions>,
        /// Name of the GPU.
        name: String,
        /// Its multiprocessors.
        sms: u32,
        /// Processors of each task.
        cpus: Vec<Vec<usize>>,
    },
}

fn environment(error: impl ToString) -> Failure {
    Failure::Environment(error.to_string())
}

impl Enforcer {
    /// Prepares a device.
    ///
    /// # Errors
    /// [`Failure::Environment`] with what is missing and how to get it.
    pub fn open(kind: DeviceKind, tasks: usize, run: &mut RunDir) -> Result<Self, Failure> {
        match kind {
            DeviceKind::Cpu => Cgroups::create(run).map(Self::Cpu).map_err(environment),
            DeviceKind::Cuda => Self::open_cuda(tasks),
            other => Err(Failure::Environment(format!(
                "the {other:?} device runs no jobs; use cpu, cuda or sim"
            ))),
        }
    }

    fn open_cuda(tasks: usize) -> Result<Self, Failure> {
        let mut reasons = Vec::new();
        for gpu in discovery::discover().map_err(environment)? {
            if let MpsSupport::Unavailable { reason } = &gpu.mps {
                reasons.push(format!("{}: {reason}", gpu.name));
                continue;
            }
            let mut options = MpsOptions::from_environment().map_err(environment)?;
            options.gpu = Some(gpu.uuid.clone());
            return Ok(Self::Cuda {
                mps: Box::new(Mps::start(&options).map_err(environment)?),
                options: Box::new(options),
                name: gpu.name,
                sms: gpu.sms,
                cpus: device::Cpus::Auto.divide(tasks),
            });
        }
        Err(Failure::Environment(format!(
            "MPS can share no GPU of this machine ({})",
            reasons.join("; ")
        )))
    }

    /// What the device is.
    #[must_use]
    pub fn fingerprint(&self) -> doc::DeviceFingerprint {
        match self {
            Self::Cpu(groups) => device::cpu_fingerprint(groups),
            Self::Cuda { name, sms, .. } => doc::DeviceFingerprint {
                kind: DeviceKind::Cuda,
                name: name.clone(),
                simulated: false,
                units: Some(*sms),
                detail: Some("MPS".to_owned()),
                noise_percent: None,
            },
        }
    }

    /// Word for `MT_DEVICE`.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Cpu(_) => "cpu",
            Self::Cuda { .. } => "cuda",
        }
    }

    /// Whether the share of a running job can change.
    #[must_use]
    pub const fn is_live(&self) -> bool {
        matches!(self, Self::Cpu(_))
    }

    /// Puts a share into what a job is started with.
    ///
    /// # Errors
    /// In words, if the group cannot be made.
    pub fn prepare(&self, spec: &mut JobSpec, index: usize, share: Share) -> Result<(), String> {
        match self {
            Self::Cpu(_) => {
                let group = self.group(&spec.task, share)?;
                spec.cgroup_procs = group.map(|g| g.procs());
            }
            Self::Cuda { mps, cpus, .. } => {
                let settings =
                    |name: &std::ffi::OsString| name.to_string_lossy().starts_with("CUDA_MPS_");
                spec.env.retain(|name, _| !settings(name));
                spec.env.extend(mps.client_environment(share));
                spec.cpus.clone_from(&cpus[index]);
            }
        }
        Ok(())
    }

    /// Changes the share of a task's job; does nothing where that is not possible.
    ///
    /// # Errors
    /// In words.
    pub fn reshare(&self, task: &TaskId, share: Share) -> Result<(), String> {
        self.group(task, share).map(drop)
    }

    fn group(&self, task: &TaskId, share: Share) -> Result<Option<Group>, String> {
        match self {
            Self::Cpu(groups) => groups
                .group(task.as_str(), share)
                .map(Some)
                .map_err(|e| e.to_string()),
            Self::Cuda { .. } => Ok(None),
        }
    }

    /// Checks that a job that says it is ready runs at its share.
    ///
    /// # Errors
    /// In words, why it does not.
    pub fn verify(&self, group: i32, ready: Ready, share: Share) -> Result<(), String> {
        match self {
            Self::Cpu(_) => Ok(()),
            Self::Cuda { mps, sms, .. } => mps
                .verify(group, ready, share, Some(*sms))
                .map(drop)
                .map_err(|e| e.to_string()),
        }
    }

    /// Ends the work of a job on the device before it may be killed.
    pub fn release(&self, group: i32) {
        if let Self::Cuda { mps, .. } = self {
            // It may be no client any more; then signals are all there is.
            mps.terminate_group(group).ok();
        }
    }

    /// Whether the device has had a fault that hits every job.
    #[must_use]
    pub fn is_faulted(&self) -> bool {
        match self {
            Self::Cpu(_) => false,
            Self::Cuda { mps, .. } => mps.is_faulted().unwrap_or(false),
        }
    }

    /// Makes the device good again after a fault, once no job runs any more: a server that does
    /// not recover by itself is replaced. Says what was done.
    ///
    /// # Errors
    /// In words, if no daemon can be started.
    pub fn recover(&mut self) -> Result<&'static str, String> {
        let Self::Cuda { mps, options, .. } = self else {
            return Ok("there was nothing to recover");
        };
        if mps.wait_recovered(RECOVERY).is_ok() {
            return Ok("the MPS server has recovered");
        }
        **mps = Mps::start(options).map_err(|e| e.to_string())?;
        Ok("the MPS daemon was replaced")
    }
}

/// How long a server may take to recover from a fault.
const RECOVERY: std::time::Duration = std::time::Duration::from_secs(30);
