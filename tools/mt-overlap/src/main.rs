//! Order transfers and compute of a round.

mod args;
mod replan;
mod run;
mod table;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run::<args::Args>("mt-overlap", run::run)
}
