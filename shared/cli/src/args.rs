use std::path::PathBuf;

use doc::ObjectiveKind;

/// Arguments of every tool that reads documents and writes one for each.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct StreamArgs {
    /// Files to read; `-` or none: standard input
    #[arg(value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub files: Vec<PathBuf>,
    /// Write to FILE, which appears only when it is complete
    #[arg(short, long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Spread documents over lines even if the output is not a terminal
    #[arg(long)]
    pub pretty: bool,
}

/// The seed of every tool that draws random numbers.
#[derive(Debug, Clone, clap::Args)]
pub struct SeedArgs {
    /// Seed of every random choice; the same seed gives the same bytes
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

/// What a plan maximises, of every tool that is asked for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum ObjectiveArg {
    /// Total throughput
    Raw,
    /// Total of throughput relative to alone
    Fairness,
    /// Total throughput by the weights of the workload
    Weighted,
    /// The least throughput relative to alone
    MaxMin,
    /// The time until every task has trained on its samples
    Round,
}

impl From<ObjectiveArg> for ObjectiveKind {
    fn from(arg: ObjectiveArg) -> Self {
        match arg {
            ObjectiveArg::Raw => ObjectiveKind::Raw,
            ObjectiveArg::Fairness => ObjectiveKind::Fairness,
            ObjectiveArg::Weighted => ObjectiveKind::Weighted,
            ObjectiveArg::MaxMin => ObjectiveKind::MaxMin,
            ObjectiveArg::Round => ObjectiveKind::Round,
        }
    }
}
