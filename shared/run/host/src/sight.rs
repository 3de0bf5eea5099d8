//! Current state of a GPU according to NVML: free memory, which processes use the rest, and whether the GPU still
//! works.

use std::collections::BTreeSet;
use std::fmt;

use jobs::{mps, process};
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::struct_wrappers::device::ProcessInfo;
use nvml_wrapper::{Device, Nvml};

/// Observes the GPUs of this machine with NVML.
#[derive(Debug)]
pub struct Sight(Nvml);

/// A GPU at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Seen {
    /// Bytes of its memory.
    pub total: u64,
    /// Bytes that can still be allocated.
    pub free: u64,
    /// The processes of all users on it, in descending order of their memory. Empty if NVML does not list them.
    pub processes: Vec<OnGpu>,
}

/// A process on a GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnGpu {
    /// Its process number.
    pub pid: u32,
    /// Name of its program. Absent if no process here has this number: it has ended while the driver still holds its
    /// memory, or it is in another process namespace, as outside of a container.
    pub name: Option<String>,
    /// Bytes of device memory that it uses; absent if the driver does not report them.
    pub bytes: Option<u64>,
}

/// Why a GPU cannot be observed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SightError {
    /// The GPU does not work until it is reset or the machine is restarted: it fell off the bus, or had an
    /// unrecoverable error.
    #[error("the GPU {uuid} is lost ({detail}); it needs a reset or a restart of the machine")]
    Lost {
        /// Its UUID.
        uuid: String,
        /// The message of NVML.
        detail: String,
    },
    /// NVML cannot be loaded, or does not answer.
    #[error("NVML reports nothing of the GPU: {0}")]
    Unknown(String),
}

impl Sight {
    /// Loads NVML. Keep the value, because loading takes up to a tenth of a second.
    ///
    /// # Errors
    /// [`SightError::Unknown`].
    pub fn open() -> Result<Self, SightError> {
        let nvml = Nvml::init().map_err(|error| SightError::Unknown(error.to_string()))?;
        Ok(Self(nvml))
    }

    /// Looks at the GPU with this UUID.
    ///
    /// # Errors
    /// [`SightError`].
    pub fn look(&self, uuid: &str) -> Result<Seen, SightError> {
        let failed = |error: NvmlError| match error {
            NvmlError::GpuLost | NvmlError::ResetRequired => SightError::Lost {
                uuid: uuid.to_owned(),
                detail: error.to_string(),
            },
            other => SightError::Unknown(other.to_string()),
        };
        let device = self.0.device_by_uuid(uuid).map_err(failed)?;
        let memory = device.memory_info().map_err(failed)?;
        let mut listed = computing(&device).unwrap_or_default();
        // Graphics processes, such as a game or a desktop, use memory too.
        merge(
            &mut listed,
            device.running_graphics_processes().unwrap_or_default(),
        );
        let mut processes: Vec<OnGpu> = listed.iter().map(OnGpu::of).collect();
        processes.sort_by_key(|process| (std::cmp::Reverse(process.bytes), process.pid));
        Ok(Seen {
            total: memory.total,
            free: memory.free,
            processes,
        })
    }

    /// The reason why a GPU has stopped working; `None` if it works, or if its state is unknown.
    #[must_use]
    pub fn lost(&self, uuid: &str) -> Option<String> {
        match self.look(uuid) {
            Err(error @ SightError::Lost { .. }) => Some(error.to_string()),
            Ok(_) | Err(SightError::Unknown(_)) => None,
        }
    }
}

/// The processes that compute on a GPU. Clients of MPS have a separate list if the driver supports it, and are
/// otherwise in the list of all computing processes.
pub(crate) fn computing(device: &Device<'_>) -> Result<Vec<ProcessInfo>, NvmlError> {
    let mut all = device.running_compute_processes()?;
    merge(
        &mut all,
        device.mps_running_compute_processes().unwrap_or_default(),
    );
    Ok(all)
}

/// Adds processes that are not listed yet.
fn merge(all: &mut Vec<ProcessInfo>, more: Vec<ProcessInfo>) {
    for process in more {
        if all.iter().all(|other| other.pid != process.pid) {
            all.push(process);
        }
    }
}

/// Device memory of a process, if the driver reports it.
pub(crate) fn held(process: &ProcessInfo) -> Option<u64> {
    match process.used_gpu_memory {
        UsedGpuMemory::Used(bytes) => Some(bytes),
        UsedGpuMemory::Unavailable => None,
    }
}

impl OnGpu {
    fn of(process: &ProcessInfo) -> Self {
        let name = i32::try_from(process.pid).map(process::name);
        Self {
            pid: process.pid,
            name: name.ok().filter(|name| !name.is_empty()),
            bytes: held(process),
        }
    }

    fn is_server(&self) -> bool {
        let name = self.name.as_deref().unwrap_or_default();
        mps::is_program_name(name)
    }
}

impl fmt::Display for OnGpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "pid {}, {name}", self.pid),
            None => write!(f, "pid {}, not of this machine or container", self.pid),
        }
    }
}

impl Seen {
    /// The processes that are not in `ours`, in descending order of their memory. MPS servers are left out, because
    /// they work for their clients, which are listed as well.
    pub fn strangers<'a>(&'a self, ours: &'a BTreeSet<u32>) -> impl Iterator<Item = &'a OnGpu> {
        let stranger = |process: &&OnGpu| !ours.contains(&process.pid) && !process.is_server();
        self.processes.iter().filter(stranger)
    }

    /// Bytes that the processes of a job use. `None` if none of them is listed, or the driver does not report their
    /// memory; then the use of the job is unknown.
    #[must_use]
    pub fn held_by(&self, job: &BTreeSet<u32>) -> Option<u64> {
        let mut own = self.processes.iter().filter(|p| job.contains(&p.pid));
        let first = own.next()?.bytes?;
        own.try_fold(first, |sum, process| Some(sum + process.bytes?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(pid: u32, name: &str, bytes: impl Into<Option<u64>>) -> OnGpu {
        OnGpu {
            pid,
            name: Some(name.to_owned()),
            bytes: bytes.into(),
        }
    }

    #[test]
    fn a_stranger_is_who_is_none_of_ours_and_no_server() {
        let seen = Seen {
            processes: vec![
                on(9, "python", 7),
                on(1, "python", 5),
                on(2, "python", 3),
                on(3, "nvidia-cuda-mps", 1),
                on(4, "Xorg", None),
            ],
            ..Seen::default()
        };
        let ours = BTreeSet::from([1, 2]);
        let strangers: Vec<u32> = seen.strangers(&ours).map(|process| process.pid).collect();
        assert_eq!(strangers, [9, 4]);
        assert_eq!(seen.held_by(&ours), Some(8));
        assert_eq!(seen.held_by(&BTreeSet::from([2])), Some(3));
        assert_eq!(seen.held_by(&BTreeSet::from([2, 4])), None);
        assert_eq!(seen.held_by(&BTreeSet::from([7])), None);
        assert_eq!(seen.processes[0].to_string(), "pid 9, python");
    }
}
