use std::collections::BTreeMap;
use std::io::{ErrorKind, PipeWriter, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::libc::SIGKILL;
use nix::sys::signal::Signal;
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use units::TaskId;

use super::event::{Echo, Event, Exit, Happening, JobId, OrderError, PATIENCE};
use super::family::{Family, note};
use super::output::{Disbelieved, Gathered, Last, Pipe, Unlogged};
use crate::lines::LineCutter;
use crate::log::RotatingLog;
use crate::memory::{self, Watched};
use crate::process::Identity;
use crate::sign::Sign;
use crate::spawn::{self, Process, spawn, with_limit};
use crate::{JobSpec, ProgressSource, SpawnError, cgroup};

/// A process group, its pipes and its log.
#[derive(Debug)]
pub(super) struct RunningJob {
    task: TaskId,
    family: Family,
    stdin: Option<PipeWriter>,
    pipes: Vec<Pipe>,
    log: RotatingLog,
    progress: ProgressSource,
    disbelieved: Disbelieved,
    kill_at: Option<Instant>,
    /// When SIGKILL was first sent.
    killed: Option<Instant>,
    /// While the job ends: its other processes that were alive at the last search.
    others: Vec<Identity>,
    /// Processes that outlived its first process and were killed, by number, with descriptions.
    strays: BTreeMap<i32, String>,
    /// Whether its control group is an enclosure, which is removed with the job.
    enclosed: bool,
    /// Whether it was already reported that a process has left the group, or that the first process never joined it.
    left: bool,
    /// Counters of its control groups when it started.
    memory: Watched,
    /// Whether invalid norms were already reported.
    norms_told: bool,
    /// Whether a line that is too long was already reported.
    overlong_told: bool,
}

/// Maximum number of bytes still read from the pipes of an ended job: sixteen full pipes. Only a process that
/// outlives its parent and continues to print can send more, and it is killed next.
const LAST_WORDS: usize = 1 << 20;

impl RunningJob {
    pub(super) fn start(
        spec: &JobSpec,
        sign: Sign,
        enclosure: Option<PathBuf>,
    ) -> Result<Self, SpawnError> {
        let log_failed = |source| SpawnError::Log {
            path: spec.log.clone(),
            source: with_limit(source),
        };
        let log = RotatingLog::open(&spec.log, spec.log_limits).map_err(log_failed)?;
        let memory = Watched::since_now(enclosure.as_deref().or(spec.cgroup_procs.as_deref()));
        let Process {
            pid,
            stdin,
            stdout,
            stderr,
        } = spawn(spec, &sign, enclosure.as_deref())?;
        // An enclosure may have refused it, or it may already have ended; neither means that a process has left.
        let refused = enclosure
            .as_deref()
            .is_some_and(|procs| !cgroup::holds(procs, pid.as_raw()));
        let regex = matches!(spec.progress, ProgressSource::Lines(_));
        let pipes = [(stdout, true), (stderr, regex)]
            .into_iter()
            .map(|(pipe, tells)| Pipe {
                fd: nonblocking(pipe.into()).into(),
                cutter: LineCutter::default(),
                last: Last::default(),
                unlogged: Unlogged::default(),
                tells,
            })
            .collect();
        if let Some(stdin) = &stdin {
            // A worker that does not read must not block this process.
            fcntl(stdin, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).ok();
        }
        let enclosed = enclosure.is_some();
        Ok(Self {
            task: spec.task.clone(),
            family: Family {
                first: pid,
                sign,
                cgroup: enclosure.or_else(|| spec.cgroup_procs.clone()),
            },
            stdin,
            pipes,
            log,
            progress: spec.progress.clone(),
            disbelieved: Disbelieved::Lines(0),
            kill_at: None,
            killed: None,
            others: Vec::new(),
            strays: BTreeMap::new(),
            enclosed,
            left: refused,
            memory,
            norms_told: false,
            overlong_told: false,
        })
    }

    pub(super) fn pid(&self) -> i32 {
        self.family.first.as_raw()
    }

    pub(super) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.pipes.iter().map(|pipe| pipe.fd.as_fd())
    }

    pub(super) fn tail(&self) -> String {
        self.log.tail()
    }

    pub(super) fn tell(&mut self, line: &[u8]) -> Result<(), OrderError> {
        let Some(stdin) = &mut self.stdin else {
            return Err(OrderError::NotRead("it was started without".to_owned()));
        };
        stdin
            .write_all(line)
            .map_err(|error| OrderError::NotRead(error.to_string()))
    }

    /// Time at which SIGKILL is due.
    pub(super) fn kill_at(&self) -> Option<Instant> {
        self.kill_at
    }

    /// Asks all its processes to end. (Processes left behind by a job that ends by itself get no grace period.)
    pub(super) fn terminate(&mut self, grace: Duration) {
        if self.kill_at.is_none() && !self.has_exited() {
            if grace.is_zero() {
                self.family.signal(Signal::SIGTERM);
            } else {
                self.family.ask_to_end();
            }
            self.kill_at = Some(Instant::now() + grace);
        } else if grace.is_zero() {
            self.kill();
        }
    }

    /// Whether the job is over: its first process has ended and, if it was asked to end, all others have ended too or
    /// their grace period has passed. A job that cannot be killed is over as well.
    pub(super) fn is_over(&mut self) -> bool {
        if !self.has_exited() {
            return self.is_unkillable();
        }
        if !self.is_ending() {
            return true;
        }
        self.others.retain(|p| p.is_alive());
        if self.others.is_empty() {
            // Searches all processes of the machine only when the known ones have gone.
            self.others = self.family.others();
        }
        self.others.is_empty()
    }

    /// Whether it was asked to end and its grace period has not passed.
    pub(super) fn is_ending(&self) -> bool {
        self.kill_at.is_some() && self.killed.is_none()
    }

    pub(super) fn kill(&mut self) {
        // While the first process still runs, the others are killed with it and do not count as left behind.
        if self.killed.is_none() && self.has_exited() {
            note(&mut self.strays, &self.family.others());
        }
        self.family.signal(Signal::SIGKILL);
        self.killed.get_or_insert_with(Instant::now);
        // Sends SIGKILL again if a process is still there: a fork may have escaped the first signal.
        self.kill_at = Some(Instant::now() + Duration::from_millis(200));
    }

    /// Reads at most one chunk from each pipe; returns the largest number of bytes read from one pipe.
    pub(super) fn read(
        &mut self,
        id: JobId,
        chunk: &mut [u8],
        queue: &mut Vec<Event>,
        echo: &mut Option<Echo>,
    ) -> usize {
        let mut most = 0;
        let mut gathered = Gathered::default();
        let mut closed = Vec::new();
        for (index, pipe) in self.pipes.iter_mut().enumerate() {
            let n = match pipe.fd.read(chunk) {
                Ok(0) => {
                    closed.push(index);
                    0
                }
                Ok(n) => n,
                Err(error) if would_block(&error) => continue,
                Err(_) => {
                    closed.push(index);
                    0
                }
            };
            most = most.max(n);
            let lines = match n {
                0 => std::mem::take(&mut pipe.unlogged.0),
                n => pipe.unlogged.push(&chunk[..n]),
            };
            if let Err(error) = self.log.append(&lines) {
                gathered.log_failed = Some(format!("{}: {error}", self.log.path().display()));
            }
            let line = |line: &[u8], over: bool| {
                match echo {
                    Some(echo) if echo.all => (echo.take)(&self.task, line),
                    Some(echo) => pipe
                        .last
                        .show(line, over, |line| (echo.take)(&self.task, line)),
                    None => {}
                }
                if pipe.tells {
                    gathered.line(&mut self.progress, &mut self.disbelieved, line);
                }
            };
            if n > 0 {
                gathered.overlong |= pipe.cutter.push(&chunk[..n], line) > 0;
            } else {
                pipe.cutter.finish(line);
            }
        }
        for index in closed.into_iter().rev() {
            self.pipes.remove(index);
        }
        if gathered.bad_norms.is_some() {
            gathered.bad_norms = gathered.bad_norms.filter(|_| !self.norms_told);
            self.norms_told = true;
        }
        gathered.overlong &= !self.overlong_told;
        self.overlong_told |= gathered.overlong;
        gathered.tell(id, queue);
        most
    }

    /// Whether the first process has ended (it is not waited for yet).
    pub(super) fn has_exited(&self) -> bool {
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        match waitid(Id::Pid(self.family.first), flags) {
            Ok(WaitStatus::StillAlive) => false,
            Ok(_) => true,
            Err(error) => error != nix::errno::Errno::EINTR,
        }
    }

    /// Whether it was killed long ago and still exists: it is inside a system call that does not return (a hanging
    /// driver) or in a frozen group.
    pub(super) fn is_unkillable(&self) -> bool {
        self.killed.is_some_and(|at| at.elapsed() > PATIENCE) && !self.has_exited()
    }

    /// Kills the processes that the first process has left behind; returns their descriptions.
    pub(super) fn put_away(&mut self) -> Vec<String> {
        // If the first process could not be killed, waiting for the others is useless too.
        let patience = if self.has_exited() {
            PATIENCE
        } else {
            Duration::ZERO
        };
        self.family.put_away(&mut self.strays, patience);
        std::mem::take(&mut self.strays).into_values().collect()
    }

    /// `cgroup.procs` of its control group; `None` if one of its processes was seen outside.
    pub(super) fn group(&self) -> Option<&Path> {
        self.family.cgroup.as_deref().filter(|_| !self.left)
    }

    /// `cgroup.procs` of the control group that is removed with it.
    pub(super) fn enclosure(&self) -> Option<&Path> {
        self.family.cgroup.as_deref().filter(|_| self.enclosed)
    }

    /// Whether it is known to be in a control group, and was there at the last check.
    pub(super) fn is_inside(&self) -> bool {
        self.group().is_some()
    }

    /// A message, once, if one of the live `processes` of its process group is outside its control group.
    pub(super) fn has_left(&mut self, processes: &[Identity]) -> Option<String> {
        let procs = self.group()?;
        let outside = |p: &&Identity| !cgroup::holds(procs, p.pid) && p.is_alive();
        let pid = processes.iter().find(outside)?.pid;
        let group = procs.parent().unwrap_or(procs).display();
        let why = format!(
            "process {pid} has left the control group {group} that it was started in, so its share is not enforced; jobs must not move their processes"
        );
        self.left = true;
        Some(why)
    }

    /// Reads the last output of an ended job.
    pub(super) fn drain(
        &mut self,
        id: JobId,
        chunk: &mut [u8],
        queue: &mut Vec<Event>,
        echo: &mut Option<Echo>,
    ) {
        let mut left = LAST_WORDS / chunk.len().max(1);
        while !self.pipes.is_empty() && left > 0 && self.read(id, chunk, queue, echo) == chunk.len()
        {
            left -= 1;
        }
        // Reads again, because the pipe may have ended after a short read.
        self.read(id, chunk, queue, echo);
        self.read(id, chunk, queue, echo);
        // Needed for a pipe that another process keeps open.
        for pipe in &mut self.pipes {
            // The failure of the log was reported when it first failed, or no longer matters.
            self.log.append(&std::mem::take(&mut pipe.unlogged.0)).ok();
        }
    }

    /// Waits for the job, and returns the event of its end.
    pub(super) fn ended(&mut self, strays: Vec<String>) -> Happening {
        let (exit, largest) = self.wait();
        let text = self.log.end();
        // The exit code of a shell whose child was killed.
        let by_shell = Exit::Code(128 + SIGKILL);
        let end = memory::End {
            failed: exit != Exit::Code(0),
            killed: self.killed.is_none() && (exit == Exit::Signal(SIGKILL) || exit == by_shell),
            text: &text,
        };
        Happening::Exited {
            exit,
            strays,
            tail: self.tail(),
            out_of_memory: memory::judge(end, &self.memory),
            peak_bytes: self.enclosure().and_then(memory::peak).or(largest),
        }
    }

    /// Exit status, and peak memory of one of its processes. It does not wait for a job that cannot be killed.
    pub(super) fn wait(&mut self) -> (Exit, Option<u64>) {
        if !self.has_exited() {
            return (Exit::Signal(SIGKILL), None);
        }
        // Another caller may have waited for it: its status is lost then.
        let Some(waited) = spawn::wait(self.family.first) else {
            return (Exit::Code(-1), None);
        };
        let exit = match (waited.status.code(), waited.status.signal()) {
            (Some(code), _) => Exit::Code(code),
            (None, Some(signal)) => Exit::Signal(signal),
            (None, None) => Exit::Code(-1),
        };
        (exit, Some(waited.peak_bytes))
    }
}

fn would_block(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

fn nonblocking(fd: OwnedFd) -> OwnedFd {
    // This cannot fail on our own pipe; if it did, reads would block.
    fcntl(&fd, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).ok();
    fd
}
