//! Tables and pictures of any document.

mod args;
mod run;

use std::process::ExitCode;

/// Runs the tool with the arguments of this process.
#[must_use]
pub fn main() -> ExitCode {
    cli::run("mt-report", run::run)
}
