//! Measures the predictor on simulated profiles.
//!
//! `--json`: in the form of [`testkit::bench`]. `--data FOLDER` keeps the simulated profiles there as CSV, for the
//! peers in `benches/peers`. `--trial` uses other mixes and seeds, for trying ideas. `accuracy`, `speed`, `unseen`,
//! `adaptive`: only these.

mod accuracy;
mod adaptive;
mod mixes;
mod speed;
mod unseen;

use std::path::PathBuf;
use std::process::ExitCode;

use mixes::Failure;
use testkit::bench::Row;

fn main() -> ExitCode {
    testkit::bench::run(measure)
}

fn measure() -> Result<Vec<Row>, Failure> {
    let mut names: Vec<String> = std::env::args().skip(1).collect();
    let trial = names.iter().any(|n| n == "--trial");
    names.retain(|n| n != "--json" && n != "--trial");
    let mut folder = None;
    if let Some(at) = names.iter().position(|n| n == "--data") {
        let path = names.get(at + 1).ok_or("--data needs a folder")?;
        folder = Some(PathBuf::from(path));
        names.drain(at..at + 2);
    }
    let wants = |part: &str| names.is_empty() || names.iter().any(|n| n == part);
    let mut all = Vec::new();
    if wants("accuracy") || wants("speed") || wants("unseen") {
        let mixes = mixes::all(folder.as_deref(), trial)?;
        if wants("accuracy") {
            all.extend(accuracy::rows(&mixes)?);
        }
        if wants("speed") {
            all.extend(speed::rows(&mixes)?);
        }
        if wants("unseen") {
            all.extend(unseen::rows(&mixes)?);
        }
    }
    if wants("adaptive") {
        all.extend(adaptive::rows(trial)?);
    }
    Ok(all)
}
