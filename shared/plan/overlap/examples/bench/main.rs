//! Measures the ordering.
//!
//! `--json` prints the rows as one list, and `--rounds` the rounds with fixed rates as JSON for solvers in other
//! languages; otherwise it prints a table. If measurements are named, only these are made.

#[path = "../../tests/suite/common/laws.rs"]
mod common;
mod federation;
mod paper;
mod rivals;
mod rounds;
mod rows;

use std::io::{self, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut names: Vec<String> = std::env::args().skip(1).collect();
    if !names.iter().any(|n| n == "--rounds") {
        names.retain(|n| !n.starts_with("--"));
        return testkit::bench::run(|| rows::measure(&names));
    }
    let text = rounds::export().and_then(|text| Ok(writeln!(io::stdout(), "{text}")?));
    match text {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            writeln!(io::stderr(), "bench: {error}").ok();
            ExitCode::FAILURE
        }
    }
}
