//! The tools by their names.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Subcommand, ValueHint};
use cli::Failure;

/// The tools, in the order of the pipe: `mt TOOL` is `mt-TOOL`.
#[derive(Debug, Subcommand)]
pub enum Tool {
    /// Measure tasks alone and in co-runs (mt-profile)
    #[command(alias = "mt-profile")]
    Profile(Words),
    /// Learn the throughput of any co-run (mt-fit)
    #[command(alias = "mt-fit")]
    Fit(Words),
    /// Choose batch sizes and shares (mt-solve)
    #[command(alias = "mt-solve")]
    Solve(Words),
    /// Order transfers around compute (mt-overlap)
    #[command(alias = "mt-overlap")]
    Overlap(Words),
    /// Start the jobs and look after them (mt-launch)
    #[command(alias = "mt-launch")]
    Launch(Words),
    /// Show any document (mt-report)
    #[command(alias = "mt-report")]
    Report(Words),
    /// Judge any document (mt-check)
    #[command(alias = "mt-check")]
    Check(Words),
    /// Move GPUs between running trainings (mt-elastic)
    #[command(alias = "mt-elastic")]
    Elastic(Words),
    /// Schedule many jobs on many GPUs (mt-cluster)
    #[command(alias = "mt-cluster")]
    Cluster(Words),
    /// A training job for trying things out (mt-worker)
    #[command(alias = "mt-worker")]
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
    /// Its name without `mt-`, and what it is given.
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

/// A tool beside this program, else on `PATH`.
#[must_use]
pub fn program(name: &str) -> PathBuf {
    let file = format!("mt-{name}");
    let own = std::env::current_exe().ok();
    let beside = own.and_then(|own| Some(own.parent()?.join(&file)));
    beside
        .filter(|path| path.is_file())
        .unwrap_or_else(|| file.into())
}

/// A tool that cannot be started.
#[must_use]
pub fn missing(name: &str, error: &std::io::Error) -> Failure {
    Failure::Environment(format!(
        "cannot run mt-{name}: {error}; install it beside mt, or in a folder of PATH"
    ))
}
