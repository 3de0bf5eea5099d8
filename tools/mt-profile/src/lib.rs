//! Measure the throughput of co-running training tasks.

mod args;
mod settings;

use std::process::ExitCode;

use cli::{Console, Exit, Failure};

/// Runs the tool with the arguments of this process.
#[must_use]
pub fn main() -> ExitCode {
    cli::summarise_by(report::summary);
    cli::run::<args::Args>("mt-profile", run)
}

fn run(args: args::Args, console: &Console) -> Result<Exit, Failure> {
    if let Some(run) = &args.guard {
        return cli::guard(|| jobs::guard::clean_up(run).map(drop));
    }
    if args.list_devices {
        return campaign::list_devices(args.output.as_deref(), console);
    }
    campaign::run(&settings::settings(args)?, console)
}
