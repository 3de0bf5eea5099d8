//! Measured co-runs in the columns that `mt-profile --import` takes.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use crate::Outcome;

const HEADER: &str = "config,task,batch,share_percent,throughput";

/// One task of a co-run; a throughput of zero stands for "to be measured".
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    pub task: String,
    pub batch: u64,
    pub share: f64,
    pub rate: f64,
}

/// One co-run, its tasks by name.
#[derive(Debug, Clone, PartialEq)]
pub struct CoRun(pub Vec<Cell>);

impl CoRun {
    /// A co-run of these tasks, in the order of their names.
    pub fn new(mut cells: Vec<Cell>) -> Self {
        cells.sort_by(|a, b| a.task.cmp(&b.task));
        Self(cells)
    }

    /// Images per second of all tasks.
    pub fn total(&self) -> f64 {
        self.0.iter().map(|c| c.rate).sum()
    }

    /// Sum of the shares in percent.
    pub fn rv(&self) -> f64 {
        self.0.iter().map(|c| c.share).sum()
    }

    pub fn same_shares(&self, other: &CoRun) -> bool {
        self.0.len() == other.0.len()
            && self.0.iter().zip(&other.0).all(|(a, b)| {
                a.task == b.task && a.batch == b.batch && (a.share - b.share).abs() < 0.01
            })
    }

    pub fn has_equal_shares(&self) -> bool {
        self.0
            .iter()
            .all(|c| (c.share - self.0[0].share).abs() < 0.01)
    }

    /// Share of a task in percent.
    pub fn share(&self, task: &str) -> Option<f64> {
        self.0.iter().find(|c| c.task == task).map(|c| c.share)
    }
}

/// Co-runs in order of their number.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table(pub Vec<CoRun>);

impl Table {
    pub fn read_file(path: &Path) -> Outcome<Self> {
        let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
        Self::read(&text)
    }

    pub fn read(text: &str) -> Outcome<Self> {
        let mut rows: BTreeMap<u64, Vec<Cell>> = BTreeMap::new();
        for line in text.lines().skip(1) {
            let cells: Vec<&str> = line.split(',').collect();
            let [config, task, batch, share, rate] = cells.as_slice() else {
                return Err(format!("not a row of {HEADER}: {line}").into());
            };
            rows.entry(config.parse()?).or_default().push(Cell {
                task: (*task).to_owned(),
                batch: batch.parse()?,
                share: share.parse()?,
                rate: rate.parse()?,
            });
        }
        Ok(Self(rows.into_values().map(CoRun::new).collect()))
    }

    /// Writes the co-runs; without measurements, without the throughput column.
    pub fn write(&self, out: &mut impl Write) -> Outcome<()> {
        let listed = self.0.iter().all(|c| c.total() == 0.0) && !self.0.is_empty();
        if listed {
            writeln!(out, "config,task,batch,share_percent")?;
        } else {
            writeln!(out, "{HEADER}")?;
        }
        for (number, run) in self.0.iter().enumerate() {
            for c in &run.0 {
                write!(out, "{number},{},{},{}", c.task, c.batch, c.share)?;
                if listed {
                    writeln!(out)?;
                } else {
                    writeln!(out, ",{}", c.rate)?;
                }
            }
        }
        Ok(())
    }

    /// Co-runs of all `n` tasks.
    pub fn full(&self, n: usize) -> impl Iterator<Item = &CoRun> {
        self.0.iter().filter(move |c| c.0.len() == n)
    }

    /// The co-run of all tasks with the largest total.
    pub fn best(&self, n: usize) -> Option<&CoRun> {
        self.full(n).max_by(|a, b| a.total().total_cmp(&b.total()))
    }

    /// The co-run at the shares of `wanted`.
    pub fn at(&self, wanted: &CoRun) -> Option<&CoRun> {
        self.0.iter().find(|c| c.same_shares(wanted))
    }

    /// Rates of a task alone on the whole device, batch size by batch size.
    pub fn solos<'a>(&'a self, task: &'a str) -> impl Iterator<Item = (u64, f64)> + 'a {
        let alone = self.0.iter().filter(|c| c.0.len() == 1);
        let cells = alone.map(|c| &c.0[0]);
        let own = cells.filter(move |c| c.task == task && c.share > 99.0);
        own.map(|c| (c.batch, c.rate))
    }

    /// Rate of a task alone on the whole device at its smallest batch size.
    pub fn solo(&self, task: &str) -> Option<f64> {
        self.solos(task).min_by_key(|s| s.0).map(|s| s.1)
    }
}
