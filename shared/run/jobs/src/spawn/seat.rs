//! What a new process does before it becomes its program.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use nix::errno::Errno;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use crate::cpus::cpu_set;
use crate::sign::{Sign, bear};

/// A control group to start in.
pub(super) struct Group {
    /// Its `cgroup.procs`; writing to it moves a process into the group.
    procs: File,
    folder: Option<File>,
}

impl Group {
    /// The group of a `cgroup.procs`.
    pub(super) fn open(procs: &Path) -> io::Result<Self> {
        Ok(Self {
            procs: OpenOptions::new().write(true).open(procs)?,
            folder: procs.parent().and_then(|folder| File::open(folder).ok()),
        })
    }

    /// Moves this process into the group; retries if a signal interrupts it.
    fn enter(&self) -> nix::Result<()> {
        loop {
            match nix::unistd::write(&self.procs, b"0") {
                Err(Errno::EINTR) => {}
                written => return written.map(drop),
            }
        }
    }
}

/// Settings that a new process applies to itself before it becomes its program.
pub(super) struct Seat {
    group: Option<Group>,
    /// Whether it is an error if the process cannot join the group. For example, a group that is delegated to a user
    /// refuses processes from outside of the delegated subtree.
    must: bool,
    cpus: Option<CpuSet>,
    brand: u64,
    parent: Pid,
}

impl Seat {
    /// A seat on the processors `cpus`, or on any if `cpus` is empty.
    pub(super) fn new(sign: &Sign, group: Option<Group>, must: bool, cpus: &[usize]) -> Self {
        Self {
            group,
            must,
            cpus: cpu_set(cpus),
            brand: sign.brand(),
            parent: nix::unistd::getpid(),
        }
    }

    /// The folder of its group.
    pub(super) fn folder(&self) -> Option<BorrowedFd<'_>> {
        self.group.as_ref()?.folder.as_ref().map(File::as_fd)
    }

    /// Applies the settings in a new process; `inside`: it is already in its group. Makes only async-signal-safe calls:
    /// prctl, getppid, write, getrlimit, setrlimit and sched_setaffinity.
    pub(super) fn take(&self, inside: bool) -> nix::Result<()> {
        // First of all, so that whatever this process starts is inside the group as well.
        if let Some(group) = &self.group
            && !inside
        {
            match group.enter() {
                Err(error) if self.must => return Err(error),
                // The group refused it; mark, brand and process group remain for finding its descendants.
                _ => {}
            }
        }
        // If the brand is refused, the mark remains.
        bear(self.brand).ok();
        if let Some(cpus) = &self.cpus {
            sched_setaffinity(Pid::from_raw(0), cpus)?;
        }
        nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
        // The parent may have died before the line above took effect.
        if nix::unistd::getppid() != self.parent {
            return Err(Errno::ESRCH);
        }
        Ok(())
    }
}
