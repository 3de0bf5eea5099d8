use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueHint};
use cli::{DeviceArg, Failure, Replaced};
use launch::{Others, Settings};

use crate::verbs::Verb;

/// Launch the jobs of plans or timelines under their shares and supervise them
///
/// Reads plans or timelines (with --controller: workloads) and writes events: one record a line, from
/// `launch` to `summary`.
#[derive(Debug, Parser)]
#[command(version, after_help = include_str!("help.txt"), args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    pub verb: Option<Verb>,
    #[command(flatten)]
    pub stream: cli::EventArgs,
    /// Where to run, in place of what the workload says
    #[arg(long, value_enum, value_name = "KIND")]
    pub device: Option<DeviceArg>,
    /// Print what would be started, as shell lines, and start nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Let PROGRAM move trainings between GPUs while they run; the rest of the line is its own
    #[arg(long, value_name = "PROGRAM", num_args = 1.., allow_hyphen_values = true,
          conflicts_with_all = ["dry_run", "rounds", "adapt", "keep_shares", "no_overlap",
                                "task_timeout", "cpus", "no_progress"])]
    pub controller: Vec<String>,
    /// When trainings arrive (mt.training/1), with `--controller`; `-`: told while it runs
    #[arg(long, value_name = "FILE", requires = "controller", value_hint = ValueHint::FilePath)]
    pub arrivals: Option<PathBuf>,
    /// Let the controller give out N parts of one GPU, or of the processors, in place of GPUs
    #[arg(long, value_name = "N", requires = "controller",
          value_parser = clap::value_parser!(u32).range(1..=100))]
    pub parts: Option<u32>,
    /// What to do about processes on the GPUs that are not under the controller
    #[arg(
        long,
        value_name = "refuse|wait|allow",
        default_value = "refuse",
        requires = "controller"
    )]
    pub others: Others,
    /// Rounds to run, one after another
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub rounds: u32,
    /// Number of the first round, from 0, where a server counts them
    #[arg(long, value_name = "N", default_value_t = 0, conflicts_with_all = ["controller"])]
    pub round: u32,
    /// Launch only these tasks of the plan, with their batch sizes and shares
    #[arg(long, value_name = "TASK,...", value_delimiter = ',',
          conflicts_with_all = ["controller"])]
    pub only: Vec<String>,
    #[command(flatten)]
    pub care: Care,
    /// Look after a run directory: clean it up once its owner is dead (started by mt-launch)
    #[arg(long, value_name = "DIR", hide = true)]
    pub guard: Option<PathBuf>,
    #[command(flatten)]
    pub seed: cli::SeedArgs,
}

/// Weight of the model before where `--damping` does not say it: a round is one noisy measurement,
/// and one that is kept for half is forgotten in a few rounds.
const DAMPING: f64 = 0.5;

/// How jobs on real devices are looked after.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Supervision")]
pub struct Care {
    /// Longest time from the start of a job until it is ready; 0: any
    #[arg(long, value_name = "SECONDS", default_value_t = 120.0)]
    pub ready_timeout: f64,
    /// Longest time between two steps of a job; 0: any
    #[arg(long, value_name = "SECONDS", default_value_t = 300.0)]
    pub stall_timeout: f64,
    /// Longest time of a task in a round, restarts included; 0: any
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0)]
    pub task_timeout: f64,
    /// Jobs tell no progress: they are trusted to compute, and exit status 0 says that they are done
    #[arg(long)]
    pub no_progress: bool,
    #[command(flatten)]
    pub jobs: cli::JobArgs,
    /// Processors of jobs on a GPU: each task its own part of all, any, or its part of a list
    /// (0-7,9)
    #[arg(long, value_name = "auto|none|LIST", default_value = "auto")]
    pub cpus: jobs::Cpus,
    /// Give no share of a task that does not compute to the others
    #[arg(long)]
    pub keep_shares: bool,
    /// First all downloads, then all compute, then all uploads
    #[arg(long)]
    pub no_overlap: bool,
    /// Time between two progress events of a task; 0: every chance
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    pub progress_every: f64,
    /// Write metrics in the Prometheus text format to FILE, anew every second
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub prometheus: Option<PathBuf>,
    /// Between rounds, correct the model by what was measured and solve anew
    #[arg(long)]
    pub adapt: bool,
    /// Weight of what was known before in a correction of --adapt, 0 to below 1: at 0 the model
    /// predicts what was measured last; absent: 0.5
    #[arg(long, value_name = "LAMBDA", requires = "adapt")]
    pub damping: Option<f64>,
}

impl Care {
    /// Checks every value.
    ///
    /// # Errors
    /// [`Failure::Usage`] with a line for each that is out of range, or that the file of metrics is
    /// an input or output.
    pub fn settings(&self) -> Result<Settings, Failure> {
        let mut faults = Vec::new();
        let care = self.jobs.care(&mut faults);
        let mut seconds = |name: &str, value: f64| {
            cli::seconds(name, value).unwrap_or_else(|fault| {
                faults.push(fault);
                Duration::ZERO
            })
        };
        let ready = seconds("ready-timeout", self.ready_timeout);
        let stall = seconds("stall-timeout", self.stall_timeout);
        let total = seconds("task-timeout", self.task_timeout);
        let progress_every = seconds("progress-every", self.progress_every);
        let damping = self.damping.unwrap_or(DAMPING);
        if !(0.0..1.0).contains(&damping) {
            faults.push(format!("--damping {damping}: give 0 to below 1"));
        }
        if !faults.is_empty() {
            return Err(Failure::Usage(faults.join("\n")));
        }
        let deadline = |d: Duration| (!d.is_zero()).then_some(d);
        Ok(Settings {
            care,
            ready: deadline(ready).filter(|_| !self.no_progress),
            stall: deadline(stall).filter(|_| !self.no_progress),
            total: deadline(total),
            cpus: self.cpus.clone(),
            no_progress: self.no_progress,
            keep_shares: self.keep_shares,
            no_overlap: self.no_overlap,
            progress_every,
            metrics: self
                .prometheus
                .as_deref()
                .map(Replaced::claim)
                .transpose()?,
            adapt: self.adapt.then_some(1.0 - damping),
        })
    }
}
