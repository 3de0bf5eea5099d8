//! Results of jobs: a table with their parameters, how they ended, and the numbers that they printed.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::book::Id;
use crate::logs;
use crate::message::{JobStatus, Word};
use crate::metrics::Metrics;
use crate::show;

/// Bytes at the end of a log that are searched for metrics: an hour of a verbose training. So a hundred thousand logs
/// can be read in seconds.
const SEARCHED: u64 = 4 << 20;

/// A job and its results.
#[derive(Debug, Serialize)]
pub struct Row {
    id: Id,
    /// Names and values of its placeholders.
    values: BTreeMap<String, String>,
    state: Word,
    /// Exit status.
    exit: Option<i32>,
    signal: Option<i32>,
    /// Duration of its last start, in seconds.
    seconds: Option<f64>,
    /// Number of starts.
    attempts: u32,
    /// Peak memory in bytes.
    peak_memory: Option<u64>,
    /// Promised maximum slow-down by jobs beside it, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    at_most_slower: Option<u32>,
    /// Percent by which it was slower than alone, if measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    slower: Option<u32>,
    /// Last value of each metric; null if it is not finite.
    metrics: BTreeMap<String, f64>,
    log: Option<PathBuf>,
    command: String,
    #[serde(skip)]
    names: Vec<String>,
    #[serde(skip)]
    metric_names: Vec<String>,
}

impl Row {
    /// The row of a job; `folder` is the queue's folder with its log.
    #[must_use]
    pub fn of(job: &JobStatus, folder: &Path) -> Self {
        let path = logs::path(folder, job.id);
        let metrics = match job.starts {
            0 => Metrics::default(),
            _ => Metrics::of(&logs::end(&path, SEARCHED)),
        };
        let exit = (job.state == Word::Done).then_some(0).or(job.code);
        Self {
            id: job.id,
            values: job.values.iter().cloned().collect(),
            state: job.state,
            exit,
            signal: job.signal,
            seconds: job.started_s.zip(job.ended_s).map(|(from, to)| to - from),
            attempts: job.starts,
            peak_memory: job.peak_memory,
            at_most_slower: job.at_most_slower,
            slower: job.slower,
            metrics: metrics.iter().map(|(n, v)| (n.to_owned(), v)).collect(),
            log: path.exists().then_some(path),
            command: job.command.clone(),
            names: job.values.iter().map(|(name, _)| name.clone()).collect(),
            metric_names: metrics.iter().map(|(name, _)| name.to_owned()).collect(),
        }
    }
}

impl Row {
    /// Measured and promised slow-down: `12 % of 15 %`, or `not measured`; empty without a promise.
    fn promise(&self) -> String {
        match (self.at_most_slower, self.slower) {
            (None, _) => String::new(),
            (Some(most), Some(was)) => format!("{was} % of {most} %"),
            (Some(_), None) if self.state == Word::Done => "not measured".to_owned(),
            (Some(_), None) => String::new(),
        }
    }
}

/// Columns of every table: [`BEFORE`] stand before the metrics, [`BEHIND`] after them.
const BEFORE: [&str; 5] = ["state", "exit", "seconds", "attempts", "peak_mb"];
const BEHIND: [&str; 2] = ["log", "command"];

/// A table of text: its header and its rows.
fn cells(rows: &[Row]) -> Vec<Vec<String>> {
    let names = distinct(rows.iter().flat_map(|row| &row.names));
    let metrics = distinct(rows.iter().flat_map(|row| &row.metric_names));
    // A training may print one of its parameters, such as the learning rate.
    let is_taken = |name: &str| {
        let fixed = BEFORE.iter().chain(&BEHIND).chain(&["id", "slower"]);
        names.contains(&name) || fixed.clone().any(|known| *known == name)
    };
    let promised = rows.iter().any(|row| row.at_most_slower.is_some());
    let mut header = vec!["id".to_owned()];
    header.extend(names.iter().map(|name| (*name).to_owned()));
    header.extend(BEFORE.map(str::to_owned));
    header.extend(promised.then(|| "slower".to_owned()));
    header.extend(metrics.iter().map(|name| match is_taken(name) {
        true => format!("printed.{name}"),
        false => (*name).to_owned(),
    }));
    header.extend(BEHIND.map(str::to_owned));
    let text = |cell: Option<String>| cell.unwrap_or_default();
    let row = |row: &Row| {
        let mut cells = vec![row.id.to_string()];
        cells.extend(
            names
                .iter()
                .map(|name| text(row.values.get(*name).cloned())),
        );
        cells.extend([
            show::name(row.state).to_owned(),
            text(row.exit.map(|code| code.to_string())),
            text(row.seconds.map(|seconds| format!("{seconds:.2}"))),
            row.attempts.to_string(),
            text(
                row.peak_memory
                    .map(|bytes| format!("{:.1}", bytes as f64 * 1e-6)),
            ),
        ]);
        cells.extend(promised.then(|| row.promise()));
        let metric = |name: &&str| row.metrics.get(*name).map(f64::to_string);
        cells.extend(metrics.iter().map(metric).map(text));
        let log = row.log.as_ref().map(|path| path.display().to_string());
        cells.extend([text(log), row.command.clone()]);
        cells
    };
    [header].into_iter().chain(rows.iter().map(row)).collect()
}

fn distinct<'a>(names: impl Iterator<Item = &'a String>) -> Vec<&'a str> {
    let mut seen = std::collections::BTreeSet::new();
    names
        .map(|name| &**name)
        .filter(|name| seen.insert(*name))
        .collect()
}

/// The table for users. It leaves out the command, whose values are columns, unless a job has no values.
#[must_use]
pub fn table(rows: &[Row]) -> String {
    let mut lines = cells(rows);
    if rows.iter().all(|row| !row.names.is_empty()) {
        for line in &mut lines {
            line.pop();
        }
    }
    let columns = lines.first().map_or(0, Vec::len);
    let width = |column: usize| {
        let cell = |line: &Vec<String>| cli::one_line(&line[column]).chars().count();
        show::column(lines.iter().map(cell))
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for line in &lines {
        let cells: Vec<String> = line
            .iter()
            .zip(&widths)
            .map(|(cell, &width)| format!("{:<width$}", cli::one_line(cell)))
            .collect();
        text += cells.join("  ").trim_end();
        text.push('\n');
    }
    text
}

/// The table as comma-separated values (RFC 4180, with line ends of Unix).
#[must_use]
pub fn csv(rows: &[Row]) -> String {
    let cell = |cell: &String| match cell.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell.clone(),
    };
    let line = |line: &Vec<String>| line.iter().map(cell).collect::<Vec<_>>().join(",") + "\n";
    cells(rows).iter().map(line).collect()
}

/// Folder of a job's output below that of its sweep, as GNU parallel names it: `lr/0.1/seed/1`, or its number for a
/// command without values.
fn folder_of(job: &JobStatus) -> PathBuf {
    if job.values.is_empty() {
        return PathBuf::from(job.id.to_string());
    }
    // No value may lead out of the folder.
    let name = |value: &str| match value.replace('+', "++").replace('/', "+z") {
        value if value.is_empty() || value == "." || value == ".." => format!("+{value}"),
        value => value,
    };
    job.values
        .iter()
        .flat_map(|(place, value)| [place.clone(), name(value)])
        .collect()
}

/// Writes the output of a job to `stdout` (both streams, as in the log) and its number to `seq`, in its folder below
/// `results`.
///
/// # Errors
/// [`io::Error`] of the folder or of a file.
pub fn write(job: &JobStatus, queue: &Path, results: &Path) -> io::Result<()> {
    let folder = results.join(folder_of(job));
    fs::create_dir_all(&folder)?;
    let log = match logs::whole(&logs::path(queue, job.id)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        log => log?.0,
    };
    fs::write(folder.join("stdout"), log)?;
    fs::write(folder.join("seq"), format!("{}\n", job.id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_huge_command_does_not_widen_the_rows_of_others() {
        let row = |command: String| Row {
            id: Id(1),
            values: BTreeMap::new(),
            state: Word::Done,
            exit: Some(0),
            signal: None,
            seconds: Some(1.0),
            attempts: 1,
            peak_memory: None,
            at_most_slower: None,
            slower: None,
            metrics: BTreeMap::new(),
            log: None,
            command,
            names: vec!["x".to_owned()],
            metric_names: Vec::new(),
        };
        let huge = "x".repeat(100_000);
        let valued = Row {
            values: BTreeMap::from([("x".to_owned(), huge.clone())]),
            ..row(String::new())
        };
        let text = table(&[valued, row("true".to_owned())]);
        let lengths: Vec<usize> = text.lines().map(str::len).collect();
        assert!(lengths[1] > 100_000, "{lengths:?}");
        assert!(lengths[0] < 300 && lengths[2] < 300, "{lengths:?}");
    }
}
