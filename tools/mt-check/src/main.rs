//! Judge any document independently of the tools that wrote it.

mod args;
mod explain;
mod judge;
mod model;
mod plan;
mod profile;
mod rates;
mod run;
mod run_log;
mod timeline;
mod verdict;
mod workload;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run("mt-check", run::run)
}
