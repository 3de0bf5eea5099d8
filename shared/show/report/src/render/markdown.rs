use super::{at_right, clean, heading, shown};
use crate::page::{Report, Table};

/// Writes a report as Markdown: a heading, a list of facts, tables.
pub fn markdown(report: &Report) -> String {
    let mut out = String::new();
    if !report.title.is_empty() {
        out.push_str(&format!("## {}\n\n", escape(&report.title)));
    }
    if !report.headline.is_empty() {
        out.push_str(&format!("**{}**\n\n", escape(&report.headline)));
    }
    for (label, value) in &report.facts {
        out.push_str(&format!("- {label}: {}\n", escape(value)));
    }
    for table in &report.tables {
        out.push_str(&format!("\n**{}**\n\n", escape(&table.title)));
        out.push_str(&one(table, report.simulated));
    }
    for note in &report.notes {
        out.push_str(&format!("\n{}\n", escape(note)));
    }
    for (i, (term, meaning)) in report.legend.iter().enumerate() {
        let gap = if i == 0 { "\n" } else { "" };
        let (term, meaning) = (escape(term), escape(meaning));
        out.push_str(&format!("{gap}- *{term}*: {meaning}\n"));
    }
    out
}

fn one(table: &Table, simulated: bool) -> String {
    let columns: Vec<usize> = (0..table.columns.len())
        .filter(|&c| !table.columns[c].drawn)
        .collect();
    let headings = columns.iter().map(|&c| {
        let parts = heading(&table.columns[c], simulated);
        match &parts[..] {
            [only] => (*only).to_owned(),
            [name, rest @ ..] => format!("{name} ({})", rest.join(", ")),
            [] => String::new(),
        }
    });
    let mut out = line(headings);
    let dashes = columns
        .iter()
        .map(|&c| if at_right(table, c) { "---:" } else { "---" });
    out.push_str(&line(dashes.map(str::to_owned)));
    let cells: Vec<Vec<String>> = columns.iter().map(|&c| shown(table, c)).collect();
    for row in 0..table.rows.len() {
        out.push_str(&line(cells.iter().map(|column| escape(&column[row]))));
    }
    out
}

fn line(cells: impl Iterator<Item = String>) -> String {
    let cells: Vec<String> = cells.collect();
    format!("| {} |\n", cells.join(" | "))
}

/// Escapes text for Markdown.
fn escape(text: &str) -> String {
    let mut out = String::new();
    for c in clean(text).chars() {
        if matches!(
            c,
            '\\' | '`' | '*' | '_' | '<' | '>' | '|' | '[' | ']' | '#'
        ) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}
