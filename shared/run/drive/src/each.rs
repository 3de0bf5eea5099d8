use std::path::{Path, PathBuf};

use cli::{Console, Exit, Failure, Output, Replaced};
use doc::{DeviceKind, Schedule};
use jobs::{Supervision, TimeLimits};

use crate::{KeptIn, Settings, Where, run};

/// How to run several schedules one after another.
#[derive(Debug)]
pub struct RunRequest<'a> {
    /// Prefix of every task's command; `None`: the tasks run on this machine.
    pub via: Option<&'a str>,
    /// Device of this machine; `None`: chosen automatically.
    pub device: Option<DeviceKind>,
    /// Restarts, logs and how tasks are ended.
    pub supervision: Supervision,
    /// Whether jobs on GPUs use a running MPS daemon, and leave it running.
    pub attach_mps: bool,
    /// Time limits of tasks.
    pub limits: TimeLimits,
    /// File of metrics.
    pub metrics: Option<Replaced>,
    /// Seed of new plans.
    pub seed: u64,
    /// Journal that the user named; only for a single schedule.
    pub journal: Option<&'a Path>,
    /// Whether the run of the journal is continued.
    pub resume: bool,
    /// Events of the run.
    pub events: Option<PathBuf>,
    /// File for the status of the jobs.
    pub status: Option<Replaced>,
    /// Files that contain the schedules.
    pub files: &'a [PathBuf],
    /// Output file for the events of the run.
    pub output: Option<&'a Path>,
}

impl RunRequest<'_> {
    /// Runs the schedules one after another, until a signal ends one of them.
    ///
    /// # Errors
    /// [`Failure::Usage`] for options that contradict each other or the schedules; those of [`run()`].
    pub fn run_all(
        &self,
        schedules: impl Iterator<Item = Result<Schedule, Failure>>,
        output: &mut Output,
        console: &Console,
    ) -> Result<Exit, Failure> {
        let dash = Path::new("-");
        let from_standard_input = self.files.is_empty() || self.files.iter().any(|f| f == dash);
        if self.events.as_deref() == Some(dash) && from_standard_input {
            let text = "--events -: standard input has the schedule; give one of the two as FILE";
            return Err(Failure::Usage(text.to_owned()));
        }
        let mut exit = Exit::Done;
        let mut schedules = schedules.enumerate().peekable();
        while let Some((before, schedule)) = schedules.next() {
            let schedule = schedule?;
            if self.journal.is_some() && schedules.peek().is_some() {
                let text = "--journal: a journal is of one schedule, and there are several";
                return Err(Failure::Usage(text.to_owned()));
            }
            let settings = self.settings(&schedule, before)?;
            let one = run(&schedule, &settings, output, console)?;
            exit = exit.worst(one);
            if matches!(one, Exit::Signal(_)) {
                break;
            }
        }
        Ok(exit)
    }

    /// Settings for a schedule that follows `before` others on the command line.
    fn settings(&self, schedule: &Schedule, before: usize) -> Result<Settings, Failure> {
        let journal = match self.journal {
            Some(path) => KeptIn::File(path.to_owned()),
            None => KeptIn::unnamed(self.output, &self.supervision.runs, schedule, before),
        };
        Ok(Settings {
            place: Where::asked(self.via, self.device, &schedule.cluster)
                .map_err(Failure::Usage)?,
            supervision: self.supervision.clone(),
            limits: self.limits,
            metrics: self.metrics.clone(),
            attach_mps: self.attach_mps,
            seed: self.seed,
            journal,
            resume: self.resume,
            events: self.events.clone(),
            status: self.status.clone(),
        })
    }
}
