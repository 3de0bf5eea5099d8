//! A device that replays recorded samples; it cannot measure unrecorded configurations.

use std::collections::BTreeMap;

use doc::{Code, DeviceFingerprint, DeviceKind, FailureCause, Profile, Workload};
use efficiency::Moments;
use units::corun::Setting;
use units::{SamplesPerSec, Seconds, TaskId};

use crate::{Device, Failed, MeasureError, Measurement, OpenError, Rate, Window};

/// A profile that stands in for the device on which it was measured.
#[derive(Debug)]
pub struct Replay {
    fingerprint: DeviceFingerprint,
    recorded: BTreeMap<Vec<Setting>, Result<Measurement, Failed>>,
    configurations: Vec<Vec<Setting>>,
}

impl Replay {
    /// Indexes a recording by configuration. If a configuration was recorded several times, the result is the mean,
    /// weighted by repeats; a success outweighs a failure.
    ///
    /// # Errors
    /// [`OpenError::Workload`] if the recording has none of the workload's tasks.
    pub fn open(workload: &Workload, recording: &Profile) -> Result<Self, OpenError> {
        let mut groups: BTreeMap<Vec<Setting>, Vec<Measurement>> = BTreeMap::new();
        let mut configurations = Vec::new();
        for sample in &recording.samples {
            let Some((runs, rates)) = sorted(workload, sample.tasks.iter().map(recorded_rate))
            else {
                continue;
            };
            let group = groups.entry(runs.clone()).or_default();
            if group.is_empty() {
                configurations.push(runs);
            }
            group.push(Measurement {
                rates,
                window: sample.window,
                repeats: sample.repeats.max(1),
                gpu: sample.gpu.clone(),
            });
        }
        let mut recorded: BTreeMap<Vec<Setting>, Result<Measurement, Failed>> = BTreeMap::new();
        for (runs, group) in groups {
            let mean = mean(&group);
            recorded.insert(
                runs,
                mean.map_err(|why| Failed::new(FailureCause::Other, why)),
            );
        }
        for failure in &recording.failures {
            let tasks = failure
                .tasks
                .iter()
                .map(|t| (t.id.clone(), t.batch, t.share, ()));
            if let Some((runs, _)) = sorted(workload, tasks)
                && !recorded.contains_key(&runs)
            {
                configurations.push(runs.clone());
                recorded.insert(runs, Err(failed(workload, failure)));
            }
        }
        if recorded.is_empty() {
            return Err(OpenError::workload(
                Code::UnknownName,
                "$.tasks",
                "the recording has no configuration of these tasks".to_owned(),
                "give the profile of this workload",
            ));
        }
        Ok(Self {
            fingerprint: DeviceFingerprint {
                kind: DeviceKind::Replay,
                ..recording.header.device.clone()
            },
            recorded,
            configurations,
        })
    }
}

fn failed(workload: &Workload, failure: &doc::Failure) -> Failed {
    let task = failure.task.as_ref();
    Failed {
        reason: failure.reason.clone(),
        cause: failure.cause,
        task: task.and_then(|id| workload.task_index(id)),
        output: failure.output.clone().unwrap_or_default(),
    }
}

type RecordedTask<T> = (TaskId, units::Batch, units::Share, T);

fn recorded_rate(task: &doc::Measured) -> RecordedTask<Rate> {
    let rate = Rate {
        throughput: task.throughput,
        stderr: task.stderr,
        gradient: task.gradient,
        launch: task.launch,
    };
    (task.id.clone(), task.batch, task.share, rate)
}

/// The runs of a record in the order of the workload; `None` if it has another task.
fn sorted<T>(
    workload: &Workload,
    tasks: impl Iterator<Item = RecordedTask<T>>,
) -> Option<(Vec<Setting>, Vec<T>)> {
    let pairs: Option<Vec<(Setting, T)>> = tasks
        .map(|(id, batch, share, value)| {
            let task = workload.task_index(&id)?;
            Some((Setting { task, batch, share }, value))
        })
        .collect();
    let mut pairs = pairs?;
    pairs.sort_by_key(|(run, _)| *run);
    Some(pairs.into_iter().unzip())
}

fn mean(group: &[Measurement]) -> Result<Measurement, String> {
    if let [one] = group {
        return Ok(one.clone());
    }
    let total: f64 = group.iter().map(|m| f64::from(m.repeats)).sum();
    let weigh = |value: &dyn Fn(&Measurement) -> f64| -> f64 {
        let sum: f64 = group.iter().map(|m| f64::from(m.repeats) * value(m)).sum();
        sum / total
    };
    let tasks = group.first().map_or(0, |m| m.rates.len());
    let rates: Result<Vec<Rate>, units::UnitError> = (0..tasks)
        .map(|i| {
            let throughput = weigh(&|m| m.rates[i].throughput.get());
            // Var(sum w_k x_k) = sum w_k^2 Var(x_k)
            let variance: Option<f64> = group
                .iter()
                .map(|m| {
                    let weight = f64::from(m.repeats) / total;
                    m.rates[i].stderr.map(|s| (weight * s.get()).powi(2))
                })
                .sum();
            let mut gradient = Moments::default();
            for told in group.iter().filter_map(|m| m.rates[i].gradient.as_ref()) {
                gradient.merge(&Moments::from(told));
            }
            Ok(Rate {
                gradient: gradient.to_document(),
                throughput: SamplesPerSec::new(throughput)?,
                stderr: variance.map(|v| SamplesPerSec::new(v.sqrt())).transpose()?,
                launch: group.first().map(|m| m.rates[i].launch).unwrap_or_default(),
            })
        })
        .collect();
    let text = |error: units::UnitError| error.to_string();
    Ok(Measurement {
        rates: rates.map_err(text)?,
        window: Seconds::new(weigh(&|m| m.window.get())).map_err(text)?,
        repeats: group
            .iter()
            .fold(0, |sum: u32, m| sum.saturating_add(m.repeats)),
        // The five GPU values of repeated samples have no common mean.
        gpu: match group {
            [only] => only.gpu.clone(),
            _ => None,
        },
    })
}

impl Device for Replay {
    fn fingerprint(&self) -> DeviceFingerprint {
        self.fingerprint.clone()
    }

    fn measure(
        &mut self,
        configuration: &[Setting],
        _: &Window,
    ) -> Result<Measurement, MeasureError> {
        match self.recorded.get(configuration) {
            Some(Ok(measurement)) => Ok(measurement.clone()),
            Some(Err(failed)) => Err(MeasureError::Failed(Box::new(failed.clone()))),
            None => Err(MeasureError::Unrecorded),
        }
    }

    fn only(&self) -> Option<&[Vec<Setting>]> {
        Some(&self.configurations)
    }
}

#[cfg(test)]
mod tests;
