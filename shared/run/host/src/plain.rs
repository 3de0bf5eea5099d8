//! Real processes for machines without a writable control group: shares are not enforced.
//!
//! A share becomes the number of threads in `OMP_NUM_THREADS`, at least one, which most numerical
//! libraries respect. This suffices to move trainings between parts of a machine, but not for
//! measurements, so the profiler does not use it.

use doc::{DeviceFingerprint, DeviceKind};
use jobs::cgroup::cores;
use jobs::{JobSpec, RunDir};

use crate::cgroups::processors;
use crate::processes::{Processes, Shares};
use crate::{Grant, HostError, OpenError, Regrants};

/// Processes of this machine that are asked to respect their shares.
pub type PlainProcesses = Processes<Plain>;

/// Converts shares to numbers of threads.
#[derive(Debug)]
pub struct Plain {
    /// Number of equal parts of the processors; each stands for a GPU.
    parts: usize,
}

/// The variable for the number of threads (OpenMP 5.2, section 21.1).
const THREADS: &str = "OMP_NUM_THREADS";

impl PlainProcesses {
    /// Opens this machine's processors as `parts` devices, at least 1.
    ///
    /// # Errors
    /// [`OpenError::Environment`] if processes cannot be supervised.
    pub fn open(run: RunDir, parts: usize) -> Result<Self, OpenError> {
        Processes::new(Plain { parts }, run)
    }
}

impl Plain {
    /// Number of threads for a grant on `cores`.
    fn threads(&self, grant: &Grant, cores: usize) -> usize {
        let part = grant.share.fraction() * grant.gpus.numbers().len() as f64 / self.parts as f64;
        ((cores as f64 * part).round() as usize).max(1)
    }
}

impl Shares for Plain {
    fn kind(&self) -> DeviceKind {
        DeviceKind::Cpu
    }

    fn fingerprint(&self) -> DeviceFingerprint {
        processors(Some("shares are asked for and not enforced".to_owned()))
    }

    fn regrants(&self) -> Regrants {
        Regrants::NextStart
    }

    fn devices(&self) -> Vec<String> {
        vec!["cpu".to_owned()]
    }

    fn prepare(&self, spec: &mut JobSpec, _: bool, grant: &Grant) -> Result<(), HostError> {
        if grant.memory.is_some() {
            return Err(HostError::NoMemoryLimit);
        }
        if let Some(gpu) = grant.gpus.beyond(self.parts) {
            return Err(HostError::NoGpu { gpu });
        }
        let threads = self.threads(grant, cores()).to_string();
        // A setting in the workload takes precedence.
        spec.env
            .entry(THREADS.into())
            .or_insert_with(|| threads.into());
        spec.cpus.clone_from(&grant.processors);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use units::Share;

    use super::*;
    use crate::Gpus;

    #[test]
    fn threads_follow_the_part_of_the_machine_and_are_never_none() {
        let plain = Plain { parts: 4 };
        let threads = |gpus: usize, cores| {
            let grant = Grant {
                gpus: Gpus::of(&(0..gpus).collect::<Vec<_>>()).unwrap(),
                ..Grant::of(Share::FULL)
            };
            plain.threads(&grant, cores)
        };
        assert_eq!(threads(1, 16), 4);
        assert_eq!(threads(3, 16), 12);
        assert_eq!(threads(1, 2), 1);
        assert_eq!(threads(4, 2), 2);
    }
}
