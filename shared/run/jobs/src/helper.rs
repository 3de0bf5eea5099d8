use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use crate::cgroup::{self, Enclosures};
use crate::process::{self, Lineage};
use crate::sign::Sign;
use crate::spawn::{contain, with_limit};
use crate::{RunDir, mps};

/// A program that a tool starts beside its jobs, such as a controller. It is contained like a job: it dies with the
/// tool, and everything it started ends with it. It has its own process group, so that signals from the terminal do
/// not reach it.
#[derive(Debug)]
pub struct Helper {
    child: Child,
    sign: Sign,
    /// `cgroup.procs` of its control group.
    procs: Option<PathBuf>,
}

/// Jobs are numbered from 0; no run starts this many.
const NUMBER: u64 = (1 << 28) - 1;
/// Maximum time for a killed process to disappear, as for a job.
const PATIENCE: Duration = Duration::from_secs(5);

impl Helper {
    /// Starts it. Its group is written into the run directory, so that a guard removes it if this process is killed.
    ///
    /// # Errors
    /// If the program cannot be started.
    pub fn start(mut command: Command, run: &mut RunDir) -> io::Result<Self> {
        let sign = Sign::of_run(run.token()).of_job(NUMBER);
        // A colon, as in the groups of jobs: no task has such a name.
        let procs = Enclosures::beside(run, "helper:0");
        contain(&mut command, &sign, procs.as_deref());
        match command.spawn() {
            Ok(child) => Ok(Self { child, sign, procs }),
            Err(error) => {
                remove(procs.as_deref());
                Err(with_limit(error))
            }
        }
    }

    /// Its first process.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Kills it and everything it started.
    fn put_away(&mut self) {
        let pid = self.child.id().cast_signed();
        // Processes that were started while the others were killed are found in the next pass; one that forks for
        // ever must not keep us here.
        for _ in 0..10 {
            let mut left = self.sign.find_with_group(&Lineage::own(), Some(pid));
            let members = self.procs.as_deref().map(cgroup::members_by);
            // A daemon that it started, but that others use as well, is not its own.
            let own = |p: &process::Identity| !mps::is_program(p.pid);
            left.extend(members.into_iter().flatten().filter(own));
            left.retain(|p| p.is_alive());
            if left.is_empty() {
                break;
            }
            process::kill_all(&left, PATIENCE);
            left.retain(|p| p.pid != pid);
            process::bury(&left);
        }
        // It may already have been waited for; its status is not needed.
        self.child.wait().ok();
        remove(self.procs.as_deref());
    }
}

/// Removes the control group of a helper, and that of the run if no jobs have groups there. What cannot be removed is
/// written into the run directory.
fn remove(procs: Option<&Path>) {
    for group in procs
        .into_iter()
        .flat_map(|p| p.ancestors().skip(1).take(2))
    {
        std::fs::remove_dir(group).ok();
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.put_away();
    }
}
