//! Measures the allocation.
//!
//! `--json` prints rows `{name,value,unit,baseline,baseline_value,ratio,what}` as one list,
//! `--problems` the problems as JSON for solvers in other languages; without either, a table. Names
//! of measurements leave the others out.

mod problems;
mod rows;

use std::io::{self, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut names: Vec<String> = std::env::args().skip(1).collect();
    let json = names.iter().any(|n| n == "--json");
    let problems = names.iter().any(|n| n == "--problems");
    names.retain(|n| !n.starts_with("--"));
    let done = if problems {
        print_problems()
    } else {
        rows::measure(&names).and_then(|rows| {
            if json {
                print_lines(&[rows::json(&rows)])
            } else {
                print_lines(&rows::table(&rows))
            }
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

fn print_problems() -> Result<(), rows::Trouble> {
    let mut lines = Vec::new();
    for recipe in problems::RECIPES {
        let case = problems::case(recipe)?;
        lines.push(problems::json(&case, &rows::answer(&case)?));
    }
    print_lines(&[format!("[{}]", lines.join(",\n"))])
}

fn print_lines(lines: &[String]) -> Result<(), rows::Trouble> {
    let mut out = io::stdout().lock();
    for line in lines {
        writeln!(out, "{line}")?;
    }
    Ok(())
}
