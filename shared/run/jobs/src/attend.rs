//! Watches a program that this process is about to become, and cleans up after it.
//!
//! `mt-launch exec` replaces itself by the program, so there is no process between the program and its parent: one
//! process, with its streams, signals and exit status. Another process must then clean up after the program. This
//! attendant is a second process of the tool. It has left its session, so it gets no signals from the terminal. It is
//! reparented to init, so a program that waits for any child does not see an unknown one. It waits for the program's
//! end on a pidfd, which the kernel signals however the process ends, and then cleans up.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustix::process::{PidfdFlags, pidfd_open};

use crate::descriptors::seal;
use crate::mps::{self, Membership};
use crate::process::{Identity, again};
use crate::sign::{MARK, shed};
use crate::spawn::with_limit;
use crate::{RunDir, cgroup};

/// The program that the attendant watches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attended {
    /// The run directory of the program.
    pub run: PathBuf,
    /// The process that becomes the program.
    pub pid: i32,
    /// Start time of the process, in clock ticks since the boot of the machine.
    pub start: u64,
    /// Directory of the shared MPS daemon of which the program is a client.
    pub mps: Option<PathBuf>,
}

/// Message of the attendant on standard output when it is ready to take over.
pub const READY: &str = "ready";

/// Time from SIGTERM to SIGKILL for processes that the program left behind: a training whose shell was ended takes a
/// second or two to save a checkpoint.
const GRACE: Duration = Duration::from_secs(5);

impl Attended {
    /// This process, with its run directory.
    ///
    /// # Errors
    /// If `/proc` does not show this process.
    pub fn this(run: &Path, mps: Option<&Path>) -> io::Result<Self> {
        let own = Identity::own().ok_or_else(|| io::Error::other("/proc does not show us"))?;
        Ok(Self {
            run: run.to_owned(),
            pid: own.pid,
            start: own.start,
            mps: mps.map(Path::to_owned),
        })
    }

    /// The program to watch as arguments of a command line: run directory, process, start time, and the directory of
    /// the daemon if there is one.
    #[must_use]
    pub fn arguments(&self) -> Vec<OsString> {
        let mut words: Vec<OsString> = vec![self.run.clone().into()];
        words.push(self.pid.to_string().into());
        words.push(self.start.to_string().into());
        words.extend(self.mps.clone().map(OsString::from));
        words
    }

    /// Starts the attendant: this program again with `arguments`, which must make it call [`attend`] with these
    /// values. Returns when the attendant watches.
    ///
    /// # Errors
    /// If it cannot be started, or ends before it is ready.
    pub fn start(&self, arguments: &[OsString]) -> io::Result<()> {
        let mut child = seal(&mut again())
            .args(arguments)
            .env_remove(MARK)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(with_limit)?;
        let stdout = child.stdout.take();
        // The process that was started ends at once; the attendant is its child.
        child.wait()?;
        let mut line = String::new();
        if let Some(stdout) = stdout {
            BufReader::new(stdout).read_line(&mut line)?;
        }
        if line.trim() == READY {
            return Ok(());
        }
        Err(io::Error::other(
            "the process that cleans up afterwards does not start",
        ))
    }
}

/// Work of the attendant: goes to the background, prints `ready` ([`READY`], after which it must not keep standard
/// output open), waits for the end of the program, and cleans up.
///
/// # Errors
/// If the program cannot be watched, or its own resources cannot be removed.
pub fn attend(attended: &Attended, ready: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    // Otherwise a launch that runs this program as a job would treat the attendant as a leftover of that job.
    shed();
    // An outer program (`exec` in `exec`) may end at the same time as ours. Its attendant would kill us, in its
    // control group, before we have cleaned up.
    cgroup::leave_runs();
    // Leaves the working directory, which would keep its file system busy.
    nix::unistd::daemon(false, true)?;
    let member = attended
        .mps
        .as_deref()
        .map(Membership::of)
        .transpose()
        .map_err(io::Error::other)?;
    let process = Identity {
        pid: attended.pid,
        start: attended.start,
    };
    let Some(pid) = rustix::process::Pid::from_raw(attended.pid) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    // The process still waits for our message, so the number cannot belong to another process yet.
    let watched = pidfd_open(pid, PidfdFlags::empty());
    ready()?;
    match watched {
        Ok(process) => {
            let mut fds = [PollFd::new(process.as_fd(), PollFlags::POLLIN)];
            while poll(&mut fds, PollTimeout::NONE) == Err(nix::errno::Errno::EINTR) {}
        }
        // Linux before 5.3.
        Err(_) => {
            while process.is_alive() {
                std::thread::sleep(Duration::from_millis(100));
            }
        }
    }
    // Errors of reading are reported by the clean-up below.
    RunDir::ask_to_end(&attended.run, GRACE).ok();
    let cleaned = RunDir::clean(&attended.run).map(drop);
    match member {
        Some(member) => member.leave().map_err(io::Error::other)?,
        None => mps::clean_orphans(),
    }
    cleaned
}
