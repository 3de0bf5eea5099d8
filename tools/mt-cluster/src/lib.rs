//! Schedule many training jobs on GPUs of several kinds.

mod args;
mod drive;
mod plan;
mod play;
mod tables;

use std::process::ExitCode;

use args::{Args, Command};
use cli::{Console, Exit, Failure};

/// Runs the tool with the arguments of this process.
#[must_use]
pub fn main() -> ExitCode {
    cli::summarise_by(report::summary);
    cli::run::<Args>("mt-cluster", run)
}

fn run(args: Args, console: &Console) -> Result<Exit, Failure> {
    if let Some(run) = &args.guard {
        return cli::guard(|| jobs::guard::clean_up(run).map(drop));
    }
    match args.command {
        Some(Command::Plan(args)) => plan::run(&args, console),
        Some(Command::Online(args)) => play::run(&args, console),
        Some(Command::Run(args)) => drive::run(&args, console),
        Some(Command::Generate(args)) => tables::generate(&args, console),
        Some(Command::Import(args)) => tables::import(&args, console),
        Some(Command::Order(args)) => tables::order(&args, console),
        None => Err(Failure::Usage(
            "give a subcommand; `mt-cluster --help` lists them".to_owned(),
        )),
    }
}
