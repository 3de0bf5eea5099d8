use std::io::{ErrorKind, PipeWriter, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use efficiency::{Moments, NormsError};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use units::TaskId;

use super::event::{Echo, Event, Exit, Happening, JobId, OrderError, PATIENCE};
use crate::lines::LineCutter;
use crate::log::RotatingLog;
use crate::process::{self, Identity, Lineage};
use crate::sign::Sign;
use crate::spawn::{self, Process, spawn, with_limit};
use crate::{JobSpec, Message, Progress, SpawnError, cgroup, mps};

/// A process group, its pipes and its log.
#[derive(Debug)]
pub(super) struct RunningJob {
    task: TaskId,
    pid: Pid,
    sign: Sign,
    stdin: Option<PipeWriter>,
    pipes: Vec<Pipe>,
    log: RotatingLog,
    progress: Progress,
    disbelieved: Disbelieved,
    kill_at: Option<Instant>,
    /// When SIGKILL was first sent.
    killed: Option<Instant>,
    /// `cgroup.procs` of the control group that contains only this job.
    cgroup: Option<PathBuf>,
    /// Whether the group is an enclosure, which is removed with the job.
    enclosed: bool,
    /// Whether it was reported that a process has left the group, or that the first never joined it.
    left: bool,
    /// Whether it was reported that its norms are invalid.
    norms_told: bool,
}

#[derive(Debug)]
struct Pipe {
    fd: std::fs::File,
    cutter: LineCutter,
    last: Last,
    unlogged: Unlogged,
    /// Whether its lines may report progress: standard output, and standard error where a regular
    /// expression looks for the job's own log lines.
    tells: bool,
}

/// The current line, which the log gets whole: both pipes of a job, and those of the processes that
/// replace it, share one file, where a line in pieces would tear those of the others apart.
#[derive(Debug, Default)]
struct Unlogged(Vec<u8>);

impl Unlogged {
    /// Takes bytes and returns those that go to the log now: up to the last line end, or all if the current line is
    /// too long to keep.
    fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.0.extend_from_slice(bytes);
        let end = self.0.iter().rposition(|b| matches!(b, b'\n' | b'\r'));
        match end {
            _ if self.0.len() > LineCutter::LONGEST => std::mem::take(&mut self.0),
            Some(end) => self.0.drain(..=end).collect(),
            None => Vec::new(),
        }
    }
}

/// The part of a line before it was overwritten: only the last state of a progress bar is shown.
#[derive(Debug, Default)]
struct Last(Vec<u8>);

impl Last {
    fn show(&mut self, line: &[u8], over: bool, show: impl FnOnce(&[u8])) {
        if over {
            self.0.clear();
            self.0.extend_from_slice(line);
        } else {
            show(if line.is_empty() { &self.0 } else { line });
            self.0.clear();
        }
    }
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
        let regex = matches!(spec.progress, Progress::Lines(_));
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
        Ok(Self {
            task: spec.task.clone(),
            pid,
            sign,
            stdin,
            pipes,
            log,
            progress: spec.progress.clone(),
            disbelieved: Disbelieved::Lines(0),
            kill_at: None,
            killed: None,
            enclosed: enclosure.is_some(),
            cgroup: enclosure.or_else(|| spec.cgroup_procs.clone()),
            left: refused,
            norms_told: false,
        })
    }

    pub(super) fn pid(&self) -> i32 {
        self.pid.as_raw()
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

    /// When SIGKILL is due.
    pub(super) fn kill_at(&self) -> Option<Instant> {
        self.kill_at
    }

    pub(super) fn terminate(&mut self, grace: Duration) {
        if self.kill_at.is_none() {
            self.signal(Signal::SIGTERM);
            self.kill_at = Some(Instant::now() + grace);
        } else if grace.is_zero() {
            self.kill();
        }
    }

    pub(super) fn kill(&mut self) {
        self.signal(Signal::SIGKILL);
        self.killed.get_or_insert_with(Instant::now);
        // Send it again if something is still there: a fork may have escaped the first one.
        self.kill_at = Some(Instant::now() + Duration::from_millis(200));
    }

    fn signal(&self, signal: Signal) {
        // The first process has not been waited for, so its number still identifies this group.
        killpg(Pid::from_raw(self.pid()), signal).ok();
    }

    /// Reads at most a chunk of each pipe; returns the largest number of bytes.
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
            let mut overlong = 0;
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
                overlong = pipe.cutter.push(&chunk[..n], line);
            } else {
                pipe.cutter.finish(line);
            }
            gathered.overlong += overlong;
        }
        for index in closed.into_iter().rev() {
            self.pipes.remove(index);
        }
        if gathered.bad_norms.is_some() {
            gathered.bad_norms = gathered.bad_norms.filter(|_| !self.norms_told);
            self.norms_told = true;
        }
        gathered.tell(id, queue);
        most
    }

    /// Whether the first process has ended (it is not waited for yet).
    pub(super) fn has_exited(&self) -> bool {
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        match waitid(Id::Pid(Pid::from_raw(self.pid())), flags) {
            Ok(WaitStatus::StillAlive) => false,
            Ok(_) => true,
            Err(error) => error != nix::errno::Errno::EINTR,
        }
    }

    /// Whether it was killed long ago and is still there: it is inside a system call that does not return (a hanging
    /// driver) or in a frozen group.
    pub(super) fn is_unkillable(&self) -> bool {
        self.killed.is_some_and(|at| at.elapsed() > PATIENCE) && !self.has_exited()
    }

    /// Kills what the first process has left behind, in its process group, its control group or elsewhere; returns
    /// how many.
    pub(super) fn put_away(&mut self) -> usize {
        let pid = self.pid();
        // A process that has dropped the signs and left the process group is still in this group.
        let members = self.cgroup.as_deref().map(cgroup::members_by);
        let mut inside = members.unwrap_or_default();
        // A daemon that the job has started, but that others use as well, is not its own.
        let all = inside.len();
        inside.retain(|p| !mps::is_program(p.pid));
        // The group is killed before all processes of the machine are searched: a fork bomb would continue meanwhile.
        if let Some(procs) = self.cgroup.as_deref().filter(|_| inside.len() == all) {
            cgroup::kill_members(procs);
        }
        let mut left = self.sign.find_with_group(&Lineage::own(), Some(pid));
        left.extend(inside);
        left.retain(|p| p.pid != pid);
        left.sort_unstable_by_key(|p| p.pid);
        left.dedup();
        self.signal(Signal::SIGKILL);
        // If the first process has not gone, waiting for the others was useless, too.
        let patience = if self.has_exited() {
            PATIENCE
        } else {
            Duration::ZERO
        };
        process::kill_all(&left, patience);
        process::bury(&left);
        left.len()
    }

    /// `cgroup.procs` of its control group; `None` if one of its processes was seen outside.
    pub(super) fn group(&self) -> Option<&Path> {
        self.cgroup.as_deref().filter(|_| !self.left)
    }

    /// `cgroup.procs` of the control group that is removed with it.
    pub(super) fn enclosure(&self) -> Option<&Path> {
        self.cgroup.as_deref().filter(|_| self.enclosed)
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
        // After a short read, the pipe may have ended.
        self.read(id, chunk, queue, echo);
        self.read(id, chunk, queue, echo);
        // For a pipe that another process keeps open.
        for pipe in &mut self.pipes {
            // The failure of the log was reported when it first failed, or no longer matters.
            self.log.append(&std::mem::take(&mut pipe.unlogged.0)).ok();
        }
    }

    /// Its exit status; a job that cannot be killed is not waited for.
    pub(super) fn wait(&mut self) -> Exit {
        if !self.has_exited() {
            return Exit::Signal(Signal::SIGKILL as i32);
        }
        match spawn::wait(self.pid) {
            Some(status) => match (status.exit_status(), status.terminating_signal()) {
                (Some(code), _) => Exit::Code(code),
                (None, Some(signal)) => Exit::Signal(signal),
                (None, None) => Exit::Code(-1),
            },
            // Another caller has waited for it: its status is lost.
            None => Exit::Code(-1),
        }
    }
}

fn would_block(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

fn nonblocking(fd: OwnedFd) -> OwnedFd {
    // It cannot fail on our own pipe; if it did, reads would block.
    fcntl(&fd, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).ok();
    fd
}

/// Whether a job reports only steps that are implausible. Otherwise its lack of progress would be unexplained, and it
/// would be measured until it counts as stalled.
#[derive(Debug)]
enum Disbelieved {
    /// Number of such lines so far, without any other step.
    Lines(u32),
    /// It has reported a plausible step, or the warning has been given.
    Settled,
}

impl Disbelieved {
    /// Number of such lines without a warning: at the first steps, a counter may not be set yet.
    const FORGIVEN: u32 = 4;

    fn look(&mut self, line: &[u8]) -> Option<String> {
        let Self::Lines(count) = self else {
            return None;
        };
        let why = Progress::disbelieved(line)?;
        *count += 1;
        if *count <= Self::FORGIVEN {
            return None;
        }
        *self = Self::Settled;
        Some(why)
    }
}

/// Result of one pass over the pipes of a job.
#[derive(Debug, Default)]
struct Gathered {
    events: Vec<Happening>,
    overlong: u64,
    log_failed: Option<String>,
    doubt: Option<String>,
    bad_norms: Option<NormsError>,
}

impl Gathered {
    fn line(&mut self, progress: &mut Progress, disbelieved: &mut Disbelieved, line: &[u8]) {
        let parsed = progress.parse(line);
        self.doubt = self.doubt.take().or_else(|| progress.doubt());
        if let Some(Message::Step { .. }) = parsed {
            *disbelieved = Disbelieved::Settled;
        } else if let Some(why) = disbelieved.look(line) {
            self.doubt.get_or_insert(why);
        }
        let what = match parsed {
            None => return,
            Some(Message::Loaded) => Happening::Loaded,
            Some(Message::Ready { sms, mps }) => Happening::Ready { sms, mps },
            Some(Message::Parked) => Happening::Parked,
            Some(Message::Done { samples }) => Happening::Done { samples },
            Some(Message::Step {
                steps,
                samples,
                loss,
                step,
                norms,
            }) => {
                let mut gradient = Moments::default();
                match norms {
                    Some(Ok(norms)) => gradient.add(&norms),
                    Some(Err(why)) => self.bad_norms = self.bad_norms.or(Some(why)),
                    None => {}
                }
                return self.step((steps, samples), loss, step, &gradient);
            }
        };
        self.events.push(what);
    }

    fn step(
        &mut self,
        (count, more): (u64, u64),
        new: Option<f64>,
        number: Option<u64>,
        norms: &Moments,
    ) {
        if let Some(Happening::Steps {
            steps,
            samples,
            loss,
            last,
            gradient,
        }) = self.events.last_mut()
        {
            *steps = steps.saturating_add(count);
            *last = number.or(*last);
            *samples = samples.saturating_add(more);
            *loss = new.or(*loss);
            gradient.merge(norms);
        } else {
            self.events.push(Happening::Steps {
                steps: count,
                samples: more,
                loss: new,
                last: number,
                gradient: *norms,
            });
        }
    }

    fn tell(self, job: JobId, queue: &mut Vec<Event>) {
        let at = Instant::now();
        let overlong = (self.overlong > 0).then_some(Happening::Overlong(self.overlong));
        let failed = self.log_failed.map(Happening::LogFailed);
        let doubt = self.doubt.map(Happening::Doubt);
        let bad_norms = self.bad_norms.map(Happening::NormsLeftOut);
        let all = self
            .events
            .into_iter()
            .chain(overlong)
            .chain(failed)
            .chain(doubt)
            .chain(bad_norms);
        queue.extend(all.map(|what| Event { job, at, what }));
    }
}
