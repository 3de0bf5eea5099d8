use std::path::PathBuf;

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
