//! Runs programs unchanged, without shares, each on the GPUs that it chooses itself. One MPS daemon serves all GPUs, so
//! that programs can share them.

use doc::{DeviceFingerprint, DeviceKind};
use jobs::JobSpec;
use jobs::mps::MpsError;

use crate::cgroups::processors;
use crate::mps::{Daemons, MpsSetup};
use crate::processes::{Processes, Shares};
use crate::{Gpus, Grant, Health, HostError, Recovery, Regrants};

/// Processes that share a machine.
pub type CommonHost = Processes<Common>;

/// The daemon of all GPUs.
#[derive(Debug, Default)]
pub struct Common {
    /// Absent if no GPU can be shared.
    daemon: Option<Daemons>,
}

impl Common {
    /// Starts a daemon for the GPUs of `setup`.
    ///
    /// # Errors
    /// If the daemon does not start.
    pub fn under_mps(setup: MpsSetup) -> Result<Self, MpsError> {
        let daemon = Daemons::start_all(MpsSetup {
            together: true,
            ..setup
        })?;
        Ok(Self {
            daemon: Some(daemon),
        })
    }

    /// The grant of every program: all devices, without limits.
    #[must_use]
    pub fn grant(&self) -> Grant {
        let count = self.daemon.as_ref().map_or(1, |daemon| daemon.all().len());
        let one = Grant::of(units::Share::FULL);
        Grant {
            gpus: Gpus::of(&(0..count).collect::<Vec<_>>()).unwrap_or_else(|| one.gpus.clone()),
            ..one
        }
    }
}

impl Shares for Common {
    fn kind(&self) -> DeviceKind {
        match self.daemon {
            Some(_) => DeviceKind::Cuda,
            None => DeviceKind::Cpu,
        }
    }

    fn fingerprint(&self) -> DeviceFingerprint {
        let daemon = self.daemon.as_ref();
        daemon.map_or_else(|| processors(None), Shares::fingerprint)
    }

    fn regrants(&self) -> Regrants {
        Regrants::NextStart
    }

    fn devices(&self) -> Vec<String> {
        let daemon = self.daemon.as_ref();
        daemon.map_or_else(|| vec!["cpu".to_owned()], Shares::devices)
    }

    fn prepare(&self, spec: &mut JobSpec, pool: bool, grant: &Grant) -> Result<(), HostError> {
        let Some(daemon) = &self.daemon else {
            return Ok(());
        };
        let own = spec.env.clone();
        daemon.prepare(spec, pool, grant)?;
        // The program's own choice of GPUs takes precedence.
        spec.env.extend(own);
        Ok(())
    }

    fn health(&self) -> Health {
        self.daemon.as_ref().map_or(Health::Good, Shares::health)
    }

    fn recover(&mut self, gpus: &Gpus) -> Result<Recovery, HostError> {
        match &mut self.daemon {
            Some(daemon) => daemon.recover(gpus),
            None => Ok(Recovery::Recovered),
        }
    }
}
