//! Schedule many training jobs on GPUs of several kinds.

mod args;
mod drive;
mod plan;
mod play;
mod run;
mod tables;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run::<args::Args>("mt-cluster", run::run)
}
