//! Measures the allocation.
//!
//! `--json` prints the rows as one list, and `--problems` the problems as JSON for solvers in other languages;
//! otherwise it prints a table. If measurements are named, only these are made; `fitted=SEED,MIXES` divides the tasks of so
//! many mixes, drawn by this seed and the numbers after it.

mod divisions;
mod fitted;
mod gp;
#[path = "../../tests/properties/law.rs"]
mod law;
mod problems;
mod rounds;
mod rows;

use std::io::{self, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut names: Vec<String> = std::env::args().skip(1).collect();
    if !names.iter().any(|n| n == "--problems") {
        names.retain(|n| !n.starts_with("--"));
        return testkit::bench::run(|| rows::measure(&names));
    }
    let text = rows::problems().and_then(|text| Ok(writeln!(io::stdout(), "{text}")?));
    match text {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            writeln!(io::stderr(), "bench: {error}").ok();
            ExitCode::FAILURE
        }
    }
}
