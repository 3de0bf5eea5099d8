//! The records of an interrupted profile, which are not measured again.

use std::path::Path;

use device::Rate;
use doc::{Choice, Failure as Failed, Header, Profile, Sample, StopReason, Workload};
use units::corun::Setting;

use crate::DesignError;

/// One configuration of an earlier profile.
#[derive(Debug, Clone)]
pub enum Recorded {
    /// It was measured.
    Sample(Sample),
    /// It could not be measured.
    Failure(Failed),
}

impl Recorded {
    fn config(&self) -> u64 {
        match self {
            Recorded::Sample(sample) => sample.config,
            Recorded::Failure(failure) => failure.config,
        }
    }

    /// The measured rates; `None` for a failure.
    pub fn rates(&self) -> Option<Vec<Rate>> {
        match self {
            Recorded::Failure(_) => None,
            Recorded::Sample(sample) => {
                let rate = |task: &doc::Measured| Rate {
                    throughput: task.throughput,
                    stderr: task.stderr,
                    gradient: task.gradient,
                    launch: task.launch,
                };
                Some(sample.tasks.iter().map(rate).collect())
            }
        }
    }

    /// Seconds of its windows; 0 for a failed configuration.
    pub fn seconds(&self) -> f64 {
        match self {
            Recorded::Failure(_) => 0.0,
            Recorded::Sample(sample) => sample.window.get() * f64::from(sample.repeats),
        }
    }

    /// Whether it is a record of the configuration `runs`.
    pub fn is(&self, runs: &[Setting], workload: &Workload) -> bool {
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

/// The records of a profile in order; an error if its header differs from the current one.
pub fn records(
    path: &Path,
    profile: Profile,
    header: &Header,
) -> Result<Vec<Recorded>, DesignError> {
    let refuse = |what: &str| DesignError::OtherStart {
        path: path.to_owned(),
        what: what.to_owned(),
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
    // If a profile ended with a failure, the user has probably corrected the cause, so the failed configuration is
    // measured again.
    if profile
        .end
        .is_some_and(|end| end.stopped == StopReason::Failure)
    {
        records.pop();
    }
    Ok(records)
}
