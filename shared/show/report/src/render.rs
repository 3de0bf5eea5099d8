//! Turns reports into text.

mod csv;
mod html;
mod markdown;
mod perfetto;
mod terminal;

pub use csv::csv;
pub use html::html;
pub use markdown::markdown;
pub use perfetto::perfetto;
pub use terminal::terminal;

use crate::RenderError;
use crate::number::{decimals, fixed};
use crate::page::{Cell, Column, Report, Table};
use crate::picture;

/// Draws the pictures of all reports in one SVG document, one below the other.
pub fn svg(reports: &[Report]) -> Result<String, RenderError> {
    let mut pictures = reports.iter().flat_map(|r| &r.pictures).peekable();
    if pictures.peek().is_none() {
        return Err(RenderError::NothingToDraw);
    }
    Ok(picture::document(pictures))
}

/// Formats the cells of a column; numbers of one column have the same number of decimals.
fn shown(table: &Table, column: usize) -> Vec<String> {
    let cells = || table.rows.iter().map(|row| &row[column]);
    let numbers = cells().filter_map(|cell| match cell {
        Cell::Number(value) => Some(*value),
        _ => None,
    });
    let percent = table.columns[column].unit == "%";
    let decimals = decimals(numbers).min(if percent { 2 } else { usize::MAX });
    cells()
        .map(|cell| match cell {
            Cell::Empty => String::new(),
            Cell::Text(text) => text.clone(),
            Cell::Number(value) => fixed(*value, decimals),
            Cell::Count(value) => value.to_string(),
            Cell::Flag(true) => "yes".to_owned(),
            Cell::Flag(false) => "no".to_owned(),
        })
        .collect()
}

/// Whether a column contains numbers, which are right-aligned.
fn at_right(table: &Table, column: usize) -> bool {
    let mut filled = table
        .rows
        .iter()
        .map(|r| &r[column])
        .filter(|c| **c != Cell::Empty);
    filled.all(|cell| cell.value().is_some())
}

/// Heading and unit of a column, and whether its numbers are simulated.
fn heading(column: &Column, simulated: bool) -> Vec<&'static str> {
    let origin = if simulated && column.of_device {
        "simulated"
    } else {
        ""
    };
    let parts = [column.heading, column.unit, origin];
    parts.into_iter().filter(|part| !part.is_empty()).collect()
}

/// Removes control characters, which could change the state of a terminal.
fn clean(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).collect()
}
