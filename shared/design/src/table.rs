//! Configurations and measurements in CSV: `config,task,batch,share_percent,throughput[,stderr]`,
//! a row for each task of a configuration.

use std::io::{BufRead, Read};

use cli::Failure;
use doc::{Code, Fault, Faults, MAX_DOCUMENT_BYTES, Workload};
use units::{Batch, SamplesPerSec, Share, TaskId, UnitError};

/// Faults that are shown; of more only the number is told.
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

struct Columns {
    config: usize,
    task: usize,
    batch: usize,
    share: usize,
    throughput: Option<usize>,
    stderr: Option<usize>,
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
            faults: vec![Fault {
                code: Code::BadCsv,
                path,
                problem,
                advice: advice.to_owned(),
            }],
        };
        self.lines.extend(faults.lines());
    }

    fn failure(mut self) -> Option<Failure> {
        let more = self.lines.len().saturating_sub(MOST_SHOWN);
        self.lines.truncate(MOST_SHOWN);
        if more > 0 {
            self.lines.push(format!("{}: {more} more", self.source));
        }
        (!self.lines.is_empty()).then(|| Failure::Input(self.lines.join("\n")))
    }
}

/// Reads the configurations of a table in order of their first row, each sorted by task.
///
/// # Errors
/// [`Failure::Input`] with file, line and column of every fault.
pub fn read(
    reader: impl BufRead,
    source: &str,
    workload: &Workload,
    throughput: Throughput,
) -> Result<Vec<Vec<Row>>, Failure> {
    let mut faulty = Faulty {
        source,
        lines: Vec::new(),
    };
    let rows = read_rows(reader, workload, throughput, &mut faulty)?;
    match faulty.failure() {
        None => Ok(rows),
        Some(failure) => Err(failure),
    }
}

fn read_rows(
    reader: impl BufRead,
    workload: &Workload,
    throughput: Throughput,
    faulty: &mut Faulty,
) -> Result<Vec<Vec<Row>>, Failure> {
    let mut bytes = Vec::new();
    let limit = MAX_DOCUMENT_BYTES as u64 + 1;
    reader
        .take(limit)
        .read_to_end(&mut bytes)
        .map_err(|error| Failure::Input(format!("{}: {error}", faulty.source)))?;
    if bytes.len() as u64 == limit {
        let problem = format!("more than {MAX_DOCUMENT_BYTES} bytes");
        faulty.add(1, "", problem, "split it into several files");
        return Ok(Vec::new());
    }
    let mut table = csv::ReaderBuilder::new()
        .trim(csv::Trim::All)
        .comment(Some(b'#'))
        .from_reader(bytes.as_slice());
    let header = match table.headers() {
        Ok(header) => header.clone(),
        Err(error) => {
            faulty.add(1, "", error.to_string(), Code::BadCsv.action());
            return Ok(Vec::new());
        }
    };
    if header.is_empty() {
        let advice = Code::BadCsv.action();
        faulty.add(1, "", "the table is empty".to_owned(), advice);
        return Ok(Vec::new());
    }
    let Some(columns) = columns(&header, throughput, faulty) else {
        return Ok(Vec::new());
    };
    let mut labels: Vec<String> = Vec::new();
    let mut groups: Vec<Vec<Row>> = Vec::new();
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
            labels.push(label.to_owned());
            groups.push(Vec::new());
            groups.len() - 1
        });
        let Some(row) = row(&record, line, &columns, workload, faulty) else {
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
    for group in &mut groups {
        group.sort_by_key(|row| row.task);
    }
    Ok(groups)
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

fn columns(
    header: &csv::StringRecord,
    throughput: Throughput,
    faulty: &mut Faulty,
) -> Option<Columns> {
    const KNOWN: [&str; 6] = [
        "config",
        "task",
        "batch",
        "share_percent",
        "throughput",
        "stderr",
    ];
    for (i, name) in header.iter().enumerate() {
        if !KNOWN.contains(&name) {
            let advice = format!("the columns are {}", KNOWN.join(","));
            faulty.add(1, name, "not a known column".to_owned(), &advice);
        } else if header.iter().take(i).any(|other| other == name) {
            faulty.add(
                1,
                name,
                "the column is given twice".to_owned(),
                "remove one",
            );
        }
    }
    let find = |name: &str| header.iter().position(|cell| cell == name);
    let needed = match throughput {
        Throughput::Needed => &KNOWN[..5],
        Throughput::Ignored => &KNOWN[..4],
    };
    for name in needed {
        if find(name).is_none() {
            faulty.add(
                1,
                name,
                "the column is missing".to_owned(),
                Code::BadCsv.action(),
            );
        }
    }
    let columns = Columns {
        config: find("config")?,
        task: find("task")?,
        batch: find("batch")?,
        share: find("share_percent")?,
        throughput: find("throughput").filter(|_| throughput == Throughput::Needed),
        stderr: find("stderr").filter(|_| throughput == Throughput::Needed),
    };
    faulty.lines.is_empty().then_some(columns)
}

fn row(
    record: &csv::StringRecord,
    line: u64,
    columns: &Columns,
    workload: &Workload,
    faulty: &mut Faulty,
) -> Option<Row> {
    let cell = |column: usize| record.get(column).unwrap_or_default();
    let name = cell(columns.task);
    let task = TaskId::new(name)
        .ok()
        .and_then(|id| workload.task_index(&id));
    if task.is_none() {
        let names: Vec<_> = workload.tasks.iter().map(|t| t.id.as_str()).collect();
        let advice = format!("the workload has {}", names.join(", "));
        faulty.add(line, "task", format!("no task is called {name:?}"), &advice);
    }
    let mut cell_value = |column: &str, text: &str| -> Option<f64> {
        match text.parse::<f64>() {
            Ok(value) => Some(value),
            Err(_) => {
                let advice = "give a number such as 128 or 12.5";
                faulty.add(line, column, format!("{text:?} is not a number"), advice);
                None
            }
        }
    };
    let batch = cell_value("batch", cell(columns.batch));
    let share = cell_value("share_percent", cell(columns.share));
    let throughput = columns
        .throughput
        .map(|column| cell_value("throughput", cell(column)));
    let stderr = columns
        .stderr
        .filter(|&column| !cell(column).is_empty())
        .map(|column| cell_value("stderr", cell(column)));
    let batch = unit(faulty, line, "batch", batch, |v| {
        // Not a whole number or too large: out of range as 0 is.
        let whole = v.fract() == 0.0 && (0.0..1e9).contains(&v);
        Batch::new(if whole { v as u64 } else { 0 })
    });
    let share = unit(faulty, line, "share_percent", share, Share::from_percent);
    let throughput = throughput.map(|v| unit(faulty, line, "throughput", v, SamplesPerSec::new));
    let stderr = stderr.map(|v| unit(faulty, line, "stderr", v, SamplesPerSec::new));
    Some(Row {
        task: task?,
        batch: batch?,
        share: share?,
        throughput: match throughput {
            None => None,
            Some(value) => Some(value?),
        },
        stderr: match stderr {
            None => None,
            Some(value) => Some(value?),
        },
    })
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
