use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use crate::cgroup::{self, Enclosures};
use crate::process::{self, Lineage};
use crate::sign::Sign;
use crate::spawn::{contain, with_limit};
use crate::{RunDir, mps};

/// A program that a tool runs beside its jobs, such as a controller. It is contained like a job: it dies with the tool,
/// and all its descendants die with it. It has its own process group, so that signals from the terminal do not reach
/// it.
#[derive(Debug)]
pub struct Helper {
    child: Child,
    sign: Sign,
    /// `cgroup.procs` of its control group.
    procs: Option<PathBuf>,
}

/// Job number of a helper. Jobs are numbered from 0, and no run starts this many.
const NUMBER: u64 = (1 << 28) - 1;
/// Maximum time for a killed process to disappear, as for a job.
const PATIENCE: Duration = Duration::from_secs(5);

impl Helper {
    /// Starts the program. Its control group is recorded in the run directory, so that the guard removes the group if
    /// this process is killed.
    ///
    /// # Errors
    /// If the program cannot be started.
    pub fn start(mut command: Command, run: &mut RunDir) -> io::Result<Self> {
        let sign = Sign::of_run(run.token()).of_job(NUMBER);
        // The colon, as in the groups of jobs, avoids clashes: no task name contains one.
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

    /// The first process of the helper.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Kills the helper and all its descendants.
    fn put_away(&mut self) {
        let pid = self.child.id().cast_signed();
        // The next pass finds processes that were started during the previous one. The number of passes is limited,
        // because a process may fork for ever.
        for _ in 0..10 {
            let mut left = self.sign.find_with_group(&Lineage::own(), Some(pid));
            let members = self.procs.as_deref().map(cgroup::members_by);
            // An MPS daemon that the helper started is spared, because others use it as well.
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
        // Fails if it has already been waited for; its status is not needed.
        self.child.wait().ok();
        remove(self.procs.as_deref());
    }
}

/// Removes the control group of a helper, and the group of the run if it contains no groups of jobs. Groups that cannot
/// be removed are still recorded in the run directory.
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
