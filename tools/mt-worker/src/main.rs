//! A built-in training job that speaks the worker protocol.

mod args;
mod elastic_args;

use std::process::ExitCode;

use cli::{Console, Exit, Failure};

fn main() -> ExitCode {
    cli::run::<args::Args>("mt-worker", run)
}

fn run(args: args::Args, console: &Console) -> Result<Exit, Failure> {
    training::run(&args.config()?, console)
}
