//! Which GPUs of the host serve jobs.

use host::{Fault, FaultKind, Gpus};

/// State of the GPUs of a host.
#[derive(Debug, Default)]
pub(crate) struct Devices {
    /// Faults that are being recovered from.
    pub(crate) faults: Vec<KnownFault>,
    /// GPUs that will not recover, if the policy goes on without them.
    pub(crate) lost: Vec<Gpus>,
    /// The policy cannot go on.
    pub(crate) is_lost: bool,
}

/// A fault that was told.
#[derive(Debug)]
pub(crate) struct KnownFault {
    pub(crate) fault: Fault,
    /// Whether the job that caused it is known, or no job did.
    pub(crate) blamed: bool,
    /// What it concerns, in messages: "the MPS server", with its GPUs if there are jobs on others.
    pub(crate) name: String,
}

impl Devices {
    /// The fault that concerns some GPUs.
    pub(crate) fn fault_of(&mut self, gpus: &Gpus) -> Option<&mut KnownFault> {
        let mut faults = self.faults.iter_mut();
        faults.find(|known| known.fault.gpus.share_any(gpus))
    }

    /// Whether a fault is news.
    pub(crate) fn is_new(&self, fault: &Fault) -> bool {
        let same = |known: &KnownFault| {
            // A GPU may get lost while its server recovers.
            let graver = matches!(fault.kind, FaultKind::Lost(_)) && fault.kind != known.fault.kind;
            known.fault.gpus.share_any(&fault.gpus) && !graver
        };
        let lost = |gpus: &Gpus| gpus.share_any(&fault.gpus);
        !self.faults.iter().any(same) && !self.lost.iter().any(lost)
    }

    /// Whether jobs can be started on all of these GPUs.
    pub(crate) fn serve(&self, gpus: &Gpus) -> bool {
        let faulted = |known: &KnownFault| known.fault.gpus.share_any(gpus);
        !self.is_lost
            && !self.faults.iter().any(faulted)
            && !self.lost.iter().any(|lost| lost.share_any(gpus))
    }

    pub(crate) const fn is_faulted(&self) -> bool {
        !self.faults.is_empty()
    }
}
