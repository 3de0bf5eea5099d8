//! Share one device among training jobs: first steps, a queue, and all mt tools.

mod args;
mod run;
mod start;
mod top;
mod trying;
mod verbs;

use std::process::ExitCode;

/// Runs `mt` with the arguments of this process.
#[must_use]
pub fn main() -> ExitCode {
    cli::run::<args::Args>("mt", run::run)
}
