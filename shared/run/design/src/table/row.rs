//! The cells of a row.

use doc::Workload;
use units::{Batch, SamplesPerSec, Share, TaskId, UnitError};

use super::faulty::Faulty;
use super::header::{Columns, Rate};

/// One row.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Index of the task in the workload.
    pub task: usize,
    /// Batch size.
    pub batch: Batch,
    /// Share.
    pub share: Share,
    /// Throughput, if the table has it.
    pub throughput: Option<SamplesPerSec>,
    /// Standard error of the throughput, if the cell is not empty.
    pub stderr: Option<SamplesPerSec>,
}

/// Counts of adjusted cells, for notes.
#[derive(Debug, Default)]
pub(super) struct Adjusted {
    /// Shares that were rounded to the resolution of a share.
    pub rounded: usize,
    /// Rows with an empty throughput.
    pub unmeasured: usize,
}

/// A record being converted to a row.
pub(super) struct Reading<'a, 'b> {
    pub(super) record: &'a csv::StringRecord,
    pub(super) line: u64,
    pub(super) columns: &'a Columns,
    pub(super) faulty: &'a mut Faulty<'b>,
    pub(super) adjusted: &'a mut Adjusted,
}

impl Reading<'_, '_> {
    fn cell(&self, column: usize) -> &str {
        self.record.get(column).unwrap_or_default()
    }

    fn fault(&mut self, column: &str, problem: String, advice: &str) {
        self.faulty.add(self.line, column, problem, advice);
    }

    fn number(&mut self, name: &str, column: usize) -> Option<f64> {
        let text = self.cell(column);
        let value = text.parse().ok();
        if value.is_none() {
            let problem = format!("{text:?} is not a number");
            self.fault(name, problem, "give a number such as 128 or 12.5");
        }
        value
    }

    /// The row, if every cell is valid; each invalid cell adds a fault.
    pub(super) fn row(&mut self, workload: &Workload) -> Option<Row> {
        let task = self.task(workload);
        let batch = self.batch();
        if let (Some(task), Some(batch), Some(_)) = (task, batch, &self.columns.rate) {
            self.check_batch(workload, task, batch);
        }
        let share = self.share();
        let rate = match self.columns.rate {
            Some(rate) => Some(self.rate(rate, batch)?),
            None => None,
        };
        Some(Row {
            task: task?,
            batch: batch?,
            share: share?,
            throughput: rate.map(|(throughput, _)| throughput),
            stderr: rate.and_then(|(_, stderr)| stderr),
        })
    }

    fn task(&mut self, workload: &Workload) -> Option<usize> {
        let name = self.cell(self.columns.task).to_owned();
        let task = TaskId::new(&name)
            .ok()
            .and_then(|id| workload.task_index(&id));
        if task.is_none() {
            let names: Vec<_> = workload.tasks.iter().map(|t| t.id.as_str()).collect();
            let advice = format!("the workload has {}", names.join(", "));
            self.fault("task", format!("no task is called {name:?}"), &advice);
        }
        task
    }

    fn batch(&mut self) -> Option<Batch> {
        let value = self.number("batch", self.columns.batch);
        unit(self.faulty, self.line, "batch", value, |v| {
            // Treat a fraction or a too large number as 0, which is out of range.
            let whole = v.fract() == 0.0 && (0.0..1e9).contains(&v);
            Batch::new(if whole { v as u64 } else { 0 })
        })
    }

    /// Rejects a batch size that is not in the task's list: such a measurement would never be used, and is
    /// probably a mistake.
    fn check_batch(&mut self, workload: &Workload, task: usize, batch: Batch) {
        let spec = &workload.tasks[task];
        if !spec.batch_sizes.contains(&batch) {
            let sizes: Vec<String> = spec.batch_sizes.iter().map(ToString::to_string).collect();
            let problem = format!("task {} has no batch size {batch}", spec.id);
            let advice = format!(
                "the workload has {}; add {batch} there or correct the row",
                sizes.join(", ")
            );
            self.fault("batch", problem, &advice);
        }
    }

    fn share(&mut self) -> Option<Share> {
        let (column, fraction) = self.columns.share;
        let name = if fraction {
            "share_fraction"
        } else {
            "share_percent"
        };
        let value = self.number(name, column)?;
        // A share below 1 % is no real setting: a single multiprocessor of the largest GPUs is 0.7 %.
        if !fraction && value > 0.0 && value < 1.0 {
            let problem = format!("{value} % of a device looks like a fraction");
            let advice = "give percent, or call the column share_fraction";
            self.fault(name, problem, advice);
            return None;
        }
        let percent = if fraction { 100.0 * value } else { value };
        let hundredths = (percent * 100.0).round();
        if (percent * 100.0 - hundredths).abs() > 1e-6 {
            self.adjusted.rounded += 1;
        }
        let rounded = hundredths / 100.0;
        if fraction && !(value > 0.0 && value <= 1.0) {
            let problem = format!("{value} is not a fraction of a device");
            let advice = "give a number above 0, at most 1, or call the column share_percent";
            self.fault(name, problem, advice);
            return None;
        }
        unit(
            self.faulty,
            self.line,
            name,
            Some(rounded),
            Share::from_percent,
        )
    }

    /// Throughput and its standard error, if given. An empty cell gives a throughput of 0, for a task that ran
    /// but was not measured.
    fn rate(
        &mut self,
        rate: Rate,
        batch: Option<Batch>,
    ) -> Option<(SamplesPerSec, Option<SamplesPerSec>)> {
        if self.cell(rate.column).is_empty() {
            self.adjusted.unmeasured += 1;
            return Some((SamplesPerSec::new(0.0).ok()?, None));
        }
        let value = self.number(rate.name, rate.column);
        let error = match rate.stderr {
            Some(column) if !self.cell(column).is_empty() => Some(self.number("stderr", column)?),
            _ => None,
        };
        let (per_s, error) = match rate.step_seconds {
            None => (value?, error),
            Some(seconds) => {
                let step = seconds * value?;
                if !(step.is_finite() && step > 0.0) {
                    let problem = format!("{} is not a step time", value?);
                    self.fault(rate.name, problem, "give a finite number above 0");
                    return None;
                }
                let per_s = batch?.as_f64() / step;
                // The relative error of a rate is that of its step.
                (per_s, error.map(|e| per_s * (seconds * e / step)))
            }
        };
        let throughput = unit(
            self.faulty,
            self.line,
            rate.name,
            Some(per_s),
            SamplesPerSec::new,
        )?;
        let error = match error {
            Some(e) => Some(unit(
                self.faulty,
                self.line,
                "stderr",
                Some(e),
                SamplesPerSec::new,
            )?),
            None => None,
        };
        Some((throughput, error))
    }
}

fn unit<T>(
    faulty: &mut Faulty,
    line: u64,
    column: &str,
    value: Option<f64>,
    build: impl Fn(f64) -> Result<T, UnitError>,
) -> Option<T> {
    let value = value?;
    match build(value) {
        Ok(built) => Some(built),
        Err(error) => {
            let problem = format!("{value} is not a {}", error.quantity);
            faulty.add(line, column, problem, &format!("give {}", error.expected));
            None
        }
    }
}
