//! Configurations and measurements in CSV: `config,task,batch,share_percent,throughput[,stderr]`,
//! a row for each task of a configuration.
//!
//! Tables come from users' own scripts, so unambiguous variants are accepted and reported: the share may be
//! `share_fraction`, the throughput may be a mean step time (`step_s`, `step_ms`), names may have capitals, and
//! unknown columns are ignored. Ambiguous input is rejected with the reason; for example, a share in percent
//! below 1 is most likely a fraction.

mod faulty;
mod header;
mod row;

use std::io::{BufRead, Read};

use doc::{Code, MAX_DOCUMENT_BYTES, Workload};

use crate::DesignError;
use faulty::Faulty;
pub use header::Throughput;
use header::columns;
pub use row::Row;
use row::{Adjusted, Reading};

/// A table as it was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// Configurations in order of their first row, each sorted by task.
    pub configurations: Vec<Vec<Row>>,
    /// Label of each configuration in the table.
    pub labels: Vec<String>,
    /// Input that was interpreted differently than written, or ignored.
    pub notes: Vec<String>,
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
        labels: Vec::new(),
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
    let labels = &mut read.labels;
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
            labels.push(label.to_owned());
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
                "task {} appears twice in configuration {label:?}",
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
    let mut rows = groups.iter().flatten().peekable();
    if !columns.share.1 && rows.peek().is_some() && rows.all(one_percent) {
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
            let shares = counted(self.rounded, "share with", "shares with");
            format!("{shares} more than two digits; rounded to 0.01 %")
        });
        let unmeasured = (self.unmeasured > 0).then(|| {
            let rates = counted(self.unmeasured, "empty throughput", "empty throughputs");
            format!(
                "{rates}: such a task ran but was not measured; written as 0, which fits ignore"
            )
        });
        rounded.into_iter().chain(unmeasured)
    }
}

/// A number with its noun.
fn counted(n: usize, one: &str, more: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { more })
}

/// The message of the CSV library without its position.
fn text(error: &csv::Error) -> String {
    match error.kind() {
        csv::ErrorKind::UnequalLengths {
            expected_len, len, ..
        } => format!("{len} cells where the header has {expected_len}"),
        csv::ErrorKind::Utf8 { .. } => "not UTF-8".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn fuzz_tables_of_samples() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let cases = here.join("../../../tools/mt-profile/tests/cli/in");
        let pair = std::fs::read(cases.join("pair.json")).unwrap();
        let frames = doc::Frames::new(pair.as_slice(), "pair");
        let workload = doc::Documents::<_, Workload>::new(frames)
            .next()
            .unwrap()
            .unwrap();
        let own = here.join("tests/fuzz/samples");
        testkit::fuzz::fuzz("samples", &[&own, &cases], |text| {
            let of = |throughput| match read(text, "t", &workload, throughput) {
                Ok(table) => format!("{} rows", table.configurations.len().min(3)),
                Err(why) => {
                    let why = why.to_string();
                    assert!(why.lines().all(|line| line.starts_with("t:")), "{why}");
                    // The column, without the value in it.
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
