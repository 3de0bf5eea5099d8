//! A built-in training job that speaks the worker protocol.

mod args;
mod cpu;
mod cuda;
mod elastic;
mod protocol;
mod run;
mod trainer;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run::<args::Args>("mt-worker", run::run)
}
