use crate::RenderError;
use crate::page::{Cell, Report, Table};

/// Writes the tables of a report with exact numbers, separated by empty lines. Tables with numbers of a
/// device have a column `simulated`.
pub fn csv(report: &Report) -> Result<String, RenderError> {
    let tables: Result<Vec<String>, RenderError> = report
        .tables
        .iter()
        .map(|t| one(t, report.simulated))
        .collect();
    Ok(tables?.join("\n"))
}

fn one(table: &Table, simulated: bool) -> Result<String, RenderError> {
    let columns: Vec<usize> = (0..table.columns.len())
        .filter(|&c| !table.columns[c].drawn)
        .collect();
    let labelled = table.columns.iter().any(|c| c.of_device);
    let mut writer = csv::Writer::from_writer(Vec::new());
    let mut write = |cells: Vec<String>| writer.write_record(cells);
    let label = |text: &str| labelled.then(|| text.to_owned());
    let names = columns.iter().map(|&c| table.columns[c].key.to_owned());
    write(names.chain(label("simulated")).collect())?;
    for row in &table.rows {
        let cells = columns.iter().map(|&c| exact(&row[c]));
        write(
            cells
                .chain(label(if simulated { "true" } else { "false" }))
                .collect(),
        )?;
    }
    let bytes = writer
        .into_inner()
        .map_err(|error| csv::Error::from(error.into_error()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn exact(cell: &Cell) -> String {
    match cell {
        Cell::Empty => String::new(),
        Cell::Text(text) => text.clone(),
        Cell::Number(value) => value.to_string(),
        Cell::Count(value) => value.to_string(),
        Cell::Flag(value) => value.to_string(),
    }
}
