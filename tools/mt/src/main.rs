//! First steps with the mt tools, and each of them by its name.

mod args;
mod run;
mod trying;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run::<args::Args>("mt", run::run)
}
