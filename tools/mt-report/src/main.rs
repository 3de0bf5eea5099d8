//! Tables and pictures of any document.

mod args;
mod content;
mod number;
mod picture;
mod render;
mod report;
mod run;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run("mt-report", run::run)
}
