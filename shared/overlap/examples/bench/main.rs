//! Measures the ordering.
//!
//! `--json` prints rows `{name,value,unit,baseline,baseline_value,ratio,what}` as one list,
//! `--rounds` the rounds with fixed rates as JSON for solvers in other languages; without either,
//! a table. Names of measurements leave the others out.

#[path = "../../tests/common/laws.rs"]
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
    let json = names.iter().any(|n| n == "--json");
    let export = names.iter().any(|n| n == "--rounds");
    names.retain(|n| !n.starts_with("--"));
    let done = if export {
        rounds::export().and_then(|text| print(&text))
    } else {
        rows::measure(&names).and_then(|rows| {
            print(&if json {
                rows::json(&rows)
            } else {
                rows::table(&rows)
            })
        })
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            writeln!(io::stderr(), "bench: {error}").ok();
            ExitCode::FAILURE
        }
    }
}

fn print(text: &str) -> Result<(), rows::Trouble> {
    Ok(writeln!(io::stdout().lock(), "{text}")?)
}
