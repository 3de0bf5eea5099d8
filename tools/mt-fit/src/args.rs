use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use cli::StreamArgs;
use predict::Method;

/// Fit a co-run throughput model to a profile
///
/// Reads profiles (mt-profile) and writes for each a model, which predicts the throughput of
/// every task of any co-run, with its uncertainty. Runs (mt-launch) that follow a profile are learnt
/// from with it: where tasks trained steadily under their shares, production measures them. A run
/// without a profile before it stands for itself. Measurements that are zero or evidently wrong
/// are left out. What a sample is worth at each batch size (`efficiency`) is learnt from runs at
/// several batch sizes that reached the same loss, else from norms of gradients that trainings
/// reported, else as the workload declares it. What was learnt, and whether more samples would help, is said on standard error.
#[derive(Debug, Clone, Parser)]
#[command(version, after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    pub stream: StreamArgs,
    /// Family of models
    #[arg(long, value_enum, default_value_t = MethodChoice::Auto)]
    pub method: MethodChoice,
    /// Profile of the same tasks that is not learnt from: how well the model predicts it is said
    /// on standard error
    #[arg(long, value_name = "PROFILE")]
    pub test: Option<PathBuf>,
    /// Say nothing on standard error but warnings
    #[arg(long, short)]
    pub quiet: bool,
}

const EXAMPLES: &str = "Examples:
  mt-profile workload.json | mt-fit > model.json
  mt-fit --method structured --pretty profile.ndjson
  mt-fit profile.ndjson run-*.ndjson > model.json
      learn from what was launched, too
  mt-fit --test other.ndjson profile.ndjson > model.json
  cat a.ndjson b.ndjson | mt-fit > models.ndjson

Exit codes: 0 done; 2 bad input or usage (also a profile in which nothing ran).";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MethodChoice {
    /// Whatever cross-validation finds best
    Auto,
    /// A law with a few constants of meaning
    Structured,
    /// Polynomial ridge regression
    Poly,
    /// Gaussian process on what the law leaves
    Gp,
    /// Mean of the Gaussian process and boosted trees
    Blend,
}

impl MethodChoice {
    /// The family, or `None` for whatever is best.
    pub const fn family(self) -> Option<Method> {
        match self {
            MethodChoice::Auto => None,
            MethodChoice::Structured => Some(Method::Structured),
            MethodChoice::Poly => Some(Method::Poly),
            MethodChoice::Gp => Some(Method::Gp),
            MethodChoice::Blend => Some(Method::Blend),
        }
    }
}
