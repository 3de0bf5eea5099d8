//! Fit a co-run throughput model to a profile.

mod args;
mod judge;
mod run;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run::<args::Args>("mt-fit", run::run)
}
