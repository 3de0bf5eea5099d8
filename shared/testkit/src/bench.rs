//! Benchmarks of a crate (its example `bench-CRATE`), and their output format.

use std::error::Error;
use std::io::{self, Write as _};
use std::process::ExitCode;

use serde::{Deserialize, Serialize};

/// One measurement with its baseline, measured in the same run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Short and unique name.
    pub name: String,
    /// What was measured.
    pub value: f64,
    /// Unit of both values.
    pub unit: String,
    /// Name of the baseline.
    pub baseline: String,
    /// Measured value of the baseline.
    pub baseline_value: f64,
    /// `value / baseline_value`; absent if the baseline is 0, as a gap to the best may be.
    pub ratio: Option<f64>,
    /// Exact description of the measured work.
    pub what: String,
}

impl Row {
    /// A row from a value with its unit, and a named baseline.
    #[must_use]
    pub fn new(
        name: impl Into<String>,
        (value, unit): (f64, &str),
        (baseline, baseline_value): (&str, f64),
        what: impl Into<String>,
    ) -> Self {
        Self {
            name: name.into(),
            value,
            unit: unit.to_owned(),
            baseline: baseline.to_owned(),
            baseline_value,
            ratio: Some(value / baseline_value).filter(|ratio| ratio.is_finite()),
            what: what.into(),
        }
    }
}

/// The whole of a benchmark's `main`: measures, and prints the rows as JSON if the arguments contain `--json`,
/// otherwise as a table.
pub fn run(measure: impl FnOnce() -> Result<Vec<Row>, Box<dyn Error>>) -> ExitCode {
    let printed = measure().and_then(|rows| {
        let text = if std::env::args().any(|a| a == "--json") {
            serde_json::to_string_pretty(&rows)?
        } else {
            table(&rows)
        };
        Ok(writeln!(io::stdout(), "{text}")?)
    });
    match printed {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            writeln!(io::stderr(), "bench: {error}").ok();
            ExitCode::FAILURE
        }
    }
}

/// The rows as a table.
#[must_use]
pub fn table(rows: &[Row]) -> String {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::UTF8_HORIZONTAL_ONLY);
    table.set_header(["name", "value", "unit", "baseline", "its value", "ratio"]);
    for row in rows {
        table.add_row([
            row.name.clone(),
            figure(row.value),
            row.unit.clone(),
            row.baseline.clone(),
            figure(row.baseline_value),
            row.ratio.map_or_else(|| "-".to_owned(), figure),
        ]);
    }
    table.to_string()
}

/// Four significant digits.
fn figure(value: f64) -> String {
    let digits = 3 - (value.abs().max(1e-6).log10().floor() as i32);
    format!("{value:.*}", digits.clamp(0, 6) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_four_digits_and_the_ratio() {
        let rows = [Row::new("a", (12.3456, "ms"), ("b", 0.5), "something")];
        let table = table(&rows);
        let row = table.lines().find(|l| l.contains("ms")).unwrap();
        let cells: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(cells, ["a", "12.35", "ms", "b", "0.5000", "24.69"]);
    }

    #[test]
    fn a_row_with_a_baseline_of_zero_is_read_again() {
        for value in [0.0, 0.5] {
            let row = Row::new("a", (value, "%"), ("b", 0.0), "something");
            let text = serde_json::to_string(&row).unwrap();
            assert_eq!(serde_json::from_str::<Row>(&text).unwrap(), row);
            assert_eq!(row.ratio, None);
        }
    }
}
