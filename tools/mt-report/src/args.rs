use std::path::PathBuf;

use clap::{Parser, ValueEnum};

/// Show any document as tables and pictures
///
/// Makes a readable report of each workload, profile, model, plan, timeline or run. A profile or a run
/// after a plan is compared with it: predicted against measured. Numbers of the simulator are labelled
/// `simulated`.
#[derive(Debug, Parser)]
#[command(version, after_help = EXAMPLES)]
pub struct Args {
    /// Files to read; `-` or none: standard input
    #[arg(value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub files: Vec<PathBuf>,
    /// Write to FILE, which appears only when it is complete
    #[arg(short, long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Format
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
    /// Show only tables of this name, for example `tasks` or `phases`; may be repeated
    #[arg(short, long = "table", value_name = "NAME")]
    pub tables: Vec<String>,
    /// Show only pictures of this name, for example `gantt` or `throughput`; may be repeated
    #[arg(short, long = "picture", value_name = "NAME")]
    pub pictures: Vec<String>,
}

/// Forms of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Tables for a terminal
    Table,
    /// Tables with all digits; mt-profile can import those of a profile
    Csv,
    /// Markdown
    Md,
    /// Pictures in one SVG
    Svg,
    /// Tables and pictures in one HTML page that needs no other file
    Html,
    /// Phases of a timeline or run, as Chrome trace JSON for <https://ui.perfetto.dev>
    Perfetto,
}

const EXAMPLES: &str = "\
Examples:
  mt-report plan.json
  mt-profile workload.json | mt-fit | mt-solve | mt-overlap | mt-report
  mt-report plan.json verification.ndjson    predicted against measured
  mt-report --format csv --table samples profile.ndjson > samples.csv
  mt-report --format md timeline.json >> README.md
  mt-report --format html plan.json timeline.json run.ndjson -o r.html
  mt-report --format svg --picture gantt run.ndjson -o round.svg

Exit codes: 0 done; 2 bad input or usage.";
