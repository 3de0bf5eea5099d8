use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::errno::Errno;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use units::TaskId;

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
) -> Result<Child, SpawnError> {
    let program = spec.argv.first().cloned().unwrap_or_default();
    let seat = Seat {
        quota: spec.cgroup_procs.as_deref().map(open_procs).transpose()?,
        enclosure: enclosure.and_then(|path| open_procs(path).ok()),
        cpus: cpu_set(&spec.cpus),
        brand: sign.brand(),
    };
    let mut command = Command::new(&program);
    command
        .args(spec.argv.iter().skip(1))
        .env_clear()
        .envs(&spec.env)
        .env(MARK, sign.mark())
        .stdin(if spec.orders {
            Stdio::piped()
        } else {
            Stdio::null()
        })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    if let Some(cwd) = &spec.cwd {
        command.current_dir(cwd);
    }
    before_exec(&mut command, seat);
    command.spawn().map_err(|source| match &spec.cwd {
        // The error is the same as for a missing program.
        Some(cwd) if !cwd.is_dir() => SpawnError::Folder {
            path: cwd.clone(),
            source: fs::read_dir(cwd).err().unwrap_or(source),
        },
        _ => SpawnError::Program {
            program: program.to_string_lossy().into_owned(),
            source: with_limit(source),
        },
    })
}

/// Makes a program that is not a job die with the thread that starts it, carry a sign, and join a control group if
/// that accepts it.
pub(crate) fn contain(command: &mut Command, sign: &Sign, enclosure: Option<&Path>) {
    command.env(MARK, sign.mark()).process_group(0);
    let seat = Seat {
        quota: None,
        enclosure: enclosure.and_then(|path| open_procs(path).ok()),
        cpus: None,
        brand: sign.brand(),
    };
    before_exec(command, seat);
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

fn open_procs(path: &Path) -> Result<File, SpawnError> {
    OpenOptions::new()
        .write(true)
        .open(path)
        .map_err(|source| SpawnError::Cgroup {
            path: path.to_owned(),
            source: with_limit(source),
        })
}

fn cpu_set(cpus: &[usize]) -> Option<CpuSet> {
    let mut set = CpuSet::new();
    let mut any = false;
    for &cpu in cpus {
        any |= set.set(cpu).is_ok();
    }
    any.then_some(set)
}

/// The control groups that a new process joins before it becomes its program.
struct Seat {
    /// `cgroup.procs` of a group that it must be in.
    quota: Option<File>,
    /// The same for a group that may refuse it: a group delegated to a user, if this process is outside of the
    /// delegated subtree.
    enclosure: Option<File>,
    cpus: Option<CpuSet>,
    brand: u64,
}

/// Puts this process into a group. An interruption by a signal is no reason to give up.
fn enter(procs: &File) -> nix::Result<()> {
    loop {
        match nix::unistd::write(procs, b"0") {
            Err(Errno::EINTR) => {}
            written => return written.map(drop),
        }
    }
}

#[expect(
    unsafe_code,
    reason = "the closure runs between fork and exec, where only async-signal-safe calls are \
              allowed: prctl, getppid, write, setrlimit and sched_setaffinity are; it does not \
              allocate"
)]
fn before_exec(command: &mut Command, seat: Seat) {
    let parent = nix::unistd::getpid();
    let hook = move || {
        // First of all, so that whatever this process starts is inside the group as well.
        if let Some(procs) = &seat.quota {
            enter(procs)?;
        }
        if let Some(procs) = &seat.enclosure {
            // Refused: mark, brand and process group remain to find what it starts.
            enter(procs).ok();
        }
        // Refused: the mark remains.
        bear(seat.brand).ok();
        if let Some(cpus) = &seat.cpus {
            sched_setaffinity(Pid::from_raw(0), cpus)?;
        }
        nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
        // The parent may have died before the line above took effect.
        if nix::unistd::getppid() != parent {
            return Err(io::Error::from(nix::errno::Errno::ESRCH));
        }
        Ok(())
    };
    // SAFETY: see the reason above.
    unsafe {
        command.pre_exec(hook);
    }
}
