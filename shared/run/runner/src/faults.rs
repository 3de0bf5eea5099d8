//! Faults of GPUs: every job on them is ended, and they are recovered before another starts there. Jobs on other GPUs
//! continue.

use std::fmt;

use doc::EventPayload;
use host::{Fault, FaultKind, Gpus, Health, Recovery};
use jobs::{Event, Exit, Happening};

use crate::blame::{Blame, blame};
use crate::device::KnownFault;
use crate::happened::Stop;
use crate::policy::Policy;
use crate::runner::Runner;
use crate::watch::{Ending, Watch};

impl<K: Copy + Ord + fmt::Debug> Runner<'_, K> {
    /// Faults that have not been reported yet; called after the failure of a job. A fault affects all jobs on its GPUs,
    /// so it does not mean that a job there is at fault.
    pub(crate) fn new_faults(&mut self) -> Vec<Fault> {
        if self.stopping || self.devices.is_lost {
            return Vec::new();
        }
        match self.host.health() {
            Health::Faulted(mut faults) => {
                faults.retain(|fault| self.devices.is_new(fault));
                faults
            }
            // If the device does not answer, its jobs will show whether it works.
            Health::Good | Health::Unknown(_) => Vec::new(),
        }
    }

    /// Reports a fault that the end of `cause` revealed, and ends every job on its GPUs.
    pub(crate) fn declare(
        &mut self,
        policy: &dyn Policy<Key = K>,
        cause: K,
        fault: Fault,
        blamed: bool,
    ) {
        let concerned = |gpus: &Option<Gpus>| {
            let gpus = gpus.as_ref();
            gpus.is_some_and(|gpus| gpus.share_any(&fault.gpus))
        };
        let computing = || self.running.values().filter(|w| w.gpus.is_some());
        let all = computing().all(|watch| concerned(&watch.gpus));
        let (what, happened) = match &fault.kind {
            FaultKind::Server => ("the MPS server", "faulted".to_owned()),
            FaultKind::Daemon => ("the MPS daemon", "has gone".to_owned()),
            FaultKind::Lost(why) => ("the GPU", format!("does not work any more: {why}")),
        };
        let (name, jobs) = match all {
            true => (what.to_owned(), "every job is stopped"),
            false => (
                format!("{what} of GPU {}", fault.gpus),
                "its jobs are stopped",
            ),
        };
        self.tell(EventPayload::Fault {
            round: policy.round(),
            task: Some(policy.task(cause)),
            reason: format!("{name} {happened}; {jobs}"),
        });
        let mut on_it: Vec<_> = self
            .running
            .iter()
            .filter(|(_, w)| concerned(&w.gpus))
            .map(|(&job, w)| (w.key, job))
            .collect();
        on_it.sort_unstable();
        for (_, job) in on_it {
            self.end(job, Ending::Fault);
        }
        let blamed = blamed || fault.kind != FaultKind::Server;
        self.devices.faults.push(KnownFault {
            fault,
            blamed,
            name,
        });
    }

    /// When the jobs on the GPUs of a fault have ended: checks whether the GPUs have recovered by themselves, and
    /// recovers them when the time for that is over.
    pub(crate) fn recover(&mut self, policy: &mut dyn Policy<Key = K>) {
        if self.is_stopping() {
            return;
        }
        let known = std::mem::take(&mut self.devices.faults);
        for known in known {
            let gpus = &known.fault.gpus;
            let uses = |w: &Watch<K>| w.gpus.as_ref().is_some_and(|own| own.share_any(gpus));
            if self.is_stopping() || self.running.values().any(uses) {
                self.devices.faults.push(known);
                continue;
            }
            let reason = match self.host.recover(gpus) {
                Ok(Recovery::Pending) => {
                    self.devices.faults.push(known);
                    continue;
                }
                Ok(Recovery::Recovered) => Ok(format!("{} has recovered", known.name)),
                Ok(Recovery::Replaced) => Ok(match &known.fault.kind {
                    FaultKind::Daemon => format!("{} was started again", known.name),
                    _ => format!("{} was replaced", known.name.replace("server", "daemon")),
                }),
                Err(error) => Err(error.to_string()),
            };
            let (Ok(text) | Err(text)) = &reason;
            self.tell(EventPayload::Fault {
                round: policy.round(),
                task: None,
                reason: text.clone(),
            });
            if let Err(why) = reason {
                self.lose(policy, known.fault.gpus, why);
            }
        }
    }

    /// Handles GPUs that do not recover: the policy continues without them, or everything ends.
    fn lose(&mut self, policy: &mut dyn Policy<Key = K>, gpus: Gpus, why: String) {
        self.devices.lost.push(gpus.clone());
        if policy.gpus_lost(self, &gpus, &why) {
            return;
        }
        self.devices.is_lost = true;
        self.stop_for(policy, &Stop::DeviceLost(why));
    }

    /// Sorts jobs that failed in one turn so that the one that most likely caused a fault comes first. The order in
    /// which processes are found to have ended says little when they end within milliseconds.
    pub(crate) fn culprits_first(&self, events: &mut [Event]) {
        let rank = |event: &Event| match &event.what {
            Happening::Exited { exit, tail, .. } if *exit != Exit::Code(0) => {
                let computed = self
                    .running
                    .get(&event.job)
                    .is_some_and(|w| w.gpus.is_some());
                computed.then(|| blame(tail))
            }
            _ => None,
        };
        // An exit is the last event of its job, so it may be moved behind events of other jobs.
        events.sort_by_key(rank);
    }

    /// Whether a job that failed caused a fault or is a victim of it; `None` if there is no fault on its GPUs.
    pub(crate) fn role(&mut self, watch: &Watch<K>, tail: &str, new: &[Fault]) -> Option<Role> {
        let gpus = watch.gpus.as_ref()?;
        let fault = new.iter().find(|fault| fault.gpus.share_any(gpus));
        let Some(fault) = fault else {
            // The job was being ended because of a fault with unknown cause, and its own messages name an error of its
            // kernels.
            let known = self.devices.fault_of(gpus)?;
            if !known.blamed && watch.ending == Some(Ending::Fault) && blame(tail) == Blame::Own {
                known.blamed = true;
                return Some(Role::Culprit);
            }
            return None;
        };
        // A job that was already being ended may have hung, or lost the server, because of the fault.
        let doubt = match watch.ending {
            Some(_) => Blame::Own,
            None => Blame::Unclear,
        };
        Some(match &fault.kind {
            FaultKind::Server if blame(tail) > doubt => {
                Role::Victim("ended by a fault of the MPS server".to_owned())
            }
            FaultKind::Server => Role::Culprit,
            FaultKind::Daemon => Role::Victim("the MPS daemon had gone".to_owned()),
            FaultKind::Lost(why) => Role::Victim(why.clone()),
        })
    }
}

/// Role of a failed job in a fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Role {
    /// It caused it.
    Culprit,
    /// It suffered from the fault; a description.
    Victim(String),
}
