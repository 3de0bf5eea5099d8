//! Real processes under CPU quotas.
//!
//! A share R becomes a quota of R % of the cores that this process may use. The quota applies across all of them, so
//! jobs are not pinned. A quota change takes effect at once.

use std::fs;

use doc::{DeviceFingerprint, DeviceKind};
use jobs::cgroup::{Cgroups, Group, Version, cores};
use jobs::{JobSpec, RunDir};
use units::{Share, TaskId};

use crate::processes::{Admitted, Processes, Shares};
use crate::{Grant, HostError, OpenError, Regrants, Settled};

/// Processes of this machine under CPU quotas.
pub type ControlGroups = Processes<Quotas>;

/// The control groups of a run.
#[derive(Debug)]
pub struct Quotas {
    groups: Cgroups,
    /// Number of equal parts of the processors; each stands for a GPU.
    parts: usize,
}

impl ControlGroups {
    /// Opens this machine's processors.
    ///
    /// # Errors
    /// [`OpenError::Environment`] with advice if no control group can be written.
    pub fn open(run: RunDir) -> Result<Self, OpenError> {
        Self::open_divided(run, 1)
    }

    /// Opens this machine's processors as `parts` devices, at least 1: a share of 100 % of a device is a quota of one
    /// part of the cores. If a task has jobs on several devices, each job has its own group.
    ///
    /// # Errors
    /// Like [`ControlGroups::open`].
    pub fn open_divided(mut run: RunDir, parts: usize) -> Result<Self, OpenError> {
        let groups =
            Cgroups::create(&mut run).map_err(|e| OpenError::environment(DeviceKind::Cpu, e))?;
        Processes::new(Quotas { groups, parts }, run)
    }
}

impl Quotas {
    /// Sets the quota of the group for a grant; the group is created if it does not exist.
    fn group(&self, task: &TaskId, grant: &Grant, share: Share) -> Result<Group, HostError> {
        let numbers = grant.gpus.numbers();
        // A standby job for the same part needs its own group, because all processes in a group are killed when its job
        // ends.
        let name = match (self.parts, grant.start) {
            (1, 0) => task.to_string(),
            _ => format!("{task}.{}.{}", numbers[0], grant.start),
        };
        let parts = share.hundredths() as usize * numbers.len() / self.parts;
        // At least the smallest share, because a quota of zero would stop the job.
        let part = Share::from_hundredths(u32::try_from(parts.max(1)).unwrap_or(u32::MAX));
        Ok(self.groups.group(&name, part)?)
    }
}

impl Shares for Quotas {
    fn kind(&self) -> DeviceKind {
        DeviceKind::Cpu
    }

    fn fingerprint(&self) -> DeviceFingerprint {
        cpu_fingerprint(&self.groups)
    }

    fn regrants(&self) -> Regrants {
        Regrants::Now
    }

    fn devices(&self) -> Vec<String> {
        vec!["cpu".to_owned()]
    }

    /// A job with a pool worker may use the whole machine until it is settled, when profiled as well as when launched:
    /// many programs choose their number of threads by the quota at their start.
    fn prepare(&self, spec: &mut JobSpec, pool: bool, grant: &Grant) -> Result<(), HostError> {
        if grant.memory.is_some() {
            return Err(HostError::NoMemoryLimit);
        }
        if let Some(gpu) = grant.gpus.beyond(self.parts) {
            return Err(HostError::NoGpu { gpu });
        }
        let at_first = if pool { Share::FULL } else { grant.share };
        let group = self.group(&spec.task, grant, at_first)?;
        spec.cgroup_procs = Some(group.procs());
        spec.cpus.clone_from(&grant.processors);
        Ok(())
    }

    fn settle(&self, job: &Admitted) -> Result<Settled, HostError> {
        self.regrant(job, job.grant.share)?;
        Ok(Settled::default())
    }

    fn regrant(&self, job: &Admitted, share: Share) -> Result<(), HostError> {
        self.group(&job.task, &job.grant, share)?;
        Ok(())
    }
}

/// Description of this machine's processors, for documents.
#[must_use]
pub fn cpu_fingerprint(cgroups: &Cgroups) -> DeviceFingerprint {
    // Both texts are only displayed, so it does no harm if they are missing.
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let version = match cgroups.version() {
        Version::V1 => 1,
        Version::V2 => 2,
    };
    processors(Some(format!("Linux {}, cgroup v{version}", kernel.trim())))
}

/// The processors of this machine.
pub(crate) fn processors(detail: Option<String>) -> DeviceFingerprint {
    DeviceFingerprint {
        kind: DeviceKind::Cpu,
        name: processor_name(),
        simulated: false,
        units: u32::try_from(cores()).ok(),
        detail,
        noise_percent: None,
    }
}

/// Name of the processor, from `/proc/cpuinfo`.
pub(crate) fn processor_name() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = info.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == "model name").then(|| value.trim().to_owned())
    });
    name.unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}
