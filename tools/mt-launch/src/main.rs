//! Launch a plan or timeline and supervise it.

mod args;
mod run;
mod verbs;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run::<args::Args>("mt-launch", run::run)
}
