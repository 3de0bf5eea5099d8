//! Launch a plan or timeline and supervise it.

mod args;
mod guard;
mod journal;
mod launch;
mod live;
mod run;
mod script;
mod settings;
mod simulate;
mod status;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run::<args::Args>("mt-launch", run::run)
}
