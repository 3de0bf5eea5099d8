use std::path::{Path, PathBuf};

use cli::Replaced;
use doc::Schedule;

use jobs::{Supervision, TimeLimits};

use crate::Where;

/// How a schedule is run.
#[derive(Debug, Clone)]
pub struct Settings {
    /// On what.
    pub place: Where,
    /// Restarts, logs and how tasks are ended.
    pub supervision: Supervision,
    /// When a task is late.
    pub limits: TimeLimits,
    /// File of metrics.
    pub metrics: Option<Replaced>,
    /// Whether jobs on GPUs use a running MPS daemon, and leave it running.
    pub attach_mps: bool,
    /// Seed of new plans.
    pub seed: u64,
    /// Where it is kept which tasks are done.
    pub journal: KeptIn,
    /// Whether the run of the journal is continued.
    pub resume: bool,
    /// Events of the run: weights, estimates, deadlines, jobs that are cancelled, GPUs that are lost or found.
    pub events: Option<PathBuf>,
    /// Where it is written how far the jobs are.
    pub status: Option<Replaced>,
}

/// Where a journal is.
#[derive(Debug, Clone)]
pub enum KeptIn {
    /// In a file of the user's, which is never removed. If it has records, it is resumed or not
    /// used at all.
    File(PathBuf),
    /// Beside the output, or with the run directories: it serves this run, and goes when that is complete. An
    /// unfinished one is replaced, unless it is continued.
    Default(PathBuf),
}

impl KeptIn {
    /// The journal of a schedule for which nobody named one, of which there were so many before it on the command
    /// line: beside the output where that is a file, else with the run directories.
    #[must_use]
    pub fn unnamed(output: Option<&Path>, runs: &Path, schedule: &Schedule, before: usize) -> Self {
        let is_file = |path: &&Path| path.as_os_str() != "-" && (!path.exists() || path.is_file());
        let Some(output) = output.filter(is_file) else {
            return Self::Default(runs.join(format!("{}.journal", schedule.fingerprint)));
        };
        let mut name = output.as_os_str().to_owned();
        if before > 0 {
            name.push(format!(".{}", before + 1));
        }
        name.push(".journal");
        Self::Default(name.into())
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        let (Self::File(path) | Self::Default(path)) = self;
        path
    }
}

impl Settings {
    /// As they are used: what is started behind a prefix gets this environment whole, since the prefix
    /// is a program of the user's, and every engine forwards of it what it is configured to.
    pub(crate) fn for_place(&self) -> Self {
        let mut own = self.clone();
        if let Where::Via(_) = own.place {
            own.supervision.passing = own.supervision.passing.everything();
        }
        own
    }
}
