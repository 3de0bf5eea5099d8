mod program;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::errno::Errno;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use units::TaskId;

pub(crate) use self::program::{Process, wait};
use crate::sign::{MARK, Sign, bear};
use crate::{LogLimits, Progress};

/// A program to start and how to look after it.
#[derive(Debug, Clone)]
pub struct JobSpec {
    /// The task that it works for.
    pub task: TaskId,
    /// Program and arguments; not empty.
    pub argv: Vec<OsString>,
    /// Its whole environment.
    pub env: BTreeMap<OsString, OsString>,
    /// Working directory; `None`: that of this process.
    pub cwd: Option<PathBuf>,
    /// Whether it gets orders on standard input; if not, its standard input is empty.
    pub orders: bool,
    /// How it reports its progress.
    pub progress: Progress,
    /// The `cgroup.procs` file of the control group to start in.
    pub cgroup_procs: Option<PathBuf>,
    /// Processors to run on; empty: any.
    pub cpus: Vec<usize>,
    /// Where standard output and standard error go.
    pub log: PathBuf,
    /// How large the log may grow.
    pub log_limits: LogLimits,
}

/// Why a job could not be started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The program cannot be run.
    #[error("cannot start {program:?}: {source}")]
    Program {
        /// Its name.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// Its working directory cannot be used.
    #[error("cannot start in the folder {path}: {source}; name an existing one, or none (\"cwd\" of the job)", path = path.display())]
    Folder {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Its log cannot be written.
    #[error("cannot write the log {path}: {source}", path = path.display())]
    Log {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Its control group cannot be entered.
    #[error("cannot enter the control group {path}: {source}", path = path.display())]
    Cgroup {
        /// Its `cgroup.procs`.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl SpawnError {
    /// Whether the machine temporarily lacks what a start needs: processes, descriptors, memory, disk space. The same
    /// start may succeed later, unlike one with a missing program.
    #[must_use]
    pub fn is_shortage(&self) -> bool {
        let (Self::Program { source, .. }
        | Self::Folder { source, .. }
        | Self::Log { source, .. }
        | Self::Cgroup { source, .. }) = self;
        let full = [
            io::ErrorKind::StorageFull,
            io::ErrorKind::QuotaExceeded,
            io::ErrorKind::OutOfMemory,
        ];
        full.contains(&source.kind()) || source.get_ref().is_some_and(|e| e.is::<Limit>())
    }
}

/// A limit has been reached that the system's message does not name.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Limit(&'static str);

/// Starts the program in its own process group; it dies with the calling thread. It is put into the control group
/// with the `cgroup.procs` file `enclosure`, if possible.
pub(crate) fn spawn(
    spec: &JobSpec,
    sign: &Sign,
    enclosure: Option<&Path>,
) -> Result<Process, SpawnError> {
    let quota = spec.cgroup_procs.as_deref().map(Group::open).transpose()?;
    let seat = Seat {
        must: quota.is_some(),
        group: quota.or_else(|| Group::open(enclosure?).ok()),
        cpus: cpu_set(&spec.cpus),
        ..Seat::of(sign)
    };
    let mark = sign.mark();
    program::start(spec, (MARK, mark.as_ref()), &seat).map_err(|source| match &spec.cwd {
        // The error is the same as for a missing program.
        Some(cwd) if !cwd.is_dir() => SpawnError::Folder {
            path: cwd.clone(),
            source: fs::read_dir(cwd).err().unwrap_or(source),
        },
        _ => SpawnError::Program {
            program: spec
                .argv
                .first()
                .map_or_else(String::new, |p| p.to_string_lossy().into_owned()),
            source: with_limit(source),
        },
    })
}

/// Makes a program that is not a job die with the thread that starts it, carry a sign, and join a control group if
/// that accepts it.
pub(crate) fn contain(command: &mut Command, sign: &Sign, enclosure: Option<&Path>) {
    command.env(MARK, sign.mark()).process_group(0);
    let seat = Seat {
        group: enclosure.and_then(|path| Group::open(path).ok()),
        ..Seat::of(sign)
    };
    let hook = move || Ok(seat.take(false)?);
    // SAFETY: the closure runs between fork and exec, where only async-signal-safe calls are allowed, and makes no
    // other.
    #[expect(unsafe_code, reason = "see above")]
    unsafe {
        command.pre_exec(hook);
    }
}

/// The system's message for too many processes ("Resource temporarily unavailable") or files does not name a limit.
pub(crate) fn with_limit(error: io::Error) -> io::Error {
    let limit = match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::EAGAIN) => {
            "no more processes may be started: the limit of this user (ulimit -u) or of its control group \
             (pids.max; in a container, --pids-limit) is reached"
        }
        Some(Errno::EMFILE) => {
            "no more files may be open: the limit of this process (ulimit -n) is reached"
        }
        Some(Errno::ENFILE) => {
            "no more files may be open: the limit of the machine (fs.file-max) is reached"
        }
        _ => return error,
    };
    io::Error::new(error.kind(), Limit(limit))
}

fn cpu_set(cpus: &[usize]) -> Option<CpuSet> {
    let mut set = CpuSet::new();
    let mut any = false;
    for &cpu in cpus {
        any |= set.set(cpu).is_ok();
    }
    any.then_some(set)
}

/// A control group to start in.
struct Group {
    /// Its `cgroup.procs`, which takes processes that move.
    procs: File,
    folder: Option<File>,
}

impl Group {
    fn open(procs: &Path) -> Result<Self, SpawnError> {
        let file = OpenOptions::new().write(true).open(procs);
        Ok(Self {
            procs: file.map_err(|source| SpawnError::Cgroup {
                path: procs.to_owned(),
                source: with_limit(source),
            })?,
            folder: procs.parent().and_then(|folder| File::open(folder).ok()),
        })
    }

    /// Puts this process into the group. An interruption by a signal is no reason to give up.
    fn enter(&self) -> nix::Result<()> {
        loop {
            match nix::unistd::write(&self.procs, b"0") {
                Err(Errno::EINTR) => {}
                written => return written.map(drop),
            }
        }
    }
}

/// What a new process does before it becomes its program.
struct Seat {
    group: Option<Group>,
    /// Whether it must be in the group. Otherwise the group may refuse it: one delegated to a user, if this process
    /// is outside of the delegated subtree.
    must: bool,
    cpus: Option<CpuSet>,
    brand: u64,
    parent: Pid,
}

impl Seat {
    fn of(sign: &Sign) -> Self {
        Self {
            group: None,
            must: false,
            cpus: None,
            brand: sign.brand(),
            parent: nix::unistd::getpid(),
        }
    }

    /// The folder of its group.
    fn folder(&self) -> Option<BorrowedFd<'_>> {
        self.group.as_ref()?.folder.as_ref().map(File::as_fd)
    }

    /// Takes the seat, in a new process that is already in its group if `inside`. Only async-signal-safe calls are
    /// made: prctl, getppid, write, getrlimit, setrlimit and sched_setaffinity.
    fn take(&self, inside: bool) -> nix::Result<()> {
        // First of all, so that whatever this process starts is inside the group as well.
        if let Some(group) = &self.group
            && !inside
        {
            match group.enter() {
                Err(error) if self.must => return Err(error),
                // Refused: mark, brand and process group remain to find what it starts.
                _ => {}
            }
        }
        // Refused: the mark remains.
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
