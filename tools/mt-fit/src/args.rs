use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use cli::StreamArgs;
use predict::Method;

/// Fit a co-run throughput model to a profile
///
/// Reads profiles (mt-profile) and writes a model for each, which predicts the throughput of every task of
/// any co-run, with its uncertainty. Runs (mt-launch) after a profile improve its model, because steady
/// training under known shares is a measurement; a run without a profile before it gets a model of its own.
/// Measurements that are zero or clearly wrong are left out. What a sample is worth at each batch size
/// (`efficiency`) is learnt from runs at several batch sizes that reached the same loss; otherwise it is
/// the workload's table; otherwise it follows from reported gradient norms; otherwise it is the workload's
/// noise scale. What was learnt, and whether more samples would help, is reported on standard error.
#[derive(Debug, Clone, Parser)]
#[command(version, after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    pub stream: StreamArgs,
    /// Family of models
    #[arg(long, value_enum, default_value_t = MethodChoice::Auto)]
    pub method: MethodChoice,
    /// Test profile of the same tasks, not learnt from: the model's error on it is reported on standard error
    #[arg(long, value_name = "PROFILE")]
    pub test: Option<PathBuf>,
    /// Print only warnings on standard error
    #[arg(long, short)]
    pub quiet: bool,
}

const EXAMPLES: &str = "Examples:
  mt-profile workload.json | mt-fit > model.json
  mt-fit --method structured --pretty profile.ndjson
  mt-fit profile.ndjson run-*.ndjson > model.json
      learn from launches, too
  mt-fit --test other.ndjson profile.ndjson > model.json
  cat a.ndjson b.ndjson | mt-fit > models.ndjson

Exit codes: 0 done; 2 bad input or usage (also a profile in which nothing ran).";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MethodChoice {
    /// The best by cross-validation
    Auto,
    /// A physical law with a few constants
    Structured,
    /// Gaussian process on the residuals of the law
    Gp,
    /// Mean of the Gaussian process and boosted trees
    Blend,
}

impl MethodChoice {
    /// The family, or `None` for the best one.
    pub const fn family(self) -> Option<Method> {
        match self {
            MethodChoice::Auto => None,
            MethodChoice::Structured => Some(Method::Structured),
            MethodChoice::Gp => Some(Method::Gp),
            MethodChoice::Blend => Some(Method::Blend),
        }
    }
}
