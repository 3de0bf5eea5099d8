//! A built-in training job that speaks the worker protocol.

mod args;
mod elastic_args;

use std::process::ExitCode;

use cli::{Console, Exit, Failure};

/// Runs the tool with the arguments of this process.
#[must_use]
pub fn main() -> ExitCode {
    cli::run::<args::Args>("mt-worker", run)
}

fn run(args: args::Args, console: &Console) -> Result<Exit, Failure> {
    training::run(&args.config()?, console)
}
