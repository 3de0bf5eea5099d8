//! The devices of a queue: the GPUs of this machine that MPS can share, or its processors.

use std::time::Duration;

use host::discovery::{self, Gpu};
use host::{MpsSetup, WholeMachine};
use jobs::cgroup::cores;
use jobs::mps::MpsOptions;
use jobs::{Ram, RunDir};

use crate::book::{Group, QueuedJob, Wishes};
use crate::choice::{Choice, Numbers};
use crate::devices::{CPU, Device};
use crate::policy::Limits;

/// The devices of a server.
#[derive(Debug)]
pub struct ServerDevices {
    gpus: Vec<Gpu>,
    /// The GPUs, then the processors.
    pub devices: Vec<Device>,
    /// The GPU numbers of this server.
    numbers: Numbers,
    /// Name of the devices in messages.
    pub name: String,
}

/// Maximum number of jobs per processor. If trainings wait for data or for a disk nine tenths of the time, this many
/// keep a processor busy four fifths of the time.
const PER_CORE: usize = 16;

impl ServerDevices {
    /// Finds the processors and, unless `cpu` is set, the GPUs that MPS can share.
    #[must_use]
    pub fn find(cpu: bool) -> Self {
        let gpus = match cpu {
            true => Vec::new(),
            false => discovery::shareable(&[], 1).unwrap_or_default(),
        };
        let seen = match discovery::discover() {
            Ok(all) if !gpus.is_empty() => all.into_iter().map(|gpu| gpu.uuid).collect(),
            _ => gpus.iter().map(|gpu| gpu.uuid.clone()).collect(),
        };
        let of_gpu = |gpu: &Gpu| Device {
            id: gpu.uuid.clone(),
            kind: gpu.name.clone(),
            total: gpu.memory.get(),
            clients: discovery::client_limit(gpu.cuda_version),
            cores: None,
        };
        let processors = Device {
            id: CPU.to_owned(),
            kind: format!("{} processors", cores()),
            total: Ram::now().total,
            clients: (PER_CORE * cores()).max(8),
            cores: Some(cores()),
        };
        let mut devices: Vec<Device> = gpus.iter().map(of_gpu).collect();
        devices.push(processors);
        Self {
            name: name(&devices),
            devices,
            numbers: Numbers::of_this_process(seen),
            gpus,
        }
    }

    /// Opens the devices.
    ///
    /// # Errors
    /// If processes cannot be supervised, or MPS cannot be controlled.
    pub fn open(&self, look: Duration, run: RunDir) -> Result<WholeMachine, String> {
        let setup = match self.gpus.is_empty() {
            true => None,
            false => {
                let mps = MpsOptions::from_environment().map_err(|e| e.to_string())?;
                Some(MpsSetup::new(self.gpus.clone(), mps))
            }
        };
        WholeMachine::open(setup, look, run).map_err(|e| e.to_string())
    }

    /// The devices that a job restricts itself to: the GPUs that it chooses, or the processors if it chooses no GPU;
    /// `None` if it makes no choice.
    ///
    /// # Errors
    /// A message with the choice of the job and the devices of the queue.
    pub(crate) fn only(
        &self,
        group: &Group,
        job: &QueuedJob,
    ) -> Result<Option<Vec<String>>, String> {
        if self.gpus.is_empty() {
            return Ok(None);
        }
        let choice = Choice::of(|name| job.set.get(name).or_else(|| group.env.get(name)));
        let uuids: Vec<&str> = self.gpus.iter().map(|gpu| gpu.uuid.as_str()).collect();
        let chosen = choice.among(&uuids, &self.numbers)?;
        Ok(chosen.map(|chosen| match chosen.is_empty() {
            true => vec![CPU.to_owned()],
            false => chosen.iter().map(|&at| uuids[at].to_owned()).collect(),
        }))
    }

    /// Limits for all devices, from the user's settings.
    #[must_use]
    pub fn limits(&self, wishes: &Wishes) -> Limits {
        let clients = self.devices.iter().map(|device| device.clients).sum();
        Limits {
            most: wishes.most.unwrap_or(clients).min(clients),
            memory: wishes.memory,
        }
    }
}

/// The models of the GPUs, or the processors if there is no GPU: jobs that make no choice run on GPUs.
fn name(devices: &[Device]) -> String {
    let mut names: Vec<(&str, usize)> = Vec::new();
    for device in devices {
        let is_extra = device.cores.is_some() && devices.len() > 1;
        match names.last_mut() {
            _ if is_extra => {}
            Some((name, count)) if *name == device.kind => *count += 1,
            _ => names.push((&device.kind, 1)),
        }
    }
    let told = names.into_iter().map(|(name, count)| match count {
        1 => name.to_owned(),
        _ => format!("{count} x {name}"),
    });
    told.collect::<Vec<_>>().join(", ")
}
