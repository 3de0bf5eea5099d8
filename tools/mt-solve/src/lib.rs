//! Choose batch sizes and GPU shares.

mod args;
mod predict;
mod run;

use std::process::ExitCode;

/// Runs the tool with the arguments of this process.
#[must_use]
pub fn main() -> ExitCode {
    cli::summarise_by(report::summary);
    cli::run::<args::Args>("mt-solve", run::run)
}
