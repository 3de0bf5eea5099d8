//! Order transfers and compute of a round.

mod args;
mod run;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run::<args::Args>("mt-overlap", run::run)
}
