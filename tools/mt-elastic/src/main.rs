//! Move GPUs between running trainings by their phase of learning.

mod args;
mod run;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run::<args::Args>("mt-elastic", run::run)
}
