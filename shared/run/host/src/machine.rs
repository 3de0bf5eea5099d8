//! All devices of this machine: each of its GPUs, and its processors.
//!
//! Devices are numbered: the GPUs in the order in which they are given, then the processors. A GPU gets its own MPS
//! daemon when the first job shares it. So a fault affects only one GPU, and an unused GPU has no daemon. A job that
//! has whole GPUs is no client of MPS.

use std::ffi::OsString;
use std::time::Duration;

use doc::{DeviceFingerprint, DeviceKind};
use jobs::cgroup::{Cgroups, cores};
use jobs::{JobSpec, RunDir};
use units::Share;

use crate::cgroups::processor_name;
use crate::discovery::Gpu;
use crate::mps::{Daemons, MpsSetup};
use crate::processes::{Processes, Shares};
use crate::{Gpus, Grant, Health, HostError, OpenError, Recovery, Regrants};

/// Processes on all devices of this machine.
pub type WholeMachine = Processes<Machine>;

/// The devices of a machine.
#[derive(Debug)]
pub struct Machine {
    /// Absent without a GPU.
    gpus: Option<Daemons>,
    /// Control groups of jobs with a part of the processors; created for the first such job. Only these jobs are in a
    /// group of the cpu controller: the kernel first divides time between such groups and then within them, and
    /// trainings whose threads wake each other thousands of times a second took 17 % longer in such a group.
    groups: Option<Cgroups>,
}

impl WholeMachine {
    /// Opens the GPUs of `setup`, if there are any, and the processors. `look`: maximum wait of a poll.
    ///
    /// # Errors
    /// As [`Processes::new`].
    pub fn open(setup: Option<MpsSetup>, look: Duration, run: RunDir) -> Result<Self, OpenError> {
        let own = Machine {
            gpus: setup.map(Daemons::without),
            groups: None,
        };
        let mut host = Self::new(own, run)?;
        host.look_every(look);
        Ok(host)
    }
}

impl Machine {
    fn gpus(&self) -> &[Gpu] {
        self.gpus.as_ref().map_or(&[], Daemons::all)
    }

    /// Whether the jobs of a grant are clients of MPS.
    fn is_shared(&self, grant: &Grant) -> Result<bool, HostError> {
        let count = self.gpus().len();
        if let Some(gpu) = grant.gpus.beyond(count + 1) {
            return Err(HostError::NoGpu { gpu });
        }
        match grant.gpus.only() {
            _ if grant.whole => Ok(false),
            Some(device) => Ok(device < count),
            None => Err(HostError::Apart {
                gpus: grant.gpus.clone(),
            }),
        }
    }

    /// UUIDs of the GPUs of a grant.
    fn uuids(&self, grant: &Grant) -> String {
        let numbers = grant.gpus.numbers().iter();
        let gpus = numbers.filter_map(|&device| self.gpus().get(device));
        gpus.map(|gpu| gpu.uuid.as_str())
            .collect::<Vec<_>>()
            .join(",")
    }

    /// Whether a grant consists of a part of the processors only.
    fn is_part(&self, grant: &Grant) -> bool {
        grant.share < Share::FULL && grant.gpus.only() == Some(self.gpus().len())
    }
}

impl Shares for Machine {
    fn kind(&self) -> DeviceKind {
        match self.gpus().is_empty() {
            true => DeviceKind::Cpu,
            false => DeviceKind::Cuda,
        }
    }

    fn fingerprint(&self) -> DeviceFingerprint {
        let mut names: Vec<&str> = self.gpus().iter().map(|gpu| gpu.name.as_str()).collect();
        let processors = processor_name();
        names.push(&processors);
        DeviceFingerprint {
            kind: self.kind(),
            name: names.join(", "),
            simulated: false,
            units: u32::try_from(cores()).ok(),
            detail: None,
            noise_percent: None,
        }
    }

    fn regrants(&self) -> Regrants {
        Regrants::NextStart
    }

    fn devices(&self) -> Vec<String> {
        let gpus = self.gpus().iter().map(|gpu| gpu.uuid.clone());
        gpus.chain(["cpu".to_owned()]).collect()
    }

    fn open(&mut self, grant: &Grant, run: &mut RunDir) -> Result<(), HostError> {
        if self.is_shared(grant)?
            && let (Some(gpus), Some(gpu)) = (&mut self.gpus, grant.gpus.only())
        {
            gpus.serve(gpu)?;
        }
        if self.is_part(grant) && self.groups.is_none() {
            self.groups = Some(Cgroups::create(run).map_err(HostError::NoGroups)?);
        }
        Ok(())
    }

    fn prepare(&self, spec: &mut JobSpec, _: bool, grant: &Grant) -> Result<(), HostError> {
        if grant.memory.is_some() {
            return Err(HostError::NoMemoryLimit);
        }
        if grant.whole {
            spec.env
                .retain(|name, _| !name.to_string_lossy().starts_with("CUDA_MPS_"));
        }
        spec.env.extend(self.lend(grant)?);
        if let Some(groups) = self.groups.as_ref().filter(|_| self.is_part(grant)) {
            // All processes in a group are killed when its job ends, so the next job with this number finds an empty
            // group.
            let group = groups.group(&format!("place-{}", grant.start), grant.share)?;
            spec.cgroup_procs = Some(group.procs());
        }
        spec.cpus.clone_from(&grant.processors);
        Ok(())
    }

    fn lend(&self, grant: &Grant) -> Result<Vec<(OsString, OsString)>, HostError> {
        let mut env = match (self.is_shared(grant)?, &self.gpus) {
            (true, Some(gpus)) => gpus.client(grant)?,
            _ => Vec::new(),
        };
        let uuids = self.uuids(grant);
        if !uuids.is_empty() {
            env.push(("CUDA_VISIBLE_DEVICES".into(), uuids.into()));
        }
        Ok(env)
    }

    fn health(&self) -> Health {
        self.gpus.as_ref().map_or(Health::Good, Daemons::health)
    }

    fn recover(&mut self, gpus: &Gpus) -> Result<Recovery, HostError> {
        match &mut self.gpus {
            Some(daemons) => daemons.recover(gpus),
            None => Ok(Recovery::Recovered),
        }
    }
}
