//! Fit a co-run throughput model to a profile.

mod args;
mod judge;
mod run;

use std::process::ExitCode;

/// Runs the tool with the arguments of this process.
#[must_use]
pub fn main() -> ExitCode {
    cli::summarise_by(report::summary);
    cli::run::<args::Args>("mt-fit", run::run)
}
