//! Arguments of the verbs that speak to a queue.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::ValueHint;
use units::{Bytes, Share};

use crate::book::{Id, On};

/// Which queue.
#[derive(Debug, Clone, clap::Args)]
pub struct QueueDir {
    /// Folder of the queue; default: one for this user and machine, in ~/.local/state/mt-tools
    #[arg(long = "queue", env = "MT_QUEUE", value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub folder: Option<PathBuf>,
}

/// Which queue, and how its answer is printed.
#[derive(Debug, Clone, clap::Args)]
pub struct QueueArg {
    /// Which.
    #[command(flatten)]
    pub dir: QueueDir,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// What jobs ask for.
#[derive(Debug, Clone, clap::Args)]
pub struct JobArgs {
    /// Device memory that each job needs: 800M, 4G; default: not counted
    #[arg(long, value_name = "SIZE", value_parser = Bytes::parse)]
    pub memory: Option<Bytes>,
    /// Jobs of higher priority start first; ten minutes of waiting add 1
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        allow_hyphen_values = true
    )]
    pub priority: i32,
    /// Largest share of the device for each job, percent; default: no limit
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub share: Option<Share>,
}

fn percent(text: &str) -> Result<Share, String> {
    let value: f64 = text
        .parse()
        .map_err(|_| "give a number of percent".to_owned())?;
    Share::from_percent(value).map_err(|error| error.to_string())
}

/// Jobs by their numbers.
#[derive(Debug, Clone, clap::Args)]
pub struct Ids {
    /// Numbers of jobs: 3, or 5-9
    #[arg(value_name = "ID", value_parser = range)]
    ids: Vec<Range>,
}

#[derive(Debug, Clone, Copy)]
struct Range(u64, u64);

/// Maximum length of a range of numbers.
const MOST: u64 = 1_000_000;

fn range(text: &str) -> Result<Range, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let number = |text: &str| text.parse::<u64>().ok();
    match (number(first), number(last)) {
        (Some(first), Some(last)) if first <= last && last - first < MOST => Ok(Range(first, last)),
        _ => Err("give the number of a job, 3, or of several, 5-9".to_owned()),
    }
}

impl Ids {
    /// All of them, in their order.
    #[must_use]
    pub fn ids(&self) -> Vec<Id> {
        self.ids.iter().flat_map(|r| r.0..=r.1).map(Id).collect()
    }
}

/// Requirements of the jobs that a server starts.
#[derive(Debug, Clone, clap::Args)]
pub struct StartArgs {
    /// What they ask for.
    #[command(flatten)]
    pub job: JobArgs,
    /// Never start a job twice, neither after a kill of the server nor for lack of memory
    #[arg(long)]
    pub once: bool,
}

/// Arguments of `sweep`.
#[derive(Debug, clap::Args)]
pub struct SweepArgs {
    /// Which queue.
    #[command(flatten)]
    pub queue: QueueArg,
    /// What they ask for.
    #[command(flatten)]
    pub job: StartArgs,
    /// Commands from a file, one per line; `-`: standard input
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub jobs: Option<PathBuf>,
    /// Add the jobs without waiting for them
    #[arg(long)]
    pub no_wait: bool,
    /// Command with {placeholders}, then ::: and NAME=VALUE,VALUE or NAME=FIRST..LAST for each; default:
    /// commands from standard input
    #[arg(value_name = "CMD", last = true, value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<String>,
}

/// Arguments of `add`.
#[derive(Debug, clap::Args)]
pub struct AddArgs {
    /// Which queue.
    #[command(flatten)]
    pub queue: QueueArg,
    /// What they ask for.
    #[command(flatten)]
    pub job: StartArgs,
    /// Command, or several with ::: as in mt sweep
    #[arg(value_name = "CMD", last = true, required = true, value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<String>,
}

/// Arguments of `exec`.
#[derive(Debug, clap::Args)]
pub struct ExecArgs {
    /// Which queue.
    #[command(flatten)]
    pub queue: QueueDir,
    /// What it asks for.
    #[command(flatten)]
    pub job: JobArgs,
    /// Program and arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true,
          value_name = "ARGV", value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
}

/// Arguments of `status`.
#[derive(Debug, clap::Args)]
pub struct StatusArgs {
    /// Which queue.
    #[command(flatten)]
    pub queue: QueueArg,
    /// Which jobs.
    #[command(flatten)]
    pub ids: Ids,
    /// List every job
    #[arg(long)]
    pub all: bool,
}

/// Arguments of `logs`.
#[derive(Debug, clap::Args)]
pub struct LogsArgs {
    /// Which queue.
    #[command(flatten)]
    pub queue: QueueArg,
    /// Number of the job
    #[arg(value_name = "ID", value_parser = |text: &str| text.parse().map(Id))]
    pub id: Id,
}

/// Arguments of `cancel`.
#[derive(Debug, clap::Args)]
pub struct CancelArgs {
    /// Which queue.
    #[command(flatten)]
    pub queue: QueueArg,
    /// Which jobs.
    #[command(flatten)]
    pub ids: Ids,
    /// All waiting and running jobs
    #[arg(long, conflicts_with = "ids")]
    pub all: bool,
}

/// Arguments of `pause`.
#[derive(Debug, clap::Args)]
pub struct PauseArgs {
    /// Which queue.
    #[command(flatten)]
    pub queue: QueueArg,
    /// Which jobs.
    #[command(flatten)]
    pub ids: Ids,
    /// Start jobs again
    #[arg(long)]
    pub off: bool,
}

/// Arguments of `wait`.
#[derive(Debug, clap::Args)]
pub struct WaitArgs {
    /// Which queue.
    #[command(flatten)]
    pub queue: QueueArg,
    /// Which jobs.
    #[command(flatten)]
    pub ids: Ids,
}

/// Arguments of `queue`.
#[derive(Debug, clap::Args)]
pub struct QueueArgs {
    /// Which queue.
    #[command(flatten)]
    pub queue: QueueArg,
    /// Most jobs at once; default: as many as raise the total throughput
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub most: Option<u32>,
    /// Memory to divide among jobs: 16G; default: what the device has
    #[arg(long, value_name = "SIZE", value_parser = Bytes::parse)]
    pub memory: Option<Bytes>,
    /// Where jobs run, from the next server on
    #[arg(long, value_enum, value_name = "KIND")]
    pub device: Option<On>,
    /// Stop the server; running jobs are ended, and started again by the next server
    #[arg(long, conflicts_with_all = ["most", "memory", "device"])]
    pub stop: bool,
}
