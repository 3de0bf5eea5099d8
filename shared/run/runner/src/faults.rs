//! Faults of the device: every job on it is ended, and the device is recovered before another starts.

use std::fmt;

use doc::EventPayload;
use host::{Health, Recovery};

use crate::device::Device;
use crate::happened::Stop;
use crate::policy::Policy;
use crate::runner::Runner;
use crate::watch::Ending;

impl<K: Copy + Ord + fmt::Debug> Runner<'_, K> {
    /// After a failure. A fault of an MPS server affects every job on it, and says nothing about them.
    pub(crate) fn look_for_fault(&mut self, policy: &mut dyn Policy<Key = K>, cause: K) {
        if self.device != Device::Good || self.is_stopping() {
            return;
        }
        match self.host.health() {
            Health::Faulted => {}
            // If the device cannot be asked, its jobs show whether it works.
            Health::Good | Health::Unknown(_) => return,
        }
        self.device = Device::Faulted;
        self.tell(EventPayload::Fault {
            round: policy.round(),
            task: Some(policy.task(cause)),
            reason: "the MPS server faulted; every job is stopped".to_owned(),
        });
        let computing = self.running.iter().filter(|(_, w)| w.on_device);
        let mut computing: Vec<_> = computing.map(|(&job, w)| (w.key, job)).collect();
        computing.sort_unstable();
        for (_, job) in computing {
            self.end(job, Ending::Fault, self.supervision().grace);
        }
    }

    /// After a fault, when the jobs have gone: checks whether the device has recovered, and recovers it when its time
    /// is over.
    pub(crate) fn recover(&mut self, policy: &mut dyn Policy<Key = K>) {
        let used = self.running.values().any(|w| w.on_device);
        if self.device != Device::Faulted || self.is_stopping() || used {
            return;
        }
        let recovered = match self.host.recover() {
            Ok(Recovery::Pending) => return,
            Ok(Recovery::Recovered) => Ok("the MPS server has recovered"),
            Ok(Recovery::Replaced) => Ok("the MPS daemon was replaced"),
            Err(error) => Err(error.to_string()),
        };
        self.device = match recovered {
            Ok(_) => Device::Good,
            Err(_) => Device::Lost,
        };
        let lost = recovered.is_err();
        let reason = recovered.map_or_else(|why| why, str::to_owned);
        self.tell(EventPayload::Fault {
            round: policy.round(),
            task: None,
            reason: reason.clone(),
        });
        if lost {
            self.stop_for(policy, &Stop::DeviceLost(reason));
        }
    }
}
