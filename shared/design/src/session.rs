//! The making of one profile, record by record.

use std::collections::BTreeMap;
use std::path::Path;

use corun::Setting;
use device::{Device, MeasureError, Measurement, Window};
use doc::{Choice, Failure as Failed, Header, Measured, ProfileEnd, Sample, Workload};
use predict::design::Progress;
use units::Seconds;

use crate::DesignError;
use crate::resume::Recorded;
use crate::sequence::{Configuration, Sequence};
use crate::sink::{Record, Sink};

/// What a profile is made of.
pub struct Session<'a> {
    /// Where it is measured.
    pub device: &'a mut dyn Device,
    /// First record.
    pub header: &'a Header,
    /// Which configurations.
    pub sequence: Sequence,
    /// How long.
    pub window: Window,
    /// What is known already, in order.
    pub recorded: Vec<Recorded>,
    /// Where that came from.
    pub resumed: Option<&'a Path>,
}

/// Why a session ended early.
#[derive(Debug)]
pub enum SessionError<E> {
    /// The design, the device or the profile to go on with.
    Design(DesignError),
    /// A record could not be written.
    Sink(E),
}

impl<E> From<DesignError> for SessionError<E> {
    fn from(error: DesignError) -> Self {
        Self::Design(error)
    }
}

/// Counts for the last record.
#[derive(Default)]
struct Totals {
    measured: u64,
    failed: u64,
    cost_s: f64,
    /// The first configuration of the most tasks.
    widest: Option<Configuration>,
    drift: Drift,
}

/// How solo runs that were measured again differ from the first time.
#[derive(Default)]
struct Drift {
    first: BTreeMap<Configuration, f64>,
    repeats: u32,
    /// The largest relative change, and of which run.
    largest: (f64, Option<Configuration>),
}

/// A larger change of a solo run is worth a warning: windows end at a standard error of 1 %
/// (`--precision`), so 5 % is more than three times what two windows differ by through noise.
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
    /// Measures what has not been measured and writes every record.
    /// Returns the first configuration of the most tasks; `None` if nothing could be measured.
    ///
    /// # Errors
    /// [`SessionError`]; every finished record has been written before.
    pub fn run<S: Sink>(
        mut self,
        sink: &mut S,
    ) -> Result<Option<Configuration>, SessionError<S::Error>> {
        let result = self.records(sink);
        sink.ended(self.sequence.progress().filter(|_| result.is_ok()));
        let totals = result?;
        if let Some(text) = self.device.summary() {
            sink.note(&text);
        }
        totals.drift.tell(&self.header.workload, sink);
        let end = ProfileEnd {
            measured: totals.measured,
            failed: totals.failed,
            cost: Seconds::new(totals.cost_s).map_err(DesignError::Cost)?,
            stopped: self.sequence.stopped(),
            noise_scales: Vec::new(),
        };
        sink.record(Record::End(&end)).map_err(SessionError::Sink)?;
        Ok(totals.widest)
    }

    fn records<S: Sink>(&mut self, sink: &mut S) -> Result<Totals, SessionError<S::Error>> {
        let failed = SessionError::Sink;
        sink.record(Record::Header(self.header)).map_err(failed)?;
        let mut totals = Totals::default();
        let mut recorded = std::mem::take(&mut self.recorded).into_iter();
        let mut config = 0;
        while let Some(runs) = self.sequence.next_configuration()? {
            let record = match recorded.next() {
                Some(record) => {
                    self.check_same(&record, &runs)?;
                    record
                }
                None => {
                    sink.settle().map_err(failed)?;
                    sink.measuring(&describe(&self.header.workload, &runs));
                    self.measure(config, &runs)?
                }
            };
            self.sequence.observe(&runs, record.rates().as_deref());
            match &record {
                Recorded::Sample(sample) => {
                    totals.measured += 1;
                    let widest = totals.widest.as_ref().map_or(0, Vec::len);
                    if runs.len() > widest {
                        totals.widest = Some(runs.clone());
                    }
                    totals.drift.add(&runs, sample);
                    totals.cost_s += sample.window.get() * f64::from(sample.repeats);
                    sink.record(Record::Sample(sample)).map_err(failed)?;
                }
                Recorded::Failure(failure) => {
                    totals.failed += 1;
                    sink.record(Record::Failure(failure)).map_err(failed)?;
                }
            }
            config += 1;
            sink.progress(config, self.sequence.length, self.sequence.progress());
        }
        if recorded.next().is_some() {
            return Err(self.other_design("more configurations").into());
        }
        Ok(totals)
    }

    fn measure(&mut self, config: u64, runs: &[Setting]) -> Result<Recorded, DesignError> {
        match self.device.measure(runs, &self.window) {
            Ok(measurement) => Ok(Recorded::Sample(self.sample(config, runs, &measurement))),
            Err(MeasureError::Failed(reason) | MeasureError::OutOfMemory(reason)) => {
                Ok(Recorded::Failure(Failed {
                    config,
                    tasks: choices(&self.header.workload, runs),
                    reason,
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
                    gradient: None,
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

/// A configuration for people: `a 32 at 50 %, b 64 at 80 %`.
pub fn describe(workload: &Workload, runs: &[Setting]) -> String {
    let task = |run: &Setting| {
        let id = &workload.tasks[run.task].id;
        format!("{id} {} at {}", run.batch, run.share)
    };
    runs.iter().map(task).collect::<Vec<_>>().join(", ")
}

/// How an adaptive design stands, for people.
#[must_use]
pub fn describe_progress(workload: &Workload, progress: &Progress) -> String {
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
