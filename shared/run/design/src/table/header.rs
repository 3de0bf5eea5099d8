//! The meaning of the columns.

use doc::Code;

use super::faulty::Faulty;

/// Whether every row must have a throughput.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Throughput {
    /// Every row must have a throughput.
    Needed,
    /// Throughputs are ignored.
    Ignored,
}

/// Indices of the columns in a record.
pub(super) struct Columns {
    pub config: usize,
    pub task: usize,
    pub batch: usize,
    /// The share, and whether it is a fraction rather than percent.
    pub share: (usize, bool),
    /// Column of the throughput; `None` if throughputs are ignored.
    pub rate: Option<Rate>,
}

/// Column of a throughput, and its kind.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rate {
    pub name: &'static str,
    pub column: usize,
    /// Seconds per unit of the column if it is a step time; `None` for samples per second.
    pub step_seconds: Option<f64>,
    /// Column of the standard error, in the same unit.
    pub stderr: Option<usize>,
}

/// Accepted names of the throughput column, with the seconds per unit for step times.
const RATES: [(&str, Option<f64>); 4] = [
    ("throughput", None),
    ("samples_per_s", None),
    ("step_s", Some(1.0)),
    ("step_ms", Some(1e-3)),
];
/// Accepted names of the share column, and whether it is a fraction.
const SHARES: [(&str, bool); 2] = [("share_percent", false), ("share_fraction", true)];
const OTHERS: [&str; 4] = ["config", "task", "batch", "stderr"];

/// Finds the columns; every missing, duplicate or ambiguous one is a fault.
pub(super) fn columns(
    header: &csv::StringRecord,
    throughput: Throughput,
    faulty: &mut Faulty,
    notes: &mut Vec<String>,
) -> Option<Columns> {
    if header.is_empty() {
        let advice = Code::BadCsv.action();
        faulty.add(1, "", "the table is empty".to_owned(), advice);
        return None;
    }
    if let Some((problem, advice)) = no_header(header) {
        faulty.add(1, "", problem, advice);
        return None;
    }
    // Capitals, spaces and hyphens are ignored.
    let plain = |cell: &str| cell.trim().to_lowercase().replace([' ', '-'], "_");
    let names: Vec<String> = header.iter().map(plain).collect();
    let known = |name: &str| {
        let rates = RATES.iter().map(|(n, _)| *n);
        let shares = SHARES.iter().map(|(n, _)| *n);
        OTHERS
            .into_iter()
            .chain(rates)
            .chain(shares)
            .any(|n| n == name)
    };
    let mut ignored = Vec::new();
    for (i, name) in names.iter().enumerate() {
        if !known(name) {
            ignored.push(header.get(i).unwrap_or_default());
        } else if names[..i].contains(name) {
            let problem = "the column is given twice".to_owned();
            faulty.add(1, name, problem, "remove one");
        }
    }
    if !ignored.is_empty() {
        notes.push(format!("columns not used: {}", ignored.join(", ")));
    }
    let mut find = Find { names, faulty };
    let config = find.one("config");
    let task = find.one("task");
    let batch = find.one("batch");
    let share = find.one_of(&SHARES.map(|(n, _)| n));
    let rate = match throughput {
        Throughput::Needed => Some(find.one_of(&RATES.map(|(n, _)| n))?),
        Throughput::Ignored => None,
    };
    let stderr = find.names.iter().position(|n| n == "stderr");
    let columns = Columns {
        config: config?,
        task: task?,
        batch: batch?,
        share: share.map(|(k, column)| (column, SHARES[k].1))?,
        rate: rate.map(|(k, column)| Rate {
            name: RATES[k].0,
            column,
            step_seconds: RATES[k].1,
            stderr,
        }),
    };
    faulty.lines.is_empty().then_some(columns)
}

/// If the first line is not a header, the reason and what to do.
fn no_header(header: &csv::StringRecord) -> Option<(String, &'static str)> {
    // A line with a number and without a `task` column is the first row of a table without a header.
    let tasks = header.iter().any(|cell| cell.eq_ignore_ascii_case("task"));
    let number = header.iter().find(|cell| cell.parse::<f64>().is_ok());
    if let Some(number) = number.filter(|_| !tasks) {
        return Some((
            format!("the first line holds the number {number}, not the names of columns"),
            "begin with a line of column names",
        ));
    }
    let only = header.iter().next().filter(|_| header.len() == 1)?;
    for (separator, name) in [(';', "semicolons"), ('\t', "tabs")] {
        if only.contains(separator) {
            return Some((
                format!("cells are separated by {name}"),
                "separate them by commas, with a point in numbers",
            ));
        }
    }
    None
}

struct Find<'a, 'b> {
    names: Vec<String>,
    faulty: &'a mut Faulty<'b>,
}

impl Find<'_, '_> {
    fn one(&mut self, name: &str) -> Option<usize> {
        self.one_of(&[name]).map(|(_, column)| column)
    }

    /// Index of the one name of `names` that is present, and of its column; more or fewer are a fault.
    fn one_of(&mut self, names: &[&str]) -> Option<(usize, usize)> {
        let at = |name: &&str| self.names.iter().position(|n| n == name);
        let found: Vec<(usize, usize)> = names
            .iter()
            .enumerate()
            .filter_map(|(k, name)| Some((k, at(name)?)))
            .collect();
        match found[..] {
            [one] => Some(one),
            [] => {
                let there: Vec<_> = self
                    .names
                    .iter()
                    .map(|n| n.escape_debug().to_string())
                    .collect();
                let problem = format!("the column is missing; there are {}", there.join(", "));
                let advice = match names {
                    [_] => Code::BadCsv.action().to_owned(),
                    _ => format!("give one of {}", names.join(", ")),
                };
                self.faulty.add(1, names[0], problem, &advice);
                None
            }
            _ => {
                let found: Vec<&str> = found.iter().map(|(k, _)| names[*k]).collect();
                let problem = format!("{} are given at once", found.join(" and "));
                self.faulty.add(1, names[0], problem, "remove all but one");
                None
            }
        }
    }
}
