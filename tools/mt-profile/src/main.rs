//! Measure the throughput of co-running training tasks.

mod args;
mod configs;
mod design;
mod import;
mod resume;
mod run;
mod session;
mod settings;
mod signals;
mod source;
mod table;
mod trace;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run::<args::Args>("mt-profile", run::run)
}
