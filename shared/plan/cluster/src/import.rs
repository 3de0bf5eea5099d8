//! Builds instances from tables of jobs and of rates, for example real traces and solo rates of
//! mt-profile.

use std::collections::BTreeMap;
use std::io::Read;

use units::{Seconds, TaskId, UnitError, Weight};

use crate::Fleet;

/// Why a table cannot be imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The file is not CSV, or a row has a different number of cells.
    #[error("{name}: {error}")]
    Csv {
        /// The file.
        name: String,
        /// The error of the CSV reader.
        error: csv::Error,
    },
    /// A column is missing.
    #[error("{name}: there is no column `{column}`; give {needed}")]
    Column {
        /// The file.
        name: String,
        /// The column.
        column: &'static str,
        /// All columns of the table.
        needed: &'static str,
    },
    /// A cell is not a number in range.
    #[error("{name}:{line}: column `{column}`: {value:?} is not {expected}")]
    Cell {
        /// The file.
        name: String,
        /// The line, from 1.
        line: u64,
        /// The column.
        column: &'static str,
        /// The text found.
        value: String,
        /// The valid form.
        expected: &'static str,
    },
    /// A model has no rate.
    #[error(
        "{name}:{line}: no GPU of the cluster has a rate for model {model:?}; add rows to the rates"
    )]
    NoRate {
        /// The file.
        name: String,
        /// The line, from 1.
        line: u64,
        /// The model.
        model: String,
    },
    /// A quantity of the document is out of range.
    #[error(transparent)]
    Unit(#[from] UnitError),
}

/// Columns of the jobs.
const JOBS: &str = "model, arrival_s, gpus, and steps (of each GPU) or duration_s (on --reference); optionally id, weight";
/// Columns of the rates.
const RATES: &str =
    "model, type, steps_per_s; optionally gpus (1 if absent): rate of a job on so many GPUs";

/// Rates in steps per second by model, GPU type and number of GPUs.
pub type Rates = BTreeMap<(String, String, u32), f64>;

/// Columns of the pairs.
const PAIRS: &str = "model, beside, type, steps_per_s, beside_steps_per_s: rates of both on one GPU, 0 where they do not run together";

/// Rates in steps per second of two models that train on one GPU, by both names and the GPU's type.
pub type Pairs = BTreeMap<(String, String, String), (f64, f64)>;

/// How a trace is converted to rounds of tasks.
#[derive(Debug, Clone, PartialEq)]
pub struct Lumping {
    /// GPU types and how many of each.
    pub gpus: Fleet,
    /// Seconds that the steps of a task take on the fastest type.
    pub task_s: f64,
    /// Type on which `duration_s` was measured.
    pub reference: Option<String>,
    /// Which models may share a GPU.
    pub pairs: Pairs,
}

struct Table<R> {
    name: String,
    reader: csv::Reader<R>,
    columns: BTreeMap<String, usize>,
}

struct Row {
    name: String,
    line: u64,
    cells: BTreeMap<String, String>,
}

impl<R: Read> Table<R> {
    fn open(
        name: &str,
        source: R,
        needed: &[&'static str],
        all: &'static str,
    ) -> Result<Self, ImportError> {
        let mut reader = csv::ReaderBuilder::new()
            .trim(csv::Trim::All)
            .from_reader(source);
        let wrong = |error| ImportError::Csv {
            name: name.to_owned(),
            error,
        };
        let columns: BTreeMap<String, usize> = reader
            .headers()
            .map_err(wrong)?
            .iter()
            .enumerate()
            .map(|(i, h)| (h.to_owned(), i))
            .collect();
        if let Some(&column) = needed.iter().find(|c| !columns.contains_key(**c)) {
            return Err(ImportError::Column {
                name: name.to_owned(),
                column,
                needed: all,
            });
        }
        Ok(Self {
            name: name.to_owned(),
            reader,
            columns,
        })
    }

    fn rows(mut self) -> impl Iterator<Item = Result<Row, ImportError>> {
        let mut record = csv::StringRecord::new();
        std::iter::from_fn(move || match self.reader.read_record(&mut record) {
            Ok(false) => None,
            Ok(true) => Some(Ok(Row {
                name: self.name.clone(),
                line: record.position().map_or(0, csv::Position::line),
                cells: self
                    .columns
                    .iter()
                    .filter_map(|(k, &i)| Some((k.clone(), record.get(i)?.to_owned())))
                    .filter(|(_, v)| !v.is_empty())
                    .collect(),
            })),
            Err(error) => Some(Err(ImportError::Csv {
                name: self.name.clone(),
                error,
            })),
        })
    }
}

impl Row {
    fn wrong(&self, column: &'static str, value: &str, expected: &'static str) -> ImportError {
        ImportError::Cell {
            name: self.name.clone(),
            line: self.line,
            column,
            value: value.to_owned(),
            expected,
        }
    }

    fn text(&self, column: &'static str) -> Result<String, ImportError> {
        let cell = self.cells.get(column).cloned();
        cell.ok_or_else(|| self.wrong(column, "", "a name"))
    }

    /// A finite number of at least `least`; `None` where the cell is empty or absent.
    fn number(&self, column: &'static str, least: f64) -> Result<Option<f64>, ImportError> {
        let Some(cell) = self.cells.get(column) else {
            return Ok(None);
        };
        match cell.parse::<f64>() {
            Ok(v) if v.is_finite() && v >= least => Ok(Some(v)),
            _ if least > 0.0 => Err(self.wrong(column, cell, "a number above 0")),
            _ => Err(self.wrong(column, cell, "a number, 0 or more")),
        }
    }
}

/// Reads a table of rates.
pub fn rates(name: &str, source: impl Read) -> Result<Rates, ImportError> {
    let mut out = Rates::new();
    let table = Table::open(name, source, &["model", "type", "steps_per_s"], RATES)?;
    for row in table.rows() {
        let row = row?;
        let gpus = row.number("gpus", 1.0)?.unwrap_or(1.0) as u32;
        let rate = row
            .number("steps_per_s", f64::MIN_POSITIVE)?
            .ok_or_else(|| row.wrong("steps_per_s", "", "a number above 0"))?;
        out.insert((row.text("model")?, row.text("type")?, gpus), rate);
    }
    Ok(out)
}

/// Reads a table of rates of pairs.
pub fn pairs(name: &str, source: impl Read) -> Result<Pairs, ImportError> {
    let mut out = Pairs::new();
    let needed = [
        "model",
        "beside",
        "type",
        "steps_per_s",
        "beside_steps_per_s",
    ];
    for row in Table::open(name, source, &needed, PAIRS)?.rows() {
        let row = row?;
        let rate = |column| {
            let rate = row.number(column, 0.0)?;
            rate.ok_or_else(|| row.wrong(column, "", "a number, 0 or more"))
        };
        let rates = (rate("steps_per_s")?, rate("beside_steps_per_s")?);
        let key = (row.text("model")?, row.text("beside")?, row.text("type")?);
        // A rate is 0 if the pair does not fit into the memory, or one of the two starves.
        if rates.0 > 0.0 && rates.1 > 0.0 {
            out.insert(key, rates);
        }
    }
    Ok(out)
}

/// Rates of model a beside model b, and of b beside a; `pairs` may have the two in either order.
pub fn known(pairs: &Pairs, a: &str, b: &str, kind: &str) -> Option<(f64, f64)> {
    let of = |a: &str, b: &str| pairs.get(&(a.to_owned(), b.to_owned(), kind.to_owned()));
    of(a, b).copied().or_else(|| of(b, a).map(|&(b, a)| (a, b)))
}

/// The jobs that may share a GPU, by their models.
fn sharing(models: &[String], rates: &Rates, lumping: &Lumping) -> Vec<doc::Sharing> {
    let mut out = Vec::new();
    for (kind, _) in &lumping.gpus {
        for (i, a) in models.iter().enumerate() {
            for (k, b) in models.iter().enumerate().skip(i + 1) {
                let Some(together) = known(&lumping.pairs, a, b, kind) else {
                    continue;
                };
                let solo = |model: &String| rates.get(&(model.clone(), kind.clone(), 1));
                let Some((&alone, &other)) = solo(a).zip(solo(b)) else {
                    continue;
                };
                // A rate above the one alone is a measurement error.
                let part = |rate: f64, alone: f64| (rate / alone).min(1.0);
                out.push(doc::Sharing {
                    jobs: [i, k],
                    kind: kind.clone(),
                    rates: [part(together.0, alone), part(together.1, other)],
                });
            }
        }
    }
    out
}

/// Builds an instance from a table of jobs. A task has the steps that take `task_s` on the job's
/// fastest type; a job has the number of rounds of `gpus` tasks that its steps need, at least one.
///
/// Synchronisation: `Ts = D / rate(D GPUs) - 1 / rate(1)` for one step (0 where no rate of D GPUs
/// is known), once per round, with local steps in between, as in local SGD.
pub fn cluster(
    name: &str,
    source: impl Read,
    rates: &Rates,
    lumping: &Lumping,
) -> Result<doc::Cluster, ImportError> {
    let mut jobs = Vec::new();
    let mut models = Vec::new();
    let table = Table::open(name, source, &["model", "arrival_s", "gpus"], JOBS)?;
    for row in table.rows() {
        let row = row?;
        jobs.push(job(&row, jobs.len(), rates, lumping)?);
        models.push(row.text("model")?);
    }
    let groups = lumping.gpus.iter().map(|(kind, count)| doc::GpuGroup {
        id: None,
        kind: kind.clone(),
        count: Some(*count),
        node: None,
        uuid: None,
        memory: None,
        bus: None,
    });
    Ok(doc::Cluster {
        id: None,
        groups: groups.collect(),
        jobs,
        sharing: sharing(&models, rates, lumping),
        provenance: Vec::new(),
    })
}

fn job(
    row: &Row,
    n: usize,
    rates: &Rates,
    lumping: &Lumping,
) -> Result<doc::ClusterJob, ImportError> {
    let model = row.text("model")?;
    let rate = |kind: &str, gpus: u32| rates.get(&(model.clone(), kind.to_owned(), gpus)).copied();
    let solo: Vec<(&String, f64)> = lumping
        .gpus
        .iter()
        .filter_map(|(kind, _)| Some((kind, rate(kind, 1)?)))
        .collect();
    let fastest = solo.iter().map(|r| r.1).fold(0.0, f64::max);
    if fastest <= 0.0 {
        return Err(ImportError::NoRate {
            name: row.name.clone(),
            line: row.line,
            model,
        });
    }
    let tasks = row.number("gpus", 1.0)?.unwrap_or(1.0).round() as u32;
    let steps = match (
        row.number("steps", f64::MIN_POSITIVE)?,
        row.number("duration_s", 0.0)?,
    ) {
        (Some(steps), _) => steps,
        (None, Some(seconds)) => {
            let reference = lumping.reference.as_ref().and_then(|kind| rate(kind, 1));
            let advice = "usable without --reference TYPE and a rate of the model on it";
            seconds
                * reference.ok_or_else(|| row.wrong("duration_s", &seconds.to_string(), advice))?
        }
        (None, None) => {
            return Err(row.wrong("steps", "", "a number above 0 (or give duration_s)"));
        }
    };
    let per_task = (lumping.task_s * fastest).max(1.0).min(steps.max(1.0));
    let rounds = (steps / per_task).round().max(1.0) as u32;
    let mut train = BTreeMap::new();
    let mut sync = BTreeMap::new();
    for (kind, solo) in solo {
        let together = rate(kind, tasks).unwrap_or(solo * f64::from(tasks));
        let exchange = (f64::from(tasks) / together - 1.0 / solo).max(0.0);
        train.insert(kind.clone(), Seconds::new(per_task / solo)?);
        sync.insert(kind.clone(), Seconds::new(exchange)?);
    }
    let id = row
        .cells
        .get("id")
        .cloned()
        .unwrap_or_else(|| format!("job-{n}"));
    Ok(doc::ClusterJob {
        id: TaskId::new(&id)?,
        weight: Weight::new(row.number("weight", f64::MIN_POSITIVE)?.unwrap_or(1.0))?,
        arrival: Seconds::new(row.number("arrival_s", 0.0)?.unwrap_or(0.0))?,
        rounds,
        tasks,
        gang: None,
        train,
        sync,
        samples: None,
        model_bytes: None,
        layers: Vec::new(),
        memory: None,
        job: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// Rates, a NUL, and jobs.
    #[test]
    fn fuzz_tables_of_jobs() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let cases = here.join("../../../tools/mt-cluster/tests/cli/in");
        let [own, corpus] = ["tests/fuzz/jobs", "tests/fuzz/jobs-corpus"].map(|f| here.join(f));
        let text = std::fs::read(cases.join("rates.csv")).unwrap();
        let known = rates("rates", text.as_slice()).unwrap();
        let lumping = Lumping {
            gpus: known.keys().map(|(_, kind, _)| (kind.clone(), 2)).collect(),
            task_s: 60.0,
            reference: None,
            pairs: Pairs::new(),
        };
        testkit::fuzz::fuzz("jobs", &[&own, &corpus, &cases], |text| {
            let end = text.iter().position(|b| *b == 0).unwrap_or(text.len());
            let given = rates("r", &text[..end]);
            let rates = given.as_ref().unwrap_or(&known);
            let jobs = cluster("j", text.get(end + 1..).unwrap_or(text), rates, &lumping);
            let class = |error: &ImportError| {
                let text = error.to_string();
                text.chars()
                    .filter(|c| !c.is_ascii_digit())
                    .take(50)
                    .collect::<String>()
            };
            let read = given.as_ref().map(|r| r.len().min(3)).map_err(class);
            format!(
                "{read:?} {:?}",
                jobs.map(|c| c.jobs.len().min(3)).map_err(|e| class(&e))
            )
        });
    }
}
