//! Real processes under CPU quotas.
//!
//! A share R is a quota of R % of the cores that this process may use, over all of them: jobs are
//! not pinned. A quota changes at once.

use std::fs;

use doc::{DeviceFingerprint, DeviceKind};
use jobs::cgroup::{Cgroups, Version};
use jobs::{JobSpec, RunDir};
use units::Share;

use crate::processes::{Admitted, Processes, Shares};
use crate::{Grant, Health, HostError, OpenError, Recovery, Regrants, Settled, Work};

/// Processes of this machine under CPU quotas.
pub type ControlGroups = Processes<Quotas>;

/// The control groups of a run.
#[derive(Debug)]
pub struct Quotas(Cgroups);

impl ControlGroups {
    /// Opens this machine's processors.
    ///
    /// # Errors
    /// [`OpenError::Environment`] where no control group can be written, with what to do.
    pub fn open(mut run: RunDir) -> Result<Self, OpenError> {
        let groups = Cgroups::create(&mut run);
        let groups = groups.map_err(|e| OpenError::environment(DeviceKind::Cpu, e))?;
        Processes::new(Quotas(groups), run)
    }
}

impl Shares for Quotas {
    const KIND: DeviceKind = DeviceKind::Cpu;

    fn fingerprint(&self) -> DeviceFingerprint {
        cpu_fingerprint(&self.0)
    }

    fn regrants(&self) -> Regrants {
        Regrants::Now
    }

    /// A job that can be kept in a pool may use the whole machine until it is settled, whether it
    /// is profiled or launched: many programs choose their number of threads by the quota that
    /// they find when they start.
    fn prepare(&self, spec: &mut JobSpec, work: &Work<'_>, grant: &Grant) -> Result<(), HostError> {
        if grant.memory.is_some() {
            return Err(HostError::NoMemoryLimit);
        }
        if let Some(&gpu) = grant.gpus.iter().find(|gpu| **gpu > 0) {
            return Err(HostError::NoGpu { gpu });
        }
        let pool = work.task.job.as_ref().is_some_and(|job| job.pool);
        let at_first = if pool { Share::FULL } else { grant.share };
        let group = self.0.group(spec.task.as_str(), at_first)?;
        spec.cgroup_procs = Some(group.procs());
        spec.cpus.clone_from(&grant.processors);
        Ok(())
    }

    fn settle(&self, job: &Admitted) -> Result<Settled, HostError> {
        self.regrant(job, job.grant.share)?;
        Ok(Settled::default())
    }

    fn regrant(&self, job: &Admitted, share: Share) -> Result<(), HostError> {
        self.0.group(job.task.as_str(), share)?;
        Ok(())
    }

    fn release(&self, _: &Admitted) {}

    fn health(&self) -> Health {
        Health::Good
    }

    fn recover(&mut self) -> Result<Recovery, HostError> {
        Ok(Recovery::Recovered)
    }
}

/// What this machine's processors are, for documents.
#[must_use]
pub fn cpu_fingerprint(cgroups: &Cgroups) -> DeviceFingerprint {
    // Neither text is needed for anything but to be shown, so none is a good answer.
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let version = match cgroups.version() {
        Version::V1 => 1,
        Version::V2 => 2,
    };
    DeviceFingerprint {
        kind: DeviceKind::Cpu,
        name: processor_name(),
        simulated: false,
        units: u32::try_from(cgroups.cores()).ok(),
        detail: Some(format!("Linux {}, cgroup v{version}", kernel.trim())),
        noise_percent: None,
    }
}

/// Name of the processor, as the kernel tells it.
fn processor_name() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = info.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == "model name").then(|| value.trim().to_owned())
    });
    name.unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}
