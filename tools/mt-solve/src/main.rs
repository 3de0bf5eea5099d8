//! Choose batch sizes and GPU shares.

mod args;
mod predict;
mod run;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run::<args::Args>("mt-solve", run::run)
}
