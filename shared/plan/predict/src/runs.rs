//! Extracts measurements from the events of launched runs.
//!
//! A launch that follows a plan is also a measurement: while the same tasks train under the same shares, their
//! progress events give their throughputs. A *steady* stretch begins when every process on the GPU trains, and ends
//! when a process starts or ends or its share changes. Intervals between two progress events of a task (or from its
//! `ready` to the first) count if they lie entirely within the stretch. Stretches of the same configuration are
//! added up over the rounds of a run. So a run yields co-runs of all its tasks, co-runs of the tasks that remain
//! after others have ended, and a solo run of the last task.

use std::collections::{BTreeMap, BTreeSet};

use doc::{
    DesignKind, DeviceFingerprint, EventPayload, Header, Measured, PhaseKind, Plan, Planned,
    Profile, RunEvent, Sample, TaskProgress,
};
use units::{Batch, SamplesPerSec, Seconds, Share, TaskId};

/// Minimum training time of every task in a configuration, in seconds, and minimum number of steps. A stretch cuts
/// off at most one step at each end, which is at most 5 % of the count per end; shorter stretches consist mostly of
/// start and end.
const LEAST_S: f64 = 1.0;
const LEAST_STEPS: u64 = 20;

/// Minimum number of intervals to estimate an error from their spread: with fewer, the estimate of a standard
/// deviation is itself off by half.
const LEAST_INTERVALS: usize = 4;

/// Why a run yields no measurement.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// The run has a task that the profile lacks.
    #[error(
        "the run has the task {task}, which the profile before it does not have; it has {known}"
    )]
    OtherTasks {
        /// The first task that is missing.
        task: TaskId,
        /// Tasks of the profile.
        known: String,
    },
    /// The run was on another device.
    #[error("the run was on {run}, the profile on {profile}; give measurements of one device")]
    OtherDevice {
        /// Device of the run.
        run: String,
        /// Device of the profile.
        profile: String,
    },
    /// The run has no plan with a workload, and no profile precedes it.
    #[error(
        "the run carries no plan with a workload, so it cannot replace a profile; give its profile before it"
    )]
    NoWorkload,
    /// No stretch is long enough.
    #[error(
        "nothing is learnt from the run: no tasks train steadily under shares for {LEAST_S} s and {LEAST_STEPS} steps each, with progress that says how long"
    )]
    Nothing,
}

/// Adds the measurements of a run to a profile of the same tasks and device; returns the number of configurations.
///
/// # Errors
/// [`RunError`] if the run does not fit the profile or has no measurement; the profile is then unchanged.
pub fn join(profile: &mut Profile, events: &[RunEvent]) -> Result<usize, RunError> {
    let (device, _) = launch(events).ok_or(RunError::Nothing)?;
    let own = &profile.header.device;
    if (own.kind, &own.name, own.simulated) != (device.kind, &device.name, device.simulated) {
        return Err(RunError::OtherDevice {
            run: name(device),
            profile: name(own),
        });
    }
    let tasks = &profile.header.workload.tasks;
    let samples = samples(events)?;
    let mut named = samples.iter().flat_map(|s| &s.tasks);
    if let Some(other) = named.find(|m| tasks.iter().all(|t| t.id != m.id)) {
        let known: Vec<&str> = tasks.iter().map(|t| t.id.as_str()).collect();
        return Err(RunError::OtherTasks {
            task: other.id.clone(),
            known: known.join(", "),
        });
    }
    let next = profile
        .samples
        .iter()
        .map(|s| s.config + 1)
        .max()
        .unwrap_or(0);
    let found = samples.len();
    profile.samples.extend(samples.into_iter().map(|s| Sample {
        config: next + s.config,
        ..s
    }));
    Ok(found)
}

/// A profile of a run's measurements alone, for the workload in its plan.
///
/// # Errors
/// [`RunError`] if the run has no workload or no measurement.
pub fn profile(events: &[RunEvent]) -> Result<Profile, RunError> {
    let Some(EventPayload::Launch {
        device, provenance, ..
    }) = events.first().map(|e| &e.payload)
    else {
        return Err(RunError::NoWorkload);
    };
    let (_, plan) = launch(events).ok_or(RunError::NoWorkload)?;
    let workload = plan.and_then(Plan::workload).ok_or(RunError::NoWorkload)?;
    let mut profile = Profile::empty(Header {
        workload: workload.clone(),
        device: device.clone(),
        design: DesignKind::Imported,
        seed: provenance.last().and_then(|p| p.seed).unwrap_or(0),
        window: None,
        aim: None,
        provenance: provenance.clone(),
    });
    profile.samples = samples(events)?;
    Ok(profile)
}

/// The steady configurations of a run, numbered from 0.
///
/// # Errors
/// [`RunError::Nothing`] if there is none.
pub fn samples(events: &[RunEvent]) -> Result<Vec<Sample>, RunError> {
    let mut found = Found::default();
    let plan = launch(events).and_then(|(_, plan)| plan);
    // Tasks on different GPUs do not slow each other down: each GPU is evaluated separately.
    let gpu_of = |id: &TaskId| {
        let task = plan.and_then(|p| p.tasks.iter().find(|t| t.id == *id));
        task.and_then(|t| t.gpu).unwrap_or(0)
    };
    let gpus: BTreeSet<u32> = events
        .iter()
        .filter_map(RunEvent::task)
        .map(gpu_of)
        .collect();
    for gpu in gpus {
        let mut state = GpuState::default();
        for event in events {
            let here = event.task().is_none_or(|task| gpu_of(task) == gpu);
            if here {
                state.take(event, &mut found);
            }
        }
    }
    let samples = found.samples();
    match samples.is_empty() {
        true => Err(RunError::Nothing),
        false => Ok(samples),
    }
}

fn launch(events: &[RunEvent]) -> Option<(&DeviceFingerprint, Option<&Plan>)> {
    match &events.first()?.payload {
        EventPayload::Launch {
            device, planned, ..
        } => Some((device, planned.as_ref().map(Planned::plan))),
        _ => None,
    }
}

fn name(device: &DeviceFingerprint) -> String {
    format!("{} ({})", device.name, doc::name_of(&device.kind))
}

/// A task at a batch size under a share.
type Part = (TaskId, Batch, Share);

/// Counted samples and seconds of a task; `intervals`: rate and seconds of each interval.
#[derive(Debug, Default)]
struct Count {
    samples: u64,
    seconds: f64,
    intervals: Vec<(f64, f64)>,
}

/// Number of stretches of a configuration, and the sums of each of its tasks over all of them.
type Sum = (u32, Vec<Count>);

/// Stretches of each configuration, added up.
#[derive(Debug, Default)]
struct Found(BTreeMap<Vec<Part>, Sum>);

/// A process of a task.
#[derive(Debug)]
struct Process {
    batch: Option<Batch>,
    share: Option<Share>,
    trains: bool,
    /// Time of the last event that reported its samples, and their number.
    told: Option<(f64, u64)>,
    count: Count,
}

/// State of one GPU while events are read.
#[derive(Debug, Default)]
struct GpuState<'a> {
    running: BTreeMap<&'a TaskId, Process>,
    /// Seconds of training that each task last reported in this round; `starts`: number of starts of each task.
    seconds: BTreeMap<&'a TaskId, f64>,
    starts: BTreeMap<&'a TaskId, u32>,
    /// Start of the current stretch; `None` unless every process trains.
    steady: Option<f64>,
}

impl<'a> GpuState<'a> {
    fn take(&mut self, event: &'a RunEvent, found: &mut Found) {
        let now = event.time.get();
        match (&event.payload, event.task()) {
            (EventPayload::Start { batch, share, .. }, Some(task)) => {
                self.close(found);
                *self.starts.entry(task).or_default() += 1;
                let process = Process {
                    batch: *batch,
                    share: *share,
                    trains: false,
                    told: None,
                    count: Count::default(),
                };
                self.running.insert(task, process);
                self.steady = None;
            }
            (EventPayload::Ready { .. }, Some(task)) => {
                let first = self.starts.get(task) == Some(&1);
                if let Some(process) = self.running.get_mut(task) {
                    process.trains = true;
                    // A restarted process may continue from a checkpoint, but no event says from which one.
                    process.told = first.then_some((now, 0));
                }
                self.change(now, found);
            }
            (EventPayload::Reshare { share, .. }, Some(task)) => {
                if let Some(process) = self.running.get_mut(task) {
                    process.share = *share;
                }
                self.change(now, found);
            }
            (EventPayload::Progress { progress, .. }, Some(task)) => {
                self.progress(task, progress, now);
            }
            (EventPayload::Exit { phase, .. }, Some(task))
                if !matches!(phase, Some(PhaseKind::Download | PhaseKind::Upload)) =>
            {
                self.close(found);
                self.running.remove(task);
                self.change(now, found);
            }
            (EventPayload::Round { .. } | EventPayload::Summary { .. }, _) => {
                self.close(found);
                *self = Self::default();
            }
            _ => {}
        }
    }

    /// The set of running tasks, or a share, changes here.
    fn change(&mut self, now: f64, found: &mut Found) {
        self.close(found);
        let all = !self.running.is_empty() && self.running.values().all(|p| p.trains);
        self.steady = all.then_some(now);
    }

    fn progress(&mut self, task: &'a TaskId, progress: &TaskProgress, now: f64) {
        let Some(seconds) = progress.trained.map(Seconds::get) else {
            return;
        };
        let before = self.seconds.insert(task, seconds).unwrap_or(0.0);
        let (Some(process), time) = (self.running.get_mut(task), seconds - before) else {
            return;
        };
        if let (Some(steady), Some((told, samples))) = (self.steady, process.told)
            && told >= steady
            && time > 0.0
        {
            let new = progress.samples.saturating_sub(samples);
            process.count.samples += new;
            process.count.seconds += time;
            process.count.intervals.push((new as f64 / time, time));
        }
        process.told = Some((now, progress.samples));
    }

    /// Ends a stretch and adds its sums to the configuration, if every task has counts.
    fn close(&mut self, found: &mut Found) {
        let parts = self.running.iter();
        let part = |(&task, p): (&&'a TaskId, &Process)| Some((task.clone(), p.batch?, p.share?));
        let parts: Option<Vec<Part>> = parts.map(part).collect();
        let counts: Vec<Count> = self
            .running
            .values_mut()
            .map(|p| std::mem::take(&mut p.count))
            .collect();
        let whole = self.steady.is_some() && counts.iter().all(|c| c.seconds > 0.0);
        if let Some(parts) = parts.filter(|p| whole && !p.is_empty()) {
            let (stretches, sums) = found.0.entry(parts).or_default();
            *stretches += 1;
            sums.resize_with(counts.len(), Count::default);
            for (sum, count) in sums.iter_mut().zip(counts) {
                sum.samples += count.samples;
                sum.seconds += count.seconds;
                sum.intervals.extend(count.intervals);
            }
        }
    }
}

impl Found {
    fn samples(self) -> Vec<Sample> {
        let long = |(parts, (_, counts)): &(Vec<Part>, Sum)| {
            parts.iter().zip(counts).all(|((_, batch, _), count)| {
                let steps = count.samples / u64::from(batch.get());
                count.seconds >= LEAST_S && steps >= LEAST_STEPS
            })
        };
        let stretches = self.0.into_iter().filter(long).enumerate();
        let sample = |(config, (parts, (repeats, counts))): (usize, (Vec<Part>, Sum))| {
            let window = counts
                .iter()
                .map(|c| c.seconds)
                .fold(f64::INFINITY, f64::min);
            let tasks = parts
                .into_iter()
                .zip(&counts)
                .map(|((id, batch, share), count)| {
                    Some(Measured {
                        id,
                        batch,
                        share,
                        throughput: SamplesPerSec::new(count.samples as f64 / count.seconds)
                            .ok()?,
                        stderr: count.error(),
                        gradient: None,
                        launch: doc::Launch::default(),
                    })
                });
            Some(Sample {
                config: config as u64,
                tasks: tasks.collect::<Option<_>>()?,
                window: Seconds::new(window).ok()?,
                repeats,
                gpu: None,
            })
        };
        stretches.filter_map(sample).collect()
    }
}

impl Count {
    /// Standard error of the mean rate, from the spread of the intervals, each weighted by its time.
    fn error(&self) -> Option<SamplesPerSec> {
        let n = self.intervals.len();
        if n < LEAST_INTERVALS {
            return None;
        }
        let mean = self.samples as f64 / self.seconds;
        let square = |&(rate, time): &(f64, f64)| (time / self.seconds * (rate - mean)).powi(2);
        let sum: f64 = self.intervals.iter().map(square).sum();
        SamplesPerSec::new((sum * n as f64 / (n as f64 - 1.0)).sqrt()).ok()
    }
}

#[cfg(test)]
mod tests;
