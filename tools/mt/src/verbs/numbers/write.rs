//! The table of results for users.

use super::found::Found;

const HEAD: [&str; 7] = [
    "TEMPLATE",
    "DEVICE",
    "AT ONCE",
    "GAIN",
    "CAP",
    "GPU MEMORY",
    "RAM",
];
/// Placeholder for an unknown number.
const UNKNOWN: &str = "-";

/// The table, and how each row was measured.
pub(super) fn table(all: &[Found]) -> String {
    let rows: Vec<[String; 7]> = [HEAD.map(str::to_owned)]
        .into_iter()
        .chain(all.iter().map(row))
        .collect();
    let length = |row: &[String; 7], column: usize| row[column].chars().count();
    let width = |at: usize| queue::show::column(rows.iter().map(|row| length(row, at)));
    let widths: Vec<usize> = (0..HEAD.len()).map(width).collect();
    let mut text = String::new();
    for row in &rows {
        let cells: Vec<String> = row
            .iter()
            .zip(&widths)
            .map(|(cell, &w)| format!("{cell:<w$}"))
            .collect();
        text += cells.join("  ").trim_end();
        text.push('\n');
    }
    for found in all {
        let template = cli::one_line(&found.template);
        text += &format!("\n{template} on {}\n", found.device);
        for sentence in &found.measured {
            text += &format!("  {sentence}\n");
        }
    }
    text
}

fn row(found: &Found) -> [String; 7] {
    let known = |text: Option<String>| text.unwrap_or_else(|| UNKNOWN.to_owned());
    let size =
        |bytes: Option<u64>| known(bytes.map(|bytes| format!("{:.2} GB", bytes as f64 * 1e-9)));
    [
        cli::one_line(&found.template).into_owned(),
        found.device.clone(),
        known(found.at_once.map(|n| n.to_string())),
        known(found.speedup.map(|gain| format!("{gain:.2}"))),
        known(found.cap_percent.map(|cap| format!("{cap:.0} %"))),
        size(found.device_memory),
        size(found.ram),
    ]
}
