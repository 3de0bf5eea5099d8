use comfy_table::{CellAlignment, ContentArrangement, LineStyle, TableStyle};

use super::{at_right, clean, heading, shown};
use crate::page::{Report, Table};

/// Table style: horizontal lines below the headings and below the table, nothing else.
const STYLE: TableStyle = TableStyle::new()
    .header_separator(LineStyle::none().fill('─').junction('─'))
    .bottom_border(LineStyle::none().fill('─').junction('─'));

/// Writes a report for a terminal, at most `width` characters wide if the width is known: longer text is wrapped
/// within its cell.
pub fn terminal(report: &Report, width: Option<u16>) -> String {
    let screen = width;
    let mut out = String::new();
    if !report.title.is_empty() {
        let title = clean(&report.title);
        let line = "=".repeat(title.chars().count());
        out.push_str(&format!("{title}\n{line}\n"));
    }
    if !report.headline.is_empty() {
        out.push_str(&format!("{}\n\n", clean(&report.headline)));
    }
    let width = report
        .facts
        .iter()
        .map(|(label, _)| label.chars().count())
        .max();
    for (label, value) in &report.facts {
        let width = width.unwrap_or(0);
        out.push_str(&format!("{label:<width$}  {}\n", clean(value)));
    }
    for table in &report.tables {
        out.push_str(&format!(
            "\n{}\n{}\n",
            clean(&table.title),
            one(table, report.simulated, screen)
        ));
    }
    for note in &report.notes {
        out.push_str(&format!("\n{}\n", clean(note)));
    }
    let width = report
        .legend
        .iter()
        .map(|(term, _)| term.chars().count())
        .max()
        .unwrap_or(0);
    for (i, (term, meaning)) in report.legend.iter().enumerate() {
        let gap = if i == 0 { "\n" } else { "" };
        out.push_str(&format!("{gap}{term:<width$}  {meaning}\n"));
    }
    out
}

fn one(table: &Table, simulated: bool, width: Option<u16>) -> String {
    let mut drawn = comfy_table::Table::new();
    drawn.load_style(STYLE);
    match width {
        Some(width) => drawn
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(width),
        None => drawn.set_content_arrangement(ContentArrangement::Disabled),
    };
    let headings = table
        .columns
        .iter()
        .map(|c| heading(c, simulated).join("\n"));
    drawn.set_header(headings);
    let columns: Vec<Vec<String>> = (0..table.columns.len()).map(|c| shown(table, c)).collect();
    for row in 0..table.rows.len() {
        drawn.add_row(columns.iter().map(|cells| clean(&cells[row])));
    }
    for (i, column) in drawn.column_iter_mut().enumerate() {
        if at_right(table, i) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    drawn.trim_fmt()
}
