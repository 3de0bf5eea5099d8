//! What makes a share real.

use cli::Failure;
use doc::DeviceKind;
use host::discovery::{self, Gpu};
use jobs::Cpus;
use jobs::cgroup::{Cgroups, Group};
use jobs::mps::{Mps, MpsOptions, Ready};
use jobs::{JobSpec, RunDir};
use units::{Share, TaskId};

use crate::launch::Launch;

/// Control groups or MPS.
pub enum Enforcer {
    /// CPU quotas, changeable at any time.
    Cpu(Cgroups),
    /// Private MPS daemons; a share is fixed when a job starts.
    Cuda {
        /// As the plan numbers them.
        gpus: Vec<SharedGpu>,
        /// Processors of each task.
        cpus: Vec<Vec<usize>>,
    },
}

/// A GPU under a daemon of its own.
pub struct SharedGpu {
    mps: Mps,
    options: MpsOptions,
    name: String,
    sms: u32,
}

fn environment(error: impl ToString) -> Failure {
    Failure::Environment(error.to_string())
}

impl Enforcer {
    /// Prepares the device of a launch: all the GPUs that its plan or its workload names.
    ///
    /// # Errors
    /// [`Failure::Environment`] with what is missing and how to get it.
    pub fn open(launch: &Launch, cpus: &Cpus, run: &mut RunDir) -> Result<Self, Failure> {
        let used = launch.plan.tasks.iter().filter_map(|t| t.gpu).max();
        let used = used.map_or(1, |last| last.saturating_add(1) as usize);
        match launch.workload.device.kind {
            DeviceKind::Cpu if used > 1 => Err(Failure::Environment(format!(
                "the cpu device is one device and the plan spreads over {used}; make the plan \
                 with one, or launch it with --device cuda or sim"
            ))),
            DeviceKind::Cpu => Cgroups::create(run).map(Self::Cpu).map_err(environment),
            DeviceKind::Cuda => {
                let count = used.max(launch.workload.device.gpus as usize);
                let found = discovery::shareable(&launch.workload.device.gpu_names);
                let found = found.map_err(environment)?;
                Self::open_cuda(found, count, cpus.divide(launch.plan.tasks.len()))
            }
            other => Err(Failure::Environment(format!(
                "the {other:?} device runs no jobs; use cpu, cuda or sim"
            ))),
        }
    }

    fn open_cuda(found: Vec<Gpu>, count: usize, cpus: Vec<Vec<usize>>) -> Result<Self, Failure> {
        if found.len() < count {
            return Err(Failure::Environment(format!(
                "the plan needs {count} GPUs and MPS can share {} of this machine; make the plan \
                 with as many (\"gpus\" of the workload's device)",
                found.len()
            )));
        }
        let gpus = found.into_iter().take(count).map(|gpu| {
            let mut options = MpsOptions::from_environment().map_err(environment)?;
            options.gpu = Some(gpu.uuid);
            Ok(SharedGpu {
                mps: Mps::start(&options).map_err(environment)?,
                options,
                name: gpu.name,
                sms: gpu.sms,
            })
        });
        Ok(Self::Cuda {
            gpus: gpus.collect::<Result<_, Failure>>()?,
            cpus,
        })
    }

    /// What the device is.
    #[must_use]
    pub fn fingerprint(&self) -> doc::DeviceFingerprint {
        match self {
            Self::Cpu(groups) => host::cpu_fingerprint(groups),
            Self::Cuda { gpus, .. } => {
                let names: Vec<&str> = gpus.iter().map(|g| g.name.as_str()).collect();
                doc::DeviceFingerprint {
                    kind: DeviceKind::Cuda,
                    name: names.join(", "),
                    simulated: false,
                    units: gpus.first().map(|g| g.sms),
                    detail: Some("MPS".to_owned()),
                    noise_percent: None,
                }
            }
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

    /// Puts the share of the task `index` on GPU `gpu` into what its job is started with. As when
    /// it was profiled, a job that can be kept in a pool may use the whole machine until it is
    /// ready: many programs choose their number of threads by the quota that they find.
    ///
    /// # Errors
    /// In words, if the group cannot be made or the plan had no such GPU when it was launched.
    pub fn prepare(
        &self,
        spec: &mut JobSpec,
        (index, gpu): (usize, usize),
        share: Share,
        pool: bool,
    ) -> Result<(), String> {
        match self {
            Self::Cpu(_) => {
                let at_first = if pool { Share::FULL } else { share };
                let group = self.group(&spec.task, at_first)?;
                spec.cgroup_procs = group.map(|g| g.procs());
            }
            Self::Cuda { gpus, cpus } => {
                let gpu = gpus
                    .get(gpu)
                    .ok_or_else(|| format!("there is no GPU {gpu}"))?;
                let settings =
                    |name: &std::ffi::OsString| name.to_string_lossy().starts_with("CUDA_MPS_");
                spec.env.retain(|name, _| !settings(name));
                spec.env.extend(gpu.mps.client_environment(share));
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

    /// Makes sure that the job of a task on GPU `gpu` that says it is ready runs at its share.
    ///
    /// # Errors
    /// In words, why it does not.
    pub fn settle(
        &self,
        task: &TaskId,
        group: i32,
        gpu: usize,
        ready: Ready,
        share: Share,
    ) -> Result<(), String> {
        match self {
            Self::Cpu(_) => self.reshare(task, share),
            Self::Cuda { gpus, .. } => {
                let gpu = gpus
                    .get(gpu)
                    .ok_or_else(|| format!("there is no GPU {gpu}"))?;
                let verified = gpu.mps.verify(group, ready, share, Some(gpu.sms));
                verified.map(drop).map_err(|e| e.to_string())
            }
        }
    }

    /// Ends the work of a job on the device before it may be killed.
    pub fn release(&self, group: i32) {
        if let Self::Cuda { gpus, .. } = self {
            for gpu in gpus {
                // It may be no client any more; then signals are all there is.
                gpu.mps.terminate_group(group).ok();
            }
        }
    }

    /// Whether the device has had a fault that hits every job.
    #[must_use]
    pub fn is_faulted(&self) -> bool {
        match self {
            Self::Cpu(_) => false,
            Self::Cuda { gpus, .. } => gpus.iter().any(|g| g.mps.is_faulted().unwrap_or(false)),
        }
    }

    /// Whether every server serves again after a fault; they can once no job runs any more.
    #[must_use]
    pub fn has_recovered(&self) -> bool {
        match self {
            Self::Cpu(_) => true,
            Self::Cuda { gpus, .. } => gpus.iter().all(|g| g.mps.recovered().is_ok()),
        }
    }

    /// Starts new daemons in place of those whose servers do not recover.
    ///
    /// # Errors
    /// In words, if no daemon can be started.
    pub fn replace_faulted(&mut self) -> Result<(), String> {
        if let Self::Cuda { gpus, .. } = self {
            for gpu in gpus.iter_mut().filter(|g| g.mps.recovered().is_err()) {
                gpu.mps = Mps::start(&gpu.options).map_err(|e| e.to_string())?;
            }
        }
        Ok(())
    }
}
