use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use units::TaskId;

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
    /// How it tells its progress.
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

/// Variable that marks every process of a job, so that it is found wherever it has gone.
pub const MARK: &str = "MT_JOB_MARK";

/// Starts the program in a process group of its own; it dies with the thread that calls this.
pub(crate) fn spawn(spec: &JobSpec, mark: &str) -> Result<Child, SpawnError> {
    let program = spec.argv.first().cloned().unwrap_or_default();
    let procs = spec.cgroup_procs.as_deref().map(open_procs).transpose()?;
    let mut command = Command::new(&program);
    command
        .args(spec.argv.iter().skip(1))
        .env_clear()
        .envs(&spec.env)
        .env(MARK, mark)
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
    before_exec(&mut command, procs, cpu_set(&spec.cpus));
    command.spawn().map_err(|source| SpawnError::Program {
        program: program.to_string_lossy().into_owned(),
        source,
    })
}

fn open_procs(path: &Path) -> Result<File, SpawnError> {
    OpenOptions::new()
        .write(true)
        .open(path)
        .map_err(|source| SpawnError::Cgroup {
            path: path.to_owned(),
            source,
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

#[expect(
    unsafe_code,
    reason = "the closure runs between fork and exec, where only async-signal-safe calls are \
              allowed: prctl, getppid, write and sched_setaffinity are; it does not allocate"
)]
fn before_exec(command: &mut Command, procs: Option<File>, cpus: Option<CpuSet>) {
    let parent = nix::unistd::getpid();
    let hook = move || {
        // Before anything else: whatever this process starts is inside the group as well.
        if let Some(procs) = &procs {
            nix::unistd::write(procs, b"0")?;
        }
        if let Some(cpus) = &cpus {
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
