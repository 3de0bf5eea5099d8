//! Launch a plan or timeline and supervise it.

mod args;
mod run;
mod supervision;
mod text;
mod verbs;

use std::process::ExitCode;

/// Runs the tool with the arguments of this process.
#[must_use]
pub fn main() -> ExitCode {
    cli::summarise_by(report::summary);
    cli::run::<args::Args>("mt-launch", run::run)
}
