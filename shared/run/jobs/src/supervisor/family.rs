//! All processes of a job: finding them, asking them to end, and killing them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::{Pid, getpgid};

use crate::process::{self, Identity, Lineage};
use crate::sign::Sign;
use crate::{cgroup, mps};

/// The processes of a job. The first process has not been waited for, so its number still identifies it and its process
/// group.
#[derive(Debug)]
pub(super) struct Family {
    pub(super) first: Pid,
    pub(super) sign: Sign,
    /// `cgroup.procs` of the control group that contains only this job.
    pub(super) cgroup: Option<PathBuf>,
}

impl Family {
    /// Sends a signal to the process group.
    pub(super) fn signal(&self, signal: Signal) {
        killpg(self.first, signal).ok();
    }

    /// Sends SIGTERM to each process once, because many programs treat a second signal as a request to end immediately.
    /// The filters of a pipeline get none and end by themselves, see [`process::is_filter`].
    pub(super) fn ask_to_end(&self) {
        let (filters, others): (Vec<Identity>, Vec<Identity>) = self
            .others()
            .into_iter()
            .partition(|p| process::is_filter(p.pid));
        // Signals the whole group at once, so that no process that is just being started is missed.
        let at_once = filters.is_empty();
        if at_once {
            self.signal(Signal::SIGTERM);
        } else {
            kill(self.first, Signal::SIGTERM).ok();
        }
        for process in others {
            let in_group = getpgid(Some(Pid::from_raw(process.pid))) == Ok(self.first);
            if !(at_once && in_group) {
                process.terminate();
            }
        }
    }

    /// The live processes of the job except the first, in its process group, its control group or elsewhere; without
    /// daemons that others use as well.
    pub(super) fn others(&self) -> Vec<Identity> {
        let first = self.first.as_raw();
        let members = self.cgroup.as_deref().map(cgroup::members_by);
        let mut all = self.sign.find_with_group(&Lineage::own(), Some(first));
        all.extend(members.unwrap_or_default());
        all.retain(|p| p.pid != first && p.is_alive() && !mps::is_program(p.pid));
        all.sort_unstable_by_key(|p| p.pid);
        all.dedup();
        all
    }

    /// Kills all processes, waits at most `patience` until all but the first have gone, and adds these to `strays`.
    pub(super) fn put_away(&self, strays: &mut BTreeMap<i32, String>, patience: Duration) {
        let first = self.first.as_raw();
        // A process that has dropped the signs and left the process group is still in the control group.
        let members = self.cgroup.as_deref().map(cgroup::members_by);
        let mut inside = members.unwrap_or_default();
        // An MPS daemon that the job has started is spared, because others use it as well.
        let all = inside.len();
        inside.retain(|p| !mps::is_program(p.pid));
        let is_shared = inside.len() < all;
        inside.retain(|p| p.pid != first);
        note(strays, &inside);
        // Kills the group before searching all processes of the machine, because a fork bomb would continue during the
        // search.
        if let Some(procs) = self.cgroup.as_deref().filter(|_| !is_shared) {
            cgroup::kill_members(procs);
        }
        let mut left = self.sign.find_with_group(&Lineage::own(), Some(first));
        left.retain(|p| p.pid != first);
        note(strays, &left);
        left.extend(inside);
        self.signal(Signal::SIGKILL);
        process::kill_all(&left, patience);
        process::bury(&left);
    }
}

/// Adds descriptions of processes by their number; existing descriptions stay.
pub(super) fn note(strays: &mut BTreeMap<i32, String>, processes: &[Identity]) {
    for process in processes {
        let entry = strays.entry(process.pid);
        entry.or_insert_with(|| process.to_string());
    }
}
