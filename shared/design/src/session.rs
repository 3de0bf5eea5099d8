//! The making of one profile, record by record.

use std::collections::BTreeMap;
use std::path::Path;

use cli::{Console, Failure, Output};
use device::{Device, MeasureError, Measurement, Run, Window};
use doc::{Choice, Failure as Failed, Header, Measured, ProfileEnd, Sample, Workload};
use indicatif::ProgressBar;
use predict::design::Progress;
use units::Seconds;

use crate::interrupt::Signals;
use crate::resume::Recorded;
use crate::sequence::{Configuration, Sequence};

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
    /// What may end it early.
    pub signals: &'a Signals,
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
    fn add(&mut self, runs: &[Run], sample: &Sample) {
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

    fn tell(&self, workload: &Workload, console: &Console) {
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
            console.warn(&format!("{text}: the device was not the same throughout"));
        } else {
            console.note(&text);
        }
    }
}

impl Session<'_> {
    /// Measures what has not been measured and writes every record.
    /// Returns the first configuration of the most tasks; `None` if nothing could be measured.
    pub fn run(
        mut self,
        out: &mut Output,
        console: &Console,
    ) -> Result<Option<Configuration>, Failure> {
        let bar = console.progress(self.sequence.length, "configurations");
        let result = self.records(out, &bar);
        bar.finish_and_clear();
        let totals = result?;
        if let Some(progress) = self.sequence.progress()
            && console.is_terminal()
        {
            console.note(&describe_progress(progress));
        }
        if let Some(text) = self.device.summary() {
            console.note(&text);
        }
        totals.drift.tell(&self.header.workload, console);
        let cost = Seconds::new(totals.cost_s).map_err(|e| Failure::Environment(e.to_string()))?;
        out.record(&ProfileEnd {
            measured: totals.measured,
            failed: totals.failed,
            cost,
            stopped: self.sequence.stopped(),
        })?;
        Ok(totals.widest)
    }

    fn records(&mut self, out: &mut Output, bar: &ProgressBar) -> Result<Totals, Failure> {
        out.record(self.header)?;
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
                    out.settle()?;
                    self.signals.check()?;
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
                    out.record(sample)?;
                }
                Recorded::Failure(failure) => {
                    totals.failed += 1;
                    out.record(failure)?;
                }
            }
            config += 1;
            bar.inc(1);
            if let Some(progress) = self.sequence.progress() {
                bar.set_message(describe_progress(progress));
            }
        }
        if recorded.next().is_some() {
            return Err(self.other_design("more configurations"));
        }
        Ok(totals)
    }

    fn measure(&mut self, config: u64, runs: &[Run]) -> Result<Recorded, Failure> {
        match self.device.measure(runs, &self.window) {
            Ok(measurement) => Ok(Recorded::Sample(self.sample(config, runs, &measurement))),
            Err(MeasureError::Failed(reason) | MeasureError::OutOfMemory(reason)) => {
                Ok(Recorded::Failure(Failed {
                    config,
                    tasks: choices(&self.header.workload, runs),
                    reason,
                }))
            }
            Err(MeasureError::Unusable(reason)) => Err(Failure::Environment(reason)),
            Err(MeasureError::Interrupted) => Err(self.signals.failure()),
            Err(MeasureError::Unrecorded) => Err(Failure::Input(format!(
                "the recording does not have the configuration {}",
                describe(&self.header.workload, runs)
            ))),
        }
    }

    fn sample(&self, config: u64, runs: &[Run], measurement: &Measurement) -> Sample {
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
                })
                .collect(),
            window: measurement.window,
            repeats: measurement.repeats,
        }
    }

    fn check_same(&self, record: &Recorded, runs: &[Run]) -> Result<(), Failure> {
        if record.is(runs, &self.header.workload) {
            return Ok(());
        }
        Err(self.other_design("other configurations"))
    }

    fn other_design(&self, what: &str) -> Failure {
        let path = self.resumed.unwrap_or(Path::new("-"));
        Failure::Input(format!(
            "{}: the profile has {what} than these options lead to; give the options that it was \
             started with (a larger --budget is fine)",
            path.display()
        ))
    }
}

fn choices(workload: &Workload, runs: &[Run]) -> Vec<Choice> {
    runs.iter()
        .map(|run| Choice {
            id: workload.tasks[run.task].id.clone(),
            batch: run.batch,
            share: run.share,
        })
        .collect()
}

/// A configuration for people: `a 32 at 50 %, b 64 at 80 %`.
pub fn describe(workload: &Workload, runs: &[Run]) -> String {
    let task = |run: &Run| {
        let id = &workload.tasks[run.task].id;
        format!("{id} {} at {}", run.batch, run.share)
    };
    runs.iter().map(task).collect::<Vec<_>>().join(", ")
}

/// How an adaptive design stands, for people.
fn describe_progress(progress: &Progress) -> String {
    if progress.value < 0.0 {
        return format!(
            "no co-run so far is known to keep the floor; the nearest lacks {:.1} % of the \
             throughput alone",
            -100.0 * progress.value
        );
    }
    format!(
        "best so far {:.4}, another co-run is expected to gain {:.2} %",
        progress.value,
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
        let run = Run {
            task: 0,
            batch: Batch::new(32).unwrap(),
            share: Share::from_percent(12.5).unwrap(),
        };
        assert_eq!(describe(&workload, &[run]), "a 32 at 12.5 %");
    }
}
