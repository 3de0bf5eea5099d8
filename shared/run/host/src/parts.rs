//! Devices of a schedule: parts of the processors of different sizes, GPUs by UUID, or GPUs that a prefix command
//! finds.

use std::path::PathBuf;

use doc::{DeviceFingerprint, DeviceKind};
use jobs::cgroup::Cgroups;
use jobs::{JobSpec, RunDir};
use units::Share;

use crate::processes::{Processes, Shares};
use crate::{Grant, HostError, OpenError, Regrants};

/// Confines the jobs of a schedule to their devices.
#[derive(Debug)]
pub struct Parts {
    kind: DeviceKind,
    name: String,
    confine: Confine,
    /// Names of the devices, so that programs that use the same ones learn about each other.
    devices: Vec<String>,
    count: usize,
}

/// How a job is confined to its GPU.
#[derive(Debug)]
enum Confine {
    /// To a part of the processors, by a control group that is named after the part. `together`: concurrent jobs on one
    /// part share its quota, instead of each having the quota.
    Group {
        groups: Cgroups,
        parts: Vec<(String, Share)>,
        together: bool,
    },
    /// Not confined, because no control group can be written.
    Free,
    /// To a GPU, which is the only one that the job sees.
    Uuid(Vec<String>),
    /// By a prefix program that runs the command of the job. This program may start processes that several jobs share:
    /// a daemon of `mt-launch exec` ends with its last client, and not with the job that needed it first.
    Prefix,
}

impl Processes<Parts> {
    /// Named parts of this machine's processors, each with its share of the whole. The returned text is the reason if
    /// jobs cannot be confined to them.
    ///
    /// # Errors
    /// As [`Processes::new`].
    pub fn parts(
        parts: Vec<(String, Share)>,
        together: bool,
        mut run: RunDir,
    ) -> Result<(Self, Option<String>), OpenError> {
        let count = parts.len();
        let (confine, note) = match Cgroups::create(&mut run) {
            Ok(groups) => {
                let confine = Confine::Group {
                    groups,
                    parts,
                    together,
                };
                (confine, None)
            }
            Err(error) => {
                let note = format!("tasks are not confined to parts of the machine: {error}");
                (Confine::Free, Some(note))
            }
        };
        let own = Parts {
            kind: DeviceKind::Cpu,
            name: format!("{count} parts of this machine's processors"),
            confine,
            devices: vec!["cpu".to_owned()],
            count,
        };
        Ok((Self::new(own, run)?, note))
    }

    /// GPUs of this machine without MPS, by UUID, for jobs with one GPU each.
    ///
    /// # Errors
    /// As [`Processes::new`].
    pub fn whole(uuids: Vec<String>, run: RunDir) -> Result<Self, OpenError> {
        let count = uuids.len();
        let own = Parts {
            kind: DeviceKind::Cuda,
            name: format!("{count} GPUs of this machine"),
            devices: uuids.clone(),
            confine: Confine::Uuid(uuids),
            count,
        };
        Self::new(own, run)
    }

    /// `count` GPUs that the program `prefix` finds; every command already contains this prefix.
    ///
    /// # Errors
    /// As [`Processes::new`].
    pub fn behind(prefix: &str, count: usize, run: RunDir) -> Result<Self, OpenError> {
        let own = Parts {
            kind: DeviceKind::Cuda,
            name: format!("{count} GPUs via {prefix}"),
            confine: Confine::Prefix,
            devices: Vec::new(),
            count,
        };
        Self::new(own, run)
    }
}

impl Parts {
    /// `cgroup.procs` of the group of the job with number `slot` on this GPU.
    fn procs(&self, gpu: usize, slot: u32) -> Result<Option<PathBuf>, HostError> {
        let Confine::Group {
            groups,
            parts,
            together,
        } = &self.confine
        else {
            return Ok(None);
        };
        let (name, share) = &parts[gpu];
        let group = match together {
            true => groups.group_below(name, *share, &slot.to_string()),
            false => groups.group(&format!("{name}.{slot}"), *share),
        };
        Ok(Some(group?.procs()))
    }
}

impl Shares for Parts {
    fn kind(&self) -> DeviceKind {
        self.kind
    }

    fn fingerprint(&self) -> DeviceFingerprint {
        DeviceFingerprint {
            kind: self.kind,
            name: self.name.clone(),
            simulated: false,
            units: u32::try_from(self.count).ok(),
            detail: None,
            noise_percent: None,
        }
    }

    fn regrants(&self) -> Regrants {
        Regrants::NextStart
    }

    fn devices(&self) -> Vec<String> {
        self.devices.clone()
    }

    fn contains(&self) -> bool {
        !matches!(self.confine, Confine::Prefix)
    }

    fn prepare(&self, spec: &mut JobSpec, _: bool, grant: &Grant) -> Result<(), HostError> {
        if grant.memory.is_some() {
            return Err(HostError::NoMemoryLimit);
        }
        let gpu = grant.gpus.numbers()[0];
        if gpu >= self.count {
            return Err(HostError::NoGpu { gpu });
        }
        spec.cgroup_procs = self.procs(gpu, grant.start)?;
        if let Confine::Uuid(uuids) = &self.confine {
            let uuid = uuids[gpu].as_str();
            spec.env.insert("CUDA_VISIBLE_DEVICES".into(), uuid.into());
        }
        spec.cpus.clone_from(&grant.processors);
        Ok(())
    }
}
