//! Writes the files of a trace.

use std::path::{Path, PathBuf};

use cli::{Failure, Output};
use design::Configuration;
use doc::Workload;
use gpusim::Trace;

/// Writes the trace to `path`, and the SM occupancy over time to a CSV file beside it with the extension `.csv`.
pub fn write(
    path: &Path,
    trace: &Trace,
    workload: &Workload,
    configuration: &Configuration,
) -> Result<(), Failure> {
    let table = table_path(path)?;
    let (events, occupancy) = design::trace::texts(trace, workload, configuration);
    save(path, &events)?;
    save(&table, &occupancy)
}

fn table_path(path: &Path) -> Result<PathBuf, Failure> {
    let table = path.with_extension("csv");
    if table == path {
        return Err(Failure::Usage(format!(
            "--trace {}: the ending .csv is that of the occupancy table; name a .json file",
            path.display()
        )));
    }
    Ok(table)
}

fn save(path: &Path, text: &str) -> Result<(), Failure> {
    let mut out = Output::open(Some(path), false)?;
    out.text(text)?;
    out.finish()
}
