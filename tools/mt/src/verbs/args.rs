//! Arguments of the verbs that speak to a queue.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueHint;
use clap::builder::TypedValueParser as _;
use units::{Bytes, Share};

use queue::book::{Id, On};

/// Which queue.
#[derive(Debug, Clone, clap::Args)]
pub struct QueueDir {
    /// Folder of the queue; default: one for this user and machine, in ~/.local/state/mt-tools
    // An empty variable counts as unset, here and in compose files and scripts that pass one on.
    #[arg(long = "queue", env = "MT_QUEUE", value_name = "DIR", value_hint = ValueHint::DirPath,
          value_parser = clap::builder::OsStringValueParser::new().map(PathBuf::from))]
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
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub memory: Option<Bytes>,
    /// Jobs of higher priority start first; ten minutes of waiting add 1
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        allow_hyphen_values = true
    )]
    pub priority: i32,
    /// Largest share of the device for each job: 50 or 50%; default: no limit
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub share: Option<Share>,
    /// Whole GPUs that each job gets, which no other job shares; default: one, shared
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64),
          conflicts_with_all = ["share", "at_most_slower"])]
    pub gpus: Option<u32>,
    /// Jobs beside it may slow a job down by so much, 15 or 15%; refused if it cannot be kept
    #[arg(long, value_name = "PERCENT", value_parser = slower)]
    pub at_most_slower: Option<u32>,
    /// Group of the jobs: mt queue --group NAME --most N limits how many of it run at once
    #[arg(long, value_name = "NAME", value_parser = named)]
    pub group: Option<String>,
}

fn percent(text: &str) -> Result<Share, String> {
    let (number, unit) = match text.trim().strip_suffix('%') {
        Some(number) => (number.trim_end(), true),
        None => (text.trim(), false),
    };
    let value: f64 = number
        .parse()
        .map_err(|_| "give a number of percent, 50 or 50%".to_owned())?;
    // Elsewhere (Ray, Flower) 0.5 is half of a device and 1 is all of it.
    if !unit && value > 0.0 && value <= 1.0 {
        return Err(format!(
            "is it a part or percent? Write {}% for this part of the device, {number}% for so many percent",
            value * 100.0
        ));
    }
    Share::from_percent(value).map_err(|error| error.to_string())
}

/// By how much a job may be slowed down, in whole percent of its time alone.
fn slower(text: &str) -> Result<u32, String> {
    let advice = || "give a whole number of percent from 1 to 1000, 15 or 15%".to_owned();
    let number = text.trim().trim_end_matches('%').trim_end();
    let value = number.parse().map_err(|_| advice())?;
    match (1..=1000).contains(&value) {
        true => Ok(value),
        false => Err(advice()),
    }
}

/// Sizes below this without a unit are meant in megabytes or gigabytes: no job needs less than a megabyte.
const LEAST_SIZE: u64 = 1_000_000;

fn size(text: &str) -> Result<Bytes, String> {
    let bytes = Bytes::parse(text).map_err(|error| error.to_string())?;
    let unit = text.trim().ends_with(|c: char| c.is_ascii_alphabetic());
    if !unit && bytes.get() < LEAST_SIZE {
        return Err(format!(
            "of which unit? Write {0}G or {0}M ({0}B: {0} bytes)",
            text.trim()
        ));
    }
    Ok(bytes)
}

/// Longest time of an option: thirty years, which every clock can add.
const LONGEST: f64 = 1e9;

/// A time: 90, 90s, 10m, 2h or 1d, as timeout(1) reads it.
fn time(text: &str) -> Result<Duration, String> {
    let units = [("s", 1.0), ("m", 60.0), ("h", 3600.0), ("d", 86400.0)];
    let unit = units.iter().find(|(unit, _)| text.ends_with(unit));
    let (number, seconds) = match unit {
        Some((unit, seconds)) => (text.trim_end_matches(unit), *seconds),
        None => (text, 1.0),
    };
    let value = number.trim().parse::<f64>().map(|value| value * seconds);
    match value {
        Ok(value) if (0.0..=LONGEST).contains(&value) => Ok(Duration::from_secs_f64(value)),
        _ => Err("give seconds, or 90s, 10m, 2h, 1d".to_owned()),
    }
}

fn limit(text: &str) -> Result<Duration, String> {
    let limit = time(text)?;
    match limit.as_millis() {
        0 => Err("a job needs some time; leave the option out for no limit".to_owned()),
        _ => Ok(limit),
    }
}

/// Name of a group.
fn named(text: &str) -> Result<String, String> {
    let legal = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    match !text.is_empty() && text.chars().all(legal) {
        true => Ok(text.to_owned()),
        false => Err("give a name of letters, digits, -, _ and .".to_owned()),
    }
}

/// A variable with its value.
fn variable(text: &str) -> Result<(String, String), String> {
    let advice = || "give NAME=VALUE".to_owned();
    let (name, value) = text.split_once('=').ok_or_else(advice)?;
    match name.is_empty() {
        true => Err(advice()),
        false => Ok((name.to_owned(), value.to_owned())),
    }
}

/// Jobs by their numbers.
#[derive(Debug, Clone, clap::Args)]
pub struct Ids {
    /// Numbers of jobs: 3, or 5-9
    #[arg(value_name = "ID", value_parser = range)]
    ids: Vec<Range>,
}

/// First and last number, and whether it was written as a single one.
#[derive(Debug, Clone, Copy)]
struct Range(u64, u64, bool);

/// Maximum length of a range of numbers.
const MOST: u64 = 1_000_000;

fn range(text: &str) -> Result<Range, String> {
    let ends = text.split_once('-');
    let (first, last) = ends.unwrap_or((text, text));
    let number = |text: &str| text.parse::<u64>().ok();
    match (number(first), number(last)) {
        (Some(first), Some(last)) if first <= last && last - first < MOST => {
            Ok(Range(first, last, ends.is_none()))
        }
        _ => Err("give the number of a job, 3, or of several, 5-9".to_owned()),
    }
}

fn all(ranges: &[Range]) -> Vec<Id> {
    let ids: BTreeSet<u64> = ranges.iter().flat_map(|r| r.0..=r.1).collect();
    ids.into_iter().map(Id).collect()
}

impl Ids {
    /// All of them, each once.
    #[must_use]
    pub fn ids(&self) -> Vec<Id> {
        all(&self.ids)
    }

    /// Numbers that were given individually, and numbers from ranges.
    #[must_use]
    pub(crate) fn single_and_ranges(&self) -> (Vec<Id>, Vec<Id>) {
        let (single, ranges): (Vec<Range>, Vec<Range>) = self.ids.iter().partition(|range| range.2);
        (all(&single), all(&ranges))
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
    /// End each start of a job after this time: 90, 90s, 10m, 2h, 1d
    #[arg(long, value_name = "TIME", value_parser = limit)]
    pub timeout: Option<Duration>,
    /// Time from SIGTERM to SIGKILL for a job that is to end; default: that of the queue, 10 s
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub grace: Option<Duration>,
    /// Start when these jobs are done, 3 or 5-9; never if one of them is not
    #[arg(long, value_name = "ID", value_parser = range)]
    after: Vec<Range>,
    /// Folder to run in; default: this one
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub cwd: Option<PathBuf>,
    /// Set a variable for the jobs (may be repeated); others are those of this terminal, except MT_*
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    pub env: Vec<(String, String)>,
    /// Start the other jobs of a template though 3 have failed and none is done
    #[arg(long)]
    pub keep_going: bool,
    /// Run this line of sh once all have ended; $MT_DONE and $MT_FAILED count them, $MT_JOBS names them
    #[arg(long, value_name = "CMD")]
    pub on_end: Option<String>,
    /// Print the commands, and add nothing
    #[arg(long)]
    pub dry_run: bool,
}

impl StartArgs {
    /// Jobs that must be done before.
    #[must_use]
    pub fn after(&self) -> Vec<Id> {
        all(&self.after)
    }
}

/// A command without `--` before it.
#[derive(Debug, clap::Args)]
pub struct Stray {
    /// Its words.
    #[arg(hide = true, num_args = 0.., allow_hyphen_values = true)]
    pub words: Vec<String>,
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
    /// Write the output of each job as GNU parallel does, to DIR/NAME/VALUE/.../stdout
    #[arg(long, value_name = "DIR", conflicts_with = "no_wait", value_hint = ValueHint::DirPath)]
    pub results: Option<PathBuf>,
    /// A command in the wrong place.
    #[command(flatten)]
    pub stray: Stray,
    /// Command with {placeholders}, then ::: and for each NAME=VALUE,VALUE or NAME=FIRST..LAST or
    /// NAME=FIRST..LAST:STEP; default: commands from standard input
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
    /// A command in the wrong place.
    #[command(flatten)]
    pub stray: Stray,
    /// Command, or several with ::: as in mt sweep
    #[arg(value_name = "CMD", last = true, value_hint = ValueHint::CommandWithArguments)]
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
    /// Say why jobs wait, and what was tried with each template and what it gave
    #[arg(long, conflicts_with = "all")]
    pub why: bool,
}

/// Arguments of `logs`.
#[derive(Debug, clap::Args)]
pub struct LogsArgs {
    /// Which queue.
    #[command(flatten)]
    pub queue: QueueArg,
    /// Which jobs.
    #[command(flatten)]
    pub ids: Ids,
    /// Print what comes, until the jobs have ended
    #[arg(short, long, conflicts_with = "json")]
    pub follow: bool,
}

/// Arguments of `results`.
#[derive(Debug, clap::Args)]
pub struct ResultsArgs {
    /// Which queue.
    #[command(flatten)]
    pub queue: QueueArg,
    /// Sweeps, each by the number of one of its jobs, or jobs, 5-9; default: all jobs
    #[command(flatten)]
    pub ids: Ids,
    /// Print CSV
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
}

/// Arguments of `retry`.
#[derive(Debug, clap::Args)]
pub struct RetryArgs {
    /// Which queue.
    #[command(flatten)]
    pub queue: QueueArg,
    /// Which jobs; default: all that failed, were killed, took too long or were skipped.
    #[command(flatten)]
    pub ids: Ids,
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
    /// Time from SIGTERM to SIGKILL, for running jobs
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub grace: Option<Duration>,
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
    /// The limit of --most is for the jobs of this group
    #[arg(long, value_name = "NAME", requires = "most", value_parser = named)]
    pub group: Option<String>,
    /// Time from SIGTERM to SIGKILL for jobs that have no --grace of their own; default: 10 s
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub grace: Option<Duration>,
    /// Memory to divide among jobs: 16G; default: what the device has
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub memory: Option<Bytes>,
    /// Where jobs run, from the next server on
    #[arg(long, value_enum, value_name = "KIND")]
    pub device: Option<DeviceArg>,
    /// Stop the server; running jobs are ended, and started again by the next server
    #[arg(long, conflicts_with_all = ["most", "memory", "device", "grace"])]
    pub stop: bool,
}

/// Where jobs run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum DeviceArg {
    /// A GPU of this machine that MPS can share if there is one, else the processors
    Auto,
    /// The processors
    Cpu,
}

impl From<DeviceArg> for On {
    fn from(device: DeviceArg) -> Self {
        match device {
            DeviceArg::Auto => Self::Auto,
            DeviceArg::Cpu => Self::Cpu,
        }
    }
}
