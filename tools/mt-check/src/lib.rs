//! Check any document with code independent of the tools that wrote it.

mod args;
mod explain;
mod run;

use std::process::ExitCode;

/// Runs the tool with the arguments of this process.
#[must_use]
pub fn main() -> ExitCode {
    cli::run("mt-check", run::run)
}
