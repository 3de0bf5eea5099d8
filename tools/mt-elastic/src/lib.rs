//! Move GPUs between running trainings by their phase of learning.

mod args;
mod diverged;
mod run;

use std::process::ExitCode;

/// Runs the tool with the arguments of this process.
#[must_use]
pub fn main() -> ExitCode {
    cli::summarise_by(report::summary);
    cli::run::<args::Args>("mt-elastic", run::run)
}
