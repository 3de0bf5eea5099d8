//! Configurations and measurements in CSV: `config,task,batch,share_percent,throughput[,stderr]`,
//! a row for each task of a configuration.
//!
//! Tables come from people's own scripts, so what is meant is read where it is plain, and said: the
//! share may be `share_fraction`, the throughput a mean step time (`step_s`, `step_ms`), names
//! may have capitals, and columns that nobody knows are left alone. What cannot be told is refused
//! with its cause: a share in percent below 1 is most likely a fraction.

mod header;

use std::io::{BufRead, Read};

use doc::{Code, Fault, Faults, MAX_DOCUMENT_BYTES, Workload};
use units::{Batch, SamplesPerSec, Share, TaskId, UnitError};

use crate::DesignError;
use header::{Columns, Rate, columns};

/// Faults that are shown; of more only the number is told. A wrong column faults every row, and the
/// first rows say all that there is to say of it.
const MOST_SHOWN: usize = 20;

/// One row.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Index of the task in the workload.
    pub task: usize,
    /// Batch size.
    pub batch: Batch,
    /// Share.
    pub share: Share,
    /// Throughput, where there is a column.
    pub throughput: Option<SamplesPerSec>,
    /// Its standard error, where the cell is not empty.
    pub stderr: Option<SamplesPerSec>,
}

/// Whether every row must have a throughput.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Throughput {
    /// It must.
    Needed,
    /// It is not looked at.
    Ignored,
}

/// A table as it was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// Configurations in order of their first row, each sorted by task.
    pub configurations: Vec<Vec<Row>>,
    /// What was understood otherwise than it stands there, or left alone.
    pub notes: Vec<String>,
}

/// Counts of what a note is worth.
#[derive(Debug, Default)]
struct Adjusted {
    /// Shares with more digits than a share has.
    rounded: usize,
    /// Empty throughputs.
    unmeasured: usize,
}

struct Faulty<'a> {
    source: &'a str,
    lines: Vec<String>,
}

impl Faulty<'_> {
    fn add(&mut self, line: u64, column: &str, problem: String, advice: &str) {
        let path = match column {
            "" => String::new(),
            column => format!("column {column}"),
        };
        let faults = Faults {
            source_name: self.source.to_owned(),
            line,
            lines: Vec::new(),
            faults: vec![Fault {
                code: Code::BadCsv,
                path,
                problem,
                advice: advice.to_owned(),
            }],
        };
        self.lines.extend(faults.lines());
    }

    fn failure(mut self) -> Option<DesignError> {
        let more = self.lines.len().saturating_sub(MOST_SHOWN);
        self.lines.truncate(MOST_SHOWN);
        if more > 0 {
            self.lines.push(format!("{}: {more} more", self.source));
        }
        (!self.lines.is_empty()).then(|| DesignError::Table(self.lines.join("\n")))
    }
}

/// Reads the configurations of a table.
///
/// # Errors
/// [`DesignError::Table`] with file, line and column of every fault.
pub fn read(
    reader: impl BufRead,
    source: &str,
    workload: &Workload,
    throughput: Throughput,
) -> Result<Table, DesignError> {
    let mut faulty = Faulty {
        source,
        lines: Vec::new(),
    };
    let table = read_rows(reader, workload, throughput, &mut faulty)?;
    match faulty.failure() {
        None => Ok(table),
        Some(failure) => Err(failure),
    }
}

fn read_rows(
    reader: impl BufRead,
    workload: &Workload,
    throughput: Throughput,
    faulty: &mut Faulty,
) -> Result<Table, DesignError> {
    let mut read = Table {
        configurations: Vec::new(),
        notes: Vec::new(),
    };
    let mut bytes = Vec::new();
    let limit = MAX_DOCUMENT_BYTES as u64 + 1;
    reader
        .take(limit)
        .read_to_end(&mut bytes)
        .map_err(|error| DesignError::Table(format!("{}: {error}", faulty.source)))?;
    if bytes.len() as u64 == limit {
        let problem = format!("more than {MAX_DOCUMENT_BYTES} bytes");
        faulty.add(1, "", problem, "split it into several files");
        return Ok(read);
    }
    let mut table = csv::ReaderBuilder::new()
        .trim(csv::Trim::All)
        .comment(Some(b'#'))
        .from_reader(bytes.as_slice());
    let header = match table.headers() {
        Ok(header) => header.clone(),
        Err(error) => {
            faulty.add(1, "", error.to_string(), Code::BadCsv.action());
            return Ok(read);
        }
    };
    let Some(columns) = columns(&header, throughput, faulty, &mut read.notes) else {
        return Ok(read);
    };
    let mut adjusted = Adjusted::default();
    let groups = &mut read.configurations;
    let mut positions = std::collections::HashMap::new();
    for record in table.records() {
        let record = match record {
            Ok(record) => record,
            Err(error) => {
                let line = error.position().map_or(1, csv::Position::line);
                faulty.add(line, "", text(&error), Code::BadCsv.action());
                continue;
            }
        };
        let line = record.position().map_or(1, csv::Position::line);
        let label = record.get(columns.config).unwrap_or_default();
        let group = *positions.entry(label.to_owned()).or_insert_with(|| {
            groups.push(Vec::new());
            groups.len() - 1
        });
        let mut reading = Reading {
            record: &record,
            line,
            columns: &columns,
            faulty: &mut *faulty,
            adjusted: &mut adjusted,
        };
        let Some(row) = reading.row(workload) else {
            continue;
        };
        if groups[group].iter().any(|other| other.task == row.task) {
            let problem = format!(
                "task {} stands twice in configuration {label:?}",
                workload.tasks[row.task].id
            );
            faulty.add(line, "task", problem, "give each task once");
        }
        groups[group].push(row);
    }
    if groups.is_empty() && faulty.lines.is_empty() {
        let advice = "give a row for each task of each configuration";
        faulty.add(1, "", "the table has no row".to_owned(), advice);
    }
    let one_percent = |row: &Row| row.share.hundredths() == 100;
    if !columns.share.1 && !groups.is_empty() && groups.iter().flatten().all(one_percent) {
        let problem = "every share is 1 %, which looks like the fraction 1".to_owned();
        let advice = "give percent, or call the column share_fraction";
        faulty.add(1, "share_percent", problem, advice);
    }
    for group in groups {
        group.sort_by_key(|row| row.task);
    }
    read.notes.extend(adjusted.notes());
    Ok(read)
}

impl Adjusted {
    fn notes(&self) -> impl Iterator<Item = String> {
        let rounded = (self.rounded > 0).then(|| {
            let n = self.rounded;
            format!("{n} shares have more than two digits; rounded to 0.01 %")
        });
        let unmeasured = (self.unmeasured > 0).then(|| {
            let n = self.unmeasured;
            format!(
                "{n} throughputs are empty: those tasks ran but were not measured; written as 0, \
                 which no fit learns"
            )
        });
        rounded.into_iter().chain(unmeasured)
    }
}

/// The library's message without its own position.
fn text(error: &csv::Error) -> String {
    match error.kind() {
        csv::ErrorKind::UnequalLengths {
            expected_len, len, ..
        } => format!("{len} cells where the header has {expected_len}"),
        csv::ErrorKind::Utf8 { .. } => "not UTF-8".to_owned(),
        _ => error.to_string(),
    }
}

/// One record on its way to a row.
struct Reading<'a, 'b> {
    record: &'a csv::StringRecord,
    line: u64,
    columns: &'a Columns,
    faulty: &'a mut Faulty<'b>,
    adjusted: &'a mut Adjusted,
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

    /// The row, if every cell of it can be had; each that cannot is a fault.
    fn row(&mut self, workload: &Workload) -> Option<Row> {
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
            // Not a whole number or too large: out of range as 0 is.
            let whole = v.fract() == 0.0 && (0.0..1e9).contains(&v);
            Batch::new(if whole { v as u64 } else { 0 })
        })
    }

    /// A measurement at a batch size that the task may not have would never be asked for, and is
    /// more likely a slip.
    fn check_batch(&mut self, workload: &Workload, task: usize, batch: Batch) {
        let spec = &workload.tasks[task];
        if !spec.batch_sizes.contains(&batch) {
            let sizes: Vec<String> = spec.batch_sizes.iter().map(ToString::to_string).collect();
            let problem = format!("task {} has no batch size {batch}", spec.id);
            let advice = format!(
                "the workload has {}; add {batch} there or mend the row",
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
        // No device gives less than 1 %: a multiprocessor of the largest GPUs is 0.7 %.
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

    /// Throughput and its standard error, where there is one; 0 for a task that ran but was not
    /// measured.
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn fuzz_tables_of_samples() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let cases = here.join("../../tools/mt-profile/tests/cli/in");
        let pair = std::fs::read(cases.join("pair.json")).unwrap();
        let frames = doc::Frames::new(pair.as_slice(), "pair");
        let workload = doc::Documents::<_, Workload>::new(frames).next();
        let workload = workload.unwrap().unwrap();
        let own = here.join("tests/fuzz/samples");
        testkit::fuzz::fuzz("samples", &[&own, &cases], |text| {
            let of = |throughput| match read(text, "t", &workload, throughput) {
                Ok(table) => format!("{} rows", table.configurations.len().min(3)),
                Err(why) => {
                    let why = why.to_string();
                    assert!(why.lines().all(|line| line.starts_with("t:")), "{why}");
                    // The column, without what stood there.
                    why.split(": ")
                        .nth(1)
                        .unwrap_or_default()
                        .chars()
                        .take(40)
                        .collect()
                }
            };
            format!("{}; {}", of(Throughput::Needed), of(Throughput::Ignored))
        });
    }
}
