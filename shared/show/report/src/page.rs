//! Content of a report, independent of the output format.

use crate::picture::{Drawing, Picture};

/// The whole report of one document.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Report {
    /// Kind and name of the document.
    pub title: String,
    /// Whether the numbers of the device come from a simulator.
    pub simulated: bool,
    /// The answer in one line: whether sharing is worth it, and by how much.
    pub headline: String,
    /// Single facts: label and value.
    pub facts: Vec<(String, String)>,
    /// The tables.
    pub tables: Vec<Table>,
    /// Remarks below the tables.
    pub notes: Vec<String>,
    /// Terms in the tables and their meaning.
    pub legend: Vec<(&'static str, &'static str)>,
    /// The pictures.
    pub pictures: Vec<Picture>,
    /// Tracks for a trace viewer.
    pub tracks: Vec<Track>,
}

/// One task in a trace viewer: its planned or measured slices of time.
#[derive(Debug, Clone, PartialEq)]
pub struct Track {
    /// `planned` or `measured`.
    pub group: &'static str,
    /// Name of the task.
    pub name: String,
    /// Name, start and end in seconds.
    pub slices: Vec<(String, f64, f64)>,
    /// Name, time in seconds, and value at that time.
    pub counters: Vec<(&'static str, f64, f64)>,
}

/// A table.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// Name for `--table`.
    pub key: &'static str,
    /// Title: what the table shows.
    pub title: String,
    /// Its columns.
    pub columns: Vec<Column>,
    /// Its rows, each with one cell for every column.
    pub rows: Vec<Vec<Cell>>,
    /// Whether the table is meant for programs: it appears only as CSV, or on request.
    pub long: bool,
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// Name in CSV, with the unit.
    pub key: &'static str,
    /// Name for people.
    pub heading: &'static str,
    /// Unit, or empty.
    pub unit: &'static str,
    /// Whether the numbers come from the device, measured or predicted.
    pub of_device: bool,
    /// Whether the column is only drawn, and left out of CSV.
    pub drawn: bool,
}

/// One cell.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// Nothing.
    Empty,
    /// A name or a remark.
    Text(String),
    /// A number, shown rounded but written exactly.
    Number(f64),
    /// A whole number.
    Count(u64),
    /// A yes or no.
    Flag(bool),
}

impl Report {
    /// A report without content.
    pub fn new(kind: &str, id: Option<&str>, simulated: bool) -> Self {
        let name = id.map_or(String::new(), |id| format!(" {id}"));
        let label = if simulated { " (simulated)" } else { "" };
        Self {
            title: format!("{kind}{name}{label}"),
            simulated,
            ..Self::default()
        }
    }

    /// Adds a fact.
    pub fn fact(&mut self, label: &str, value: impl Into<String>) {
        self.facts.push((label.to_owned(), value.into()));
    }

    /// Adds a picture.
    pub fn picture(&mut self, key: &'static str, title: impl Into<String>, drawing: Drawing) {
        let name = self.title.clone();
        self.pictures.push(Picture {
            key,
            title: title.into(),
            subtitle: name,
            drawing,
        });
    }

    /// Adds a table, unless it has no rows.
    pub fn table(&mut self, table: Table) {
        if !table.rows.is_empty() {
            self.tables.push(table);
        }
    }
}

impl Table {
    /// A table without columns.
    pub fn new(key: &'static str, title: impl Into<String>) -> Self {
        Self {
            key,
            title: title.into(),
            columns: Vec::new(),
            rows: Vec::new(),
            long: false,
        }
    }

    /// Adds a column whose numbers do not depend on the device.
    pub fn column(mut self, key: &'static str, heading: &'static str, unit: &'static str) -> Self {
        self.columns.push(Column {
            key,
            heading,
            unit,
            of_device: false,
            drawn: false,
        });
        self
    }

    /// Adds a column whose numbers come from the device, measured or predicted.
    pub fn measured(
        mut self,
        key: &'static str,
        heading: &'static str,
        unit: &'static str,
    ) -> Self {
        self = self.column(key, heading, unit);
        if let Some(last) = self.columns.last_mut() {
            last.of_device = true;
        }
        self
    }

    /// Adds a column that is only drawn, and left out of CSV.
    pub fn drawing(mut self, heading: &'static str) -> Self {
        self = self.column("", heading, "");
        if let Some(last) = self.columns.last_mut() {
            last.drawn = true;
        }
        self
    }

    /// Removes columns that are empty in every row.
    pub fn without_empty_columns(mut self) -> Self {
        let keep: Vec<bool> = (0..self.columns.len())
            .map(|c| self.rows.iter().any(|row| row[c] != Cell::Empty))
            .collect();
        let mut at = keep.iter();
        self.columns.retain(|_| at.next().copied().unwrap_or(true));
        for row in &mut self.rows {
            let mut at = keep.iter();
            row.retain(|_| at.next().copied().unwrap_or(true));
        }
        self
    }
}

impl Cell {
    /// A cell with the number, or an empty cell.
    pub fn number(value: Option<f64>) -> Self {
        value.map_or(Self::Empty, Self::Number)
    }

    /// A cell with the text, or an empty cell.
    pub fn text(value: Option<impl Into<String>>) -> Self {
        value.map_or(Self::Empty, |t| Self::Text(t.into()))
    }

    /// A cell with the whole number, or an empty cell.
    pub fn count(value: Option<u64>) -> Self {
        value.map_or(Self::Empty, Self::Count)
    }

    /// The number, if it is one.
    pub fn value(&self) -> Option<f64> {
        match self {
            Self::Number(value) => Some(*value),
            Self::Count(value) => Some(*value as f64),
            _ => None,
        }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}
