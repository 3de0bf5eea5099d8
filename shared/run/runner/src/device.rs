//! Which GPUs of the host serve jobs.

use host::{Fault, FaultKind, Gpus};

/// State of the GPUs of a host.
#[derive(Debug, Default)]
pub(crate) struct Devices {
    /// Faults whose recovery is in progress.
    pub(crate) faults: Vec<KnownFault>,
    /// GPUs that will not recover, if the policy continues without them.
    pub(crate) lost: Vec<Gpus>,
    /// Whether the policy cannot continue.
    pub(crate) is_lost: bool,
}

/// A fault that was reported.
#[derive(Debug)]
pub(crate) struct KnownFault {
    pub(crate) fault: Fault,
    /// Whether its cause is settled: the job is known, or no job caused it.
    pub(crate) blamed: bool,
    /// Name of the affected part in messages: "the MPS server", with its GPUs if there are jobs on
    /// other GPUs.
    pub(crate) name: String,
}

impl Devices {
    /// A known fault that affects any of these GPUs.
    pub(crate) fn fault_of(&mut self, gpus: &Gpus) -> Option<&mut KnownFault> {
        let mut faults = self.faults.iter_mut();
        faults.find(|known| known.fault.gpus.share_any(gpus))
    }

    /// Whether a fault has not been reported yet.
    pub(crate) fn is_new(&self, fault: &Fault) -> bool {
        let same = |known: &KnownFault| {
            // A GPU may be lost while its server recovers, which is a new and worse fault.
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
