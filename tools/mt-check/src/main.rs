//! Judge any document independently of the tools that wrote it.

mod args;
mod explain;
mod run;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run("mt-check", run::run)
}
