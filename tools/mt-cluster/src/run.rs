use cli::{Console, Exit, Failure};

use crate::args::{Args, Command};
use crate::{plan, play, tables};

/// Runs a subcommand.
pub fn run(args: Args, console: &Console) -> Result<Exit, Failure> {
    match args.command {
        Command::Plan(args) => plan::run(&args, console),
        Command::Online(args) => play::run(&args, console),
        Command::Generate(args) => tables::generate(&args, console),
        Command::Import(args) => tables::import(&args, console),
    }
}
