use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use units::TaskId;

use crate::{LogLimits, Origin, ProgressSource};

/// A program to start, and how to supervise it.
#[derive(Debug, Clone)]
pub struct JobSpec {
    /// The task that it works for.
    pub task: TaskId,
    /// Program and arguments; not empty.
    pub argv: Vec<OsString>,
    /// Its environment; [`crate::defaults()`] are added.
    pub env: BTreeMap<OsString, OsString>,
    /// Working directory; `None`: that of this process.
    pub cwd: Option<PathBuf>,
    /// Whether it gets orders on standard input; if not, its standard input is empty.
    pub orders: bool,
    /// How it reports its progress.
    pub progress: ProgressSource,
    /// The `cgroup.procs` file of the control group to start in.
    pub cgroup_procs: Option<PathBuf>,
    /// Processors to run on; empty: any.
    pub cpus: Vec<usize>,
    /// Other attributes that it inherits; `None`: those of this process. `cpus` takes precedence.
    pub origin: Option<Origin>,
    /// Path of the log for standard output and standard error.
    pub log: PathBuf,
    /// Size limits of the log.
    pub log_limits: LogLimits,
}
