use std::path::PathBuf;

use clap::Parser;

/// Check any document with code independent of the tools that wrote it
///
/// Validates every document, then recomputes its claims: a profile of the simulator by simulating again;
/// the predictions, objective, constraints, baselines and fronts of a plan from its model; the phases,
/// makespan and bounds of a timeline; the order and the summary of a run. It does not use the searches of
/// mt-solve and mt-overlap.
#[derive(Debug, Parser)]
#[command(version, after_help = EXAMPLES)]
pub struct Args {
    /// Files to read; `-` or none: standard input
    #[arg(value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub files: Vec<PathBuf>,
    /// Write to FILE, which appears only when it is complete
    #[arg(short, long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Write one JSON object for each document
    #[arg(long)]
    pub json: bool,
    /// Also report what could not be checked, and why
    #[arg(short, long)]
    pub verbose: bool,
    /// Print the page of an error code, for example E201, or `all`
    #[arg(long, value_name = "CODE", conflicts_with_all = ["files", "json", "verbose"])]
    pub explain: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  mt-check timeline.json
  mt-profile workload.json | mt-fit | mt-solve | mt-check
  mt-check profile.ndjson model.json              fits the model again
  mt-check --json *.json *.ndjson
  mt-check --explain E201

Lines on standard output:
  OK KIND ID                                 everything recomputed agrees
  LIE KIND ID PATH: claimed X, recomputed Y  a number is wrong
  DOUBT KIND ID PATH: ...                    a measurement is odd
  UNJUDGED KIND ID PATH: why                 with --verbose

Exit codes: 0 no lie; 1 a document lies; 2 bad input or usage.";
