//! The tools by their names.

use std::ffi::OsString;
use std::process::Command;

use clap::{Subcommand, ValueHint};
use cli::Failure;
use jobs::process::this_program;

/// The tools, in the order of the pipe: `mt TOOL` is `mt-TOOL`.
#[derive(Debug, Subcommand)]
pub enum Tool {
    /// Measure tasks alone and in co-runs (mt-profile)
    Profile(Words),
    /// Learn the throughput of any co-run (mt-fit)
    Fit(Words),
    /// Choose batch sizes and shares (mt-solve)
    Solve(Words),
    /// Order transfers around compute (mt-overlap)
    Overlap(Words),
    /// Start and supervise the jobs (mt-launch)
    Launch(Words),
    /// Show any document (mt-report)
    Report(Words),
    /// Check any document (mt-check)
    Check(Words),
    /// Move GPUs between running trainings (mt-elastic)
    Elastic(Words),
    /// Schedule many jobs on many GPUs (mt-cluster)
    Cluster(Words),
    /// Run a training job for experiments (mt-worker)
    Worker(Words),
}

/// What a tool is given.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub struct Words {
    /// Options and files of the tool
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT",
          value_hint = ValueHint::FilePath)]
    words: Vec<OsString>,
}

impl Tool {
    /// Its name without `mt-`, and its arguments.
    #[must_use]
    pub fn split(self) -> (&'static str, Vec<OsString>) {
        let (name, words) = match self {
            Self::Profile(words) => ("profile", words),
            Self::Fit(words) => ("fit", words),
            Self::Solve(words) => ("solve", words),
            Self::Overlap(words) => ("overlap", words),
            Self::Launch(words) => ("launch", words),
            Self::Report(words) => ("report", words),
            Self::Check(words) => ("check", words),
            Self::Elastic(words) => ("elastic", words),
            Self::Cluster(words) => ("cluster", words),
            Self::Worker(words) => ("worker", words),
        };
        (name, words.words)
    }
}

/// The program of a tool: the one of its name beside this program, which may be a user's wrapper script; otherwise
/// this program, which contains every tool.
#[must_use]
pub fn tool(name: &str) -> Command {
    let file = format!("mt-{name}");
    let own = std::env::current_exe().ok();
    let beside = own.map(|own| own.with_file_name(&file));
    match beside.filter(|path| path.is_file()) {
        Some(path) => Command::new(path),
        None => this_program(file),
    }
}

/// A tool that cannot be started.
#[must_use]
pub fn unstarted(name: &str, error: &std::io::Error) -> Failure {
    Failure::Environment(format!("cannot run mt-{name}: {error}"))
}
