use cli::{Console, Exit, Failure};

use crate::args::{Args, Command};
use crate::{drive, plan, play, tables};

/// Runs a subcommand.
pub fn run(args: Args, console: &Console) -> Result<Exit, Failure> {
    if let Some(run) = &args.guard {
        return cli::guard(|| jobs::guard::clean_up(run).map(drop));
    }
    match args.command {
        Some(Command::Plan(args)) => plan::run(&args, console),
        Some(Command::Online(args)) => play::run(&args, console),
        Some(Command::Run(args)) => drive::run(&args, console),
        Some(Command::Generate(args)) => tables::generate(&args, console),
        Some(Command::Import(args)) => tables::import(&args, console),
        None => Err(Failure::Usage(
            "give a subcommand; `mt-cluster --help` lists them".to_owned(),
        )),
    }
}
