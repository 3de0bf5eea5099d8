use std::path::PathBuf;

use clap::{CommandFactory as _, Parser, ValueHint};
use cli::{DeviceArg, Failure};
use launch::Others;

use crate::supervision::SupervisionArgs;
use crate::verbs::Verb;

/// Launch the jobs of plans or timelines under their shares and supervise them
///
/// Reads plans or timelines (with --controller or --learn: workloads) and writes events, one record per line,
/// from `launch` to `summary`.
#[derive(Debug, Parser)]
#[command(version, after_help = include_str!("help.txt"), args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    pub verb: Option<Verb>,
    #[command(flatten)]
    pub stream: cli::EventArgs,
    /// Where to run, instead of what the workload says
    #[arg(long, value_enum, value_name = "KIND")]
    pub device: Option<DeviceArg>,
    /// Start nothing; print what would be started, as shell lines
    #[arg(long)]
    pub dry_run: bool,
    /// Let PROGRAM move trainings between GPUs while they run; the rest of the line is passed to it
    #[arg(long, value_name = "PROGRAM", num_args = 1.., allow_hyphen_values = true,
          conflicts_with_all = ["dry_run", "rounds", "adapt", "keep_shares", "no_overlap",
                                "task_timeout", "cpus", "no_progress", "damping",
                                "seed"])]
    pub controller: Vec<String>,
    /// When trainings arrive and GPUs are lost or found (mt.training/1), with --controller; `-`: read from standard
    /// input while it runs
    #[arg(long, value_name = "FILE", requires = "controller", value_hint = ValueHint::FilePath)]
    pub arrivals: Option<PathBuf>,
    /// Let the controller allocate N parts of one GPU, or of the processors, instead of GPUs
    #[arg(long, value_name = "N", requires = "controller",
          value_parser = clap::value_parser!(u32).range(1..=100))]
    pub parts: Option<u32>,
    /// What to do about processes on the GPUs that the controller does not control
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
    /// Learn the shares from the rounds themselves: each is work, and a trial only where the remaining rounds
    /// repay it; a workload starts at 90 % each for two tasks, 70 % for more
    #[arg(long, conflicts_with_all = ["controller", "adapt", "only", "dry_run"])]
    pub learn: bool,
    /// Events of earlier launches to learn from, too, with --learn
    #[arg(long, value_name = "RUN", requires = "learn", conflicts_with = "controller", value_hint = ValueHint::FilePath)]
    pub known: Vec<PathBuf>,
    /// Number of the first round, from 0, if a server counts them
    #[arg(long, value_name = "N", default_value_t = 0, conflicts_with_all = ["controller"])]
    pub round: u32,
    /// Launch only these tasks of the plan, with their batch sizes and shares
    #[arg(long, value_name = "TASK,...", value_delimiter = ',',
          conflicts_with_all = ["controller"])]
    pub only: Vec<String>,
    #[command(flatten)]
    pub supervision: SupervisionArgs,
    /// Look after a run directory: clean it up once its owner is dead (started by mt-launch)
    #[arg(long, value_name = "DIR", hide = true)]
    pub guard: Option<PathBuf>,
    #[command(flatten)]
    pub seed: cli::SeedArgs,
}

impl Args {
    /// Refuses options of this tool after `--controller`, where they would be passed to the controller with the rest
    /// of the line.
    ///
    /// # Errors
    /// [`Failure::Usage`] that names the first one, with both ways to write what is meant.
    pub fn check_controller(&self) -> Result<(), Failure> {
        let command = Self::command();
        let own = |word: &&String| {
            let name = word
                .strip_prefix("--")
                .map(|w| w.split('=').next().unwrap_or(w));
            let known = |name: &str| command.get_arguments().any(|a| a.get_long() == Some(name));
            word.as_str() == "-o" || name.is_some_and(known)
        };
        let Some(option) = self.controller.iter().skip(1).find(own) else {
            return Ok(());
        };
        let program = &self.controller[0];
        Err(Failure::Usage(format!(
            "{option} comes after --controller, and the rest of that line goes to {program}: put it before --controller if it is meant for mt-launch, else write --controller sh -c '{program} {option} ...'"
        )))
    }
}
