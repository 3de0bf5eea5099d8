//! Makes one profile, record by record.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use device::{Device, MeasureError, Measurement, Window};
use doc::{
    Choice, Failure as Failed, FailureCause, Header, Measured, MeasuredNoiseScale, ProfileEnd,
    Sample, StopReason, Workload,
};
use efficiency::{Moments, NoiseScale};
use predict::design::DesignState;
use units::Seconds;
use units::corun::Setting;

use crate::DesignError;
use crate::findings::Findings;
use crate::resume::Recorded;
use crate::sequence::{Configuration, Sequence};
use crate::sink::{Record, Sink};
use crate::worth::Worth;

/// Inputs of a profile.
pub struct Session<'a> {
    /// The device to measure on.
    pub device: &'a mut dyn Device,
    /// First record of the profile.
    pub header: &'a Header,
    /// The configurations to measure.
    pub sequence: Sequence,
    /// How long to measure each configuration.
    pub window: Window,
    /// Known results of a profile to continue, in order.
    pub recorded: Vec<Recorded>,
    /// Ends an adaptive design when another co-run would cost more time than it is expected to save in the coming
    /// rounds.
    pub worth: Option<Worth>,
    /// Path of the profile that `recorded` comes from.
    pub resumed: Option<&'a Path>,
    /// Whether the device is real. Then the session ends with the first task that fails alone, and reports
    /// contradictions.
    pub real: bool,
}

/// Result of a session.
#[derive(Debug, Default)]
pub struct SessionResult {
    /// The first configuration of the largest number of tasks; `None` if nothing could be measured.
    pub widest: Option<Configuration>,
    /// The failure of a solo run that ended the session.
    pub failure: Option<Failed>,
}

/// Why a session ended early.
#[derive(Debug)]
pub enum SessionError<E> {
    /// An error of the design, the device, or the profile to continue.
    Design(DesignError),
    /// A record could not be written.
    Sink(E),
}

impl<E> From<DesignError> for SessionError<E> {
    fn from(error: DesignError) -> Self {
        Self::Design(error)
    }
}

/// Totals for the last record.
#[derive(Default)]
struct Totals {
    measured: u64,
    failed: u64,
    cost_s: f64,
    outcome: SessionResult,
    drift: Drift,
    /// How often each configuration was measured.
    times: BTreeMap<Configuration, u32>,
    /// For each task, its gradient statistics of each window.
    gradients: BTreeMap<usize, Vec<Moments>>,
    findings: Findings,
}

impl Totals {
    fn times_measured(&self, runs: &[Setting]) -> u32 {
        self.times.get(runs).copied().unwrap_or(0)
    }
}

/// Differences of repeated solo runs from the first run.
#[derive(Default)]
struct Drift {
    first: BTreeMap<Configuration, f64>,
    repeats: u32,
    /// The largest relative change, and the run in which it was seen.
    largest: (f64, Option<Configuration>),
}

/// Relative change of a solo run above which a warning is given: windows end at a standard error of 1 %
/// (`--precision`), so 5 % is more than three times the noise between two windows.
const MUCH_DRIFT: f64 = 0.05;

impl Drift {
    fn add(&mut self, runs: &[Setting], sample: &Sample) {
        let [task] = &sample.tasks[..] else { return };
        let rate = task.throughput.get();
        let Some(first) = self.first.get(runs) else {
            self.first.insert(runs.to_vec(), rate);
            return;
        };
        self.repeats += 1;
        let change = rate / first - 1.0;
        if change.abs() >= self.largest.0.abs() {
            self.largest = (change, Some(runs.to_vec()));
        }
    }

    fn tell(&self, workload: &Workload, sink: &mut impl Sink) {
        let (change, Some(runs)) = &self.largest else {
            return;
        };
        let text = format!(
            "{} solo runs were measured again meanwhile; the largest change: {:+.1} % ({})",
            self.repeats,
            100.0 * change,
            describe(workload, runs)
        );
        if change.abs() > MUCH_DRIFT {
            sink.warn(&format!("{text}: the device was not the same throughout"));
        } else {
            sink.note(&text);
        }
    }
}

impl Session<'_> {
    /// Measures all configurations that have no recorded result, and writes every record.
    ///
    /// # Errors
    /// [`SessionError`]; every finished record is written before it returns.
    pub fn run<S: Sink>(mut self, sink: &mut S) -> Result<SessionResult, SessionError<S::Error>> {
        let result = self.records(sink);
        sink.ended(self.sequence.progress().filter(|_| result.is_ok()));
        let totals = result?;
        if let Some(text) = self.device.summary().filter(|_| totals.measured > 0) {
            sink.note(&text);
        }
        totals.drift.tell(&self.header.workload, sink);
        if self.real {
            for warning in totals.findings.warnings(&self.header.workload) {
                sink.warn(&warning);
            }
        }
        let end = ProfileEnd {
            measured: totals.measured,
            failed: totals.failed,
            cost: Seconds::new(totals.cost_s).map_err(DesignError::Cost)?,
            stopped: match totals.outcome.failure {
                Some(_) => StopReason::Failure,
                None => self.sequence.stopped(),
            },
            noise_scales: self.noise_scales(&totals.gradients, sink),
        };
        sink.record(Record::End(&end)).map_err(SessionError::Sink)?;
        Ok(totals.outcome)
    }

    /// Gradient noise scales of the tasks that report norms, with each window as a block. Notes name these tasks, or
    /// the reason if the norms do not suffice.
    fn noise_scales(
        &self,
        gradients: &BTreeMap<usize, Vec<Moments>>,
        sink: &mut impl Sink,
    ) -> Vec<MeasuredNoiseScale> {
        let mut found = Vec::new();
        for (&task, blocks) in gradients.iter().filter(|(_, blocks)| !blocks.is_empty()) {
            let spec = &self.header.workload.tasks[task];
            let id = &spec.id;
            match NoiseScale::of(blocks, spec.reference()) {
                Ok(noise) => {
                    let NoiseScale {
                        samples, stderr, ..
                    } = noise;
                    sink.note(&format!(
                        "{id}: gradient noise scale {samples:.3} samples, standard error {stderr:.2}"
                    ));
                    found.push(noise.to_document(id.clone()));
                }
                Err(why) => sink.note(&format!("{id}: no gradient noise scale: {why}")),
            }
        }
        found
    }

    fn records<S: Sink>(&mut self, sink: &mut S) -> Result<Totals, SessionError<S::Error>> {
        let failed = SessionError::Sink;
        sink.record(Record::Header(self.header)).map_err(failed)?;
        let mut totals = Totals::default();
        let mut recorded = std::mem::take(&mut self.recorded).into_iter();
        let mut config = 0;
        while let Some(runs) = self.sequence.next_configuration()? {
            let begun = Instant::now();
            let (record, measured) = match recorded.next() {
                Some(record) => {
                    self.check_same(&record, &runs)?;
                    (record, false)
                }
                None if !self.pays(&runs) => {
                    self.sequence.end();
                    break;
                }
                None => {
                    sink.settle().map_err(failed)?;
                    sink.measuring(&describe(&self.header.workload, &runs));
                    self.device.expect(self.sequence.coming());
                    let record = self.measure(config, &runs, totals.times_measured(&runs));
                    let untold = self.device.untold();
                    untold.iter().for_each(|text| sink.warn(text));
                    (record?, true)
                }
            };
            let rates = record.rates();
            self.sequence.observe(&runs, rates.as_deref());
            if let Some(worth) = &mut self.worth {
                // On a real device, include the start of jobs. For recorded samples, only the windows are known.
                let seconds = match self.real && measured {
                    true => begun.elapsed().as_secs_f64(),
                    false => record.seconds(),
                };
                worth.observe(&runs, rates.as_deref(), seconds);
            }
            match &record {
                Recorded::Sample(sample) => {
                    totals.measured += 1;
                    *totals.times.entry(runs.clone()).or_default() += 1;
                    let widest = totals.outcome.widest.as_ref().map_or(0, Vec::len);
                    if runs.len() > widest {
                        totals.outcome.widest = Some(runs.clone());
                    }
                    totals.drift.add(&runs, sample);
                    for (run, task) in runs.iter().zip(&sample.tasks) {
                        let blocks = totals.gradients.entry(run.task).or_default();
                        blocks.extend(task.gradient.as_ref().map(Moments::from));
                    }
                    let told = totals.findings.add(&self.header.workload, sample);
                    if self.real {
                        told.iter().for_each(|text| sink.warn(text));
                    }
                    totals.cost_s += sample.window.get() * f64::from(sample.repeats);
                    sink.record(Record::Sample(sample)).map_err(failed)?;
                }
                Recorded::Failure(failure) => {
                    totals.failed += 1;
                    sink.record(Record::Failure(failure)).map_err(failed)?;
                    if self.is_hopeless(&runs, failure, &totals.findings) {
                        totals.outcome.failure = Some(failure.clone());
                    }
                }
            }
            config += 1;
            sink.progress(config, self.sequence.length, self.sequence.progress());
            if totals.outcome.failure.is_some() {
                return Ok(totals);
            }
        }
        if recorded.next().is_some() {
            return Err(self.other_design("more configurations").into());
        }
        Ok(totals)
    }

    /// Whether a configuration is worth its time. Solo runs always are, because they are the reference for
    /// everything else.
    fn pays(&self, runs: &[Setting]) -> bool {
        let gain = self.sequence.progress().map(|p| p.expected_gain);
        let worth = self.worth.as_ref().filter(|_| runs.len() > 1);
        worth.is_none_or(|worth| worth.pays(gain))
    }

    /// Whether a task that never ran has failed alone. Then each of its co-runs would also fail, and would have no
    /// reference. A lack of memory does not count, because a smaller batch size may work.
    fn is_hopeless(&self, runs: &[Setting], failure: &Failed, findings: &Findings) -> bool {
        let [run] = runs else { return false };
        let task = &self.header.workload.tasks[run.task];
        let smaller = || task.batch_sizes.iter().any(|batch| *batch < run.batch);
        let batch = failure.cause == Some(FailureCause::Memory) && smaller();
        self.real && !batch && !findings.has_run(&task.id)
    }

    fn measure(
        &mut self,
        config: u64,
        runs: &[Setting],
        before: u32,
    ) -> Result<Recorded, DesignError> {
        match self.device.measure_again(runs, &self.window, before) {
            Ok(measurement) => Ok(Recorded::Sample(self.sample(config, runs, &measurement))),
            Err(MeasureError::Failed(failed)) => {
                let tasks = &self.header.workload.tasks;
                Ok(Recorded::Failure(Failed {
                    config,
                    tasks: choices(&self.header.workload, runs),
                    reason: failed.reason,
                    cause: failed.cause,
                    task: failed.task.map(|task| tasks[task].id.clone()),
                    output: Some(failed.output).filter(|output| !output.is_empty()),
                }))
            }
            Err(MeasureError::Unusable(reason)) => Err(DesignError::Device(reason)),
            Err(MeasureError::Interrupted) => Err(DesignError::Interrupted),
            Err(MeasureError::Unrecorded) => Err(DesignError::Unrecorded(describe(
                &self.header.workload,
                runs,
            ))),
        }
    }

    fn sample(&self, config: u64, runs: &[Setting], measurement: &Measurement) -> Sample {
        let tasks = runs.iter().zip(&measurement.rates);
        Sample {
            config,
            tasks: tasks
                .map(|(run, rate)| Measured {
                    id: self.header.workload.tasks[run.task].id.clone(),
                    batch: run.batch,
                    share: run.share,
                    throughput: rate.throughput,
                    stderr: rate.stderr,
                    gradient: rate.gradient,
                    launch: rate.launch,
                })
                .collect(),
            window: measurement.window,
            repeats: measurement.repeats,
            gpu: measurement.gpu.clone(),
        }
    }

    fn check_same(&self, record: &Recorded, runs: &[Setting]) -> Result<(), DesignError> {
        if record.is(runs, &self.header.workload) {
            return Ok(());
        }
        Err(self.other_design("other configurations"))
    }

    fn other_design(&self, what: &'static str) -> DesignError {
        let path = self.resumed.unwrap_or(Path::new("-")).to_owned();
        DesignError::OtherDesign { path, what }
    }
}

fn choices(workload: &Workload, runs: &[Setting]) -> Vec<Choice> {
    runs.iter()
        .map(|run| Choice {
            id: workload.tasks[run.task].id.clone(),
            batch: run.batch,
            share: run.share,
        })
        .collect()
}

/// A configuration for users: `a 32 at 50 %, b 64 at 80 %`.
pub fn describe(workload: &Workload, runs: &[Setting]) -> String {
    let task = |run: &Setting| {
        let id = &workload.tasks[run.task].id;
        format!("{id} {} at {}", run.batch, run.share)
    };
    runs.iter().map(task).collect::<Vec<_>>().join(", ")
}

/// State of an adaptive design, for users.
#[must_use]
pub fn describe_progress(workload: &Workload, progress: &DesignState) -> String {
    if progress.value < 0.0 {
        return format!(
            "no co-run so far is known to keep the floor; the nearest lacks {:.1} % of the \
             throughput alone",
            -100.0 * progress.value
        );
    }
    format!(
        "best so far {}; another co-run is expected to gain {:.2} %",
        describe(workload, &progress.best),
        100.0 * progress.expected_gain
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::{Batch, Share};

    #[test]
    fn a_configuration_reads_well() {
        let text = r#"{"schema":"mt.workload/1","tasks":[
            {"id":"a","model":"vgg16","batch_sizes":[32]}]}"#;
        let frames = doc::Frames::new(text.as_bytes(), "test");
        let workload = doc::Documents::<_, Workload>::new(frames)
            .next()
            .unwrap()
            .unwrap();
        let run = Setting {
            task: 0,
            batch: Batch::new(32).unwrap(),
            share: Share::from_percent(12.5).unwrap(),
        };
        assert_eq!(describe(&workload, &[run]), "a 32 at 12.5 %");
    }
}
