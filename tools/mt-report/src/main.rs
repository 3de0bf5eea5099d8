//! Tables and pictures of any document.

mod args;
mod run;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run("mt-report", run::run)
}
