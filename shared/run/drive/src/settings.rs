use std::path::{Path, PathBuf};

use cli::Replaced;
use doc::Schedule;

use jobs::{Supervision, TimeLimits};

use crate::Where;

/// How a schedule is run.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where tasks run.
    pub place: Where,
    /// Restarts, logs and how tasks are ended.
    pub supervision: Supervision,
    /// Time limits of tasks.
    pub limits: TimeLimits,
    /// File of metrics.
    pub metrics: Option<Replaced>,
    /// Whether jobs on GPUs use a running MPS daemon, and leave it running.
    pub attach_mps: bool,
    /// Seed of new plans.
    pub seed: u64,
    /// The journal, which records completed tasks.
    pub journal: KeptIn,
    /// Whether the run of the journal is continued.
    pub resume: bool,
    /// Events of the run: weights, estimates, deadlines, jobs that are cancelled, GPUs that are lost or found.
    pub events: Option<PathBuf>,
    /// File for the status of the jobs.
    pub status: Option<Replaced>,
}

/// Location of a journal.
#[derive(Debug, Clone)]
pub enum KeptIn {
    /// In a file of the user, which is never removed. If it has records, it is resumed or not used at all.
    File(PathBuf),
    /// Beside the output, or with the run directories. It serves only this run, and is removed when the run is
    /// complete. An unfinished journal is replaced, unless the run is continued.
    Default(PathBuf),
}

impl KeptIn {
    /// The journal of a schedule for which the user named none: beside the output if that is a file, otherwise with the
    /// run directories. `before` is the number of earlier schedules on the command line.
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
    /// The settings in effect. Tasks behind a prefix get this complete environment, since the prefix is a program of
    /// the user, and every engine forwards the part of the environment for which it is configured.
    pub(crate) fn for_place(&self) -> Self {
        let mut own = self.clone();
        if let Where::Via(_) = own.place {
            own.supervision.passing = own.supervision.passing.everything();
        }
        own
    }
}
