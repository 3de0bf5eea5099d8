use doc::{Code, DeviceKind, Fault};
use gpusim::TaskError;
use jobs::cgroup::CgroupError;
use jobs::mps::MpsError;
use jobs::{ProgressError, SpawnError};
use units::Bytes;

use crate::Gpus;

/// Errors of a host.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The program cannot be started.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// The task's progress expression cannot be used.
    #[error(transparent)]
    Progress(#[from] ProgressError),
    /// A control group cannot be created or changed.
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
    /// MPS refused a command, or the job is not an MPS client with its share.
    #[error(transparent)]
    Mps(#[from] MpsError),
    /// The simulated GPU cannot run the job.
    #[error(transparent)]
    Sim(#[from] SimError),
    /// The grant refers to a GPU that the host does not have.
    #[error("there is no GPU {gpu}")]
    NoGpu {
        /// Its number.
        gpu: usize,
    },
    /// The grant refers to GPUs with separate MPS daemons, but a process is a client of one daemon.
    #[error(
        "a job cannot have the GPUs {gpus} together: each has an MPS daemon of its own; open the \
         host with one daemon for all"
    )]
    Apart {
        /// GPUs of the grant.
        gpus: Gpus,
    },
    /// The grant refers to several GPUs for a simulated job.
    #[error(
        "a simulated job runs on one GPU, not on {gpus}: the simulator has no transfers between GPUs"
    )]
    OneSimulated {
        /// GPUs of the grant.
        gpus: Gpus,
    },
    /// The grant limits memory, which this host cannot enforce.
    #[error("this host cannot limit the memory of a job; grant any")]
    NoMemoryLimit,
    /// No control group can be created for shares of the processors.
    #[error("shares of the processors are not enforced: {0}")]
    NoGroups(CgroupError),
    /// The host runs only tasks of a workload, and no other programs.
    #[error("this host starts no program that is not a task of its workload")]
    NoPrograms,
    /// The job has ended.
    #[error("it has ended")]
    Ended,
    /// A daemon that somebody else started has a fault and does not recover.
    #[error("the MPS daemon attached to has a fault and does not recover; restart it")]
    AttachedFault,
    /// The GPU does not work any more.
    #[error("{0}")]
    GpuLost(String),
}

impl HostError {
    /// Whether the error concerns only this job, so that the host can still run others.
    #[must_use]
    pub fn is_of_the_job(&self) -> bool {
        match self {
            Self::Spawn(_) | Self::Progress(_) | Self::Sim(_) | Self::Ended => true,
            Self::Cgroup(_)
            | Self::Mps(_)
            | Self::NoGpu { .. }
            | Self::Apart { .. }
            | Self::OneSimulated { .. }
            | Self::NoMemoryLimit
            | Self::NoGroups(_)
            | Self::NoPrograms
            | Self::AttachedFault
            | Self::GpuLost(_) => false,
        }
    }
}

/// Why the simulated GPU cannot run a configuration.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// The tasks need more memory than the GPU has.
    #[error(
        "out of memory: the tasks need {:.2} GB of the GPU's {:.2} GB",
        need_bytes * 1e-9,
        memory.get() as f64 * 1e-9
    )]
    OutOfMemory {
        /// Memory that the tasks need.
        need_bytes: f64,
        /// Memory of the GPU.
        memory: Bytes,
    },
    /// A task cannot be compiled to kernels.
    #[error(transparent)]
    Task(#[from] TaskError),
    /// A task that the workload does not have.
    #[error("task {task:?} is not one of the workload that the simulator was opened with")]
    UnknownTask {
        /// Its name.
        task: String,
    },
    /// The steps of the tasks differ so much in duration that no window covers all of them.
    #[error(
        "the steps of the tasks differ by too many orders of magnitude to be simulated together"
    )]
    Uneven,
    /// A job whose batch size is unknown.
    #[error("a simulated job needs a batch size")]
    NoBatch,
    /// A job that is too long for virtual time.
    #[error(
        "it would take {seconds:.0e} s, which the simulator's clock cannot count; look at the samples \
         and FLOPs of the task, or at the bytes and the bandwidth of its transfer"
    )]
    TooLong {
        /// How long it would take.
        seconds: f64,
    },
    /// A job never ends, and virtual time cannot wait for it.
    #[error("task {task:?} has no number of samples to stop after, which the simulator needs")]
    Endless {
        /// Its name.
        task: String,
    },
}

/// Why a host could not be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The machine does not support the device: no GPU, no permission, or no daemon. The message says what to do.
    #[error("the {kind} device cannot be used here: {reason}", kind = word(*kind))]
    Environment {
        /// Which device.
        kind: DeviceKind,
        /// The reason, and what to do.
        reason: String,
    },
    /// The workload lacks something that the device needs, or requests something impossible; the path is one in the
    /// workload.
    #[error("{0}")]
    Workload(Fault),
}

impl OpenError {
    /// An error of the machine.
    #[must_use]
    pub fn environment(kind: DeviceKind, reason: impl ToString) -> Self {
        Self::Environment {
            kind,
            reason: reason.to_string(),
        }
    }

    /// An error of the workload at `path`, for example `$.tasks[0].model`.
    #[must_use]
    pub fn workload(code: Code, path: &str, problem: String, advice: &str) -> Self {
        Self::Workload(Fault {
            code,
            path: path.to_owned(),
            problem,
            advice: advice.to_owned(),
        })
    }
}

/// Name of a device kind in documents, arguments and `MT_DEVICE`.
#[must_use]
pub const fn word(kind: DeviceKind) -> &'static str {
    match kind {
        DeviceKind::Auto => "auto",
        DeviceKind::Sim => "sim",
        DeviceKind::Cpu => "cpu",
        DeviceKind::Cuda => "cuda",
        DeviceKind::Replay => "replay",
    }
}
