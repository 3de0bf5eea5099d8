//! What an interrupted profile has measured already.

use std::fs;
use std::io;
use std::path::Path;

use cli::{Console, Failure};
use device::{Rate, Run};
use doc::{Choice, Failure as Failed, Frames, Header, Profile, Profiles, Sample, Workload};

/// One configuration of an earlier profile.
#[derive(Debug, Clone)]
pub enum Recorded {
    /// It was measured.
    Sample(Sample),
    /// It could not be.
    Failure(Failed),
}

impl Recorded {
    fn config(&self) -> u64 {
        match self {
            Recorded::Sample(sample) => sample.config,
            Recorded::Failure(failure) => failure.config,
        }
    }

    /// What was measured, if anything.
    pub fn rates(&self) -> Option<Vec<Rate>> {
        match self {
            Recorded::Failure(_) => None,
            Recorded::Sample(sample) => {
                let rate = |task: &doc::Measured| Rate {
                    throughput: task.throughput,
                    stderr: task.stderr,
                };
                Some(sample.tasks.iter().map(rate).collect())
            }
        }
    }

    /// Whether it is the configuration `runs`.
    pub fn is(&self, runs: &[Run], workload: &Workload) -> bool {
        let same = |index: usize, task: &Choice| {
            runs.get(index).is_some_and(|run| {
                workload.tasks[run.task].id == task.id
                    && (run.batch, run.share) == (task.batch, task.share)
            })
        };
        let tasks: Vec<Choice> = match self {
            Recorded::Failure(failure) => failure.tasks.clone(),
            Recorded::Sample(sample) => {
                let choice = |task: &doc::Measured| Choice {
                    id: task.id.clone(),
                    batch: task.batch,
                    share: task.share,
                };
                sample.tasks.iter().map(choice).collect()
            }
        };
        tasks.len() == runs.len() && tasks.iter().enumerate().all(|(i, task)| same(i, task))
    }
}

/// The profiles in a file; none if there is no file yet. A last line without its end is what a
/// killed tool leaves behind, and is measured again.
pub fn read(path: &Path, console: &Console) -> Result<Vec<Profile>, Failure> {
    let mut bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            console.note(&format!("{} is not there yet", path.display()));
            return Ok(Vec::new());
        }
        Err(error) => return Err(Failure::file(path, &error)),
    };
    let whole = bytes.iter().rposition(|b| *b == b'\n').map_or(0, |i| i + 1);
    bytes.truncate(whole);
    if bytes.is_empty() {
        return Ok(Vec::new());
    }
    let frames = Frames::new(bytes.as_slice(), path.display().to_string());
    Profiles::new(frames)
        .map(|profile| profile.map_err(Failure::from))
        .collect()
}

/// The records of a profile in order, if it began as the present one does.
pub fn records(path: &Path, profile: Profile, header: &Header) -> Result<Vec<Recorded>, Failure> {
    let refuse = |what: &str| {
        Failure::Input(format!(
            "{}: the profile was made with {what}; give the same, or start a new profile",
            path.display()
        ))
    };
    let old = &profile.header;
    if old.workload.tasks != header.workload.tasks || old.workload.id != header.workload.id {
        return Err(refuse("another workload"));
    }
    if old.device != header.device || old.workload.device != header.workload.device {
        return Err(refuse(&format!(
            "another device ({}, not {})",
            old.device.name, header.device.name
        )));
    }
    if old.design != header.design {
        return Err(refuse("another --design"));
    }
    if old.seed != header.seed {
        return Err(refuse(&format!("--seed {}", old.seed)));
    }
    if old.window != header.window {
        return Err(refuse(&match old.window {
            Some(window) => format!("--window {}", window.get()),
            None => "the default --window".to_owned(),
        }));
    }
    let samples = profile.samples.into_iter().map(Recorded::Sample);
    let failures = profile.failures.into_iter().map(Recorded::Failure);
    let mut records: Vec<Recorded> = samples.chain(failures).collect();
    records.sort_by_key(Recorded::config);
    Ok(records)
}
