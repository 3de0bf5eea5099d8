use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use cli::Failure;
use learning::{AllocatorSettings, MOST_GPUS, Objective, Policy};
use units::{Seconds, shown};

/// Move GPUs between running trainings by their phase of learning
///
/// Reads events of data-parallel trainings line by line. Whenever the allocation should change, it writes
/// how many GPUs each training gets, with the batch size of every process. A recorded file gives the same
/// decisions as a live stream, at the times of its events.
///
/// A training that is nearly done finishes soon with more GPUs; one that has just begun gains little from
/// them. The remaining steps are those that a training declares (total_steps, total_samples), or those
/// that its loss curve suggests, if the fit is good. If neither is known, trainings are ranked by the
/// decrease of their loss over the last 100 steps. The speed on each number of GPUs is measured. A
/// reallocation must gain more than its pause costs, as measured at earlier ones, and more than the error of
/// the speeds expected at earlier decisions, unless it gives out GPUs that are idle after an arrival or an end.
///
/// A training that makes no progress (its loss rises, stays above its target, or is NaN) comes last: it
/// keeps its fewest GPUs for --patience steps, then it waits. This is reported on standard error and in the
/// reason of a decision. The rules of --policy paper and others ignore it.
#[derive(Debug, Clone, Parser)]
#[command(version, after_help = HELP)]
pub struct Args {
    /// File of events; `-` or none: standard input
    #[arg(value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub file: Option<PathBuf>,
    /// Write decisions to FILE as they are made
    #[arg(short, long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Replace the output even if it holds a run or a profile
    #[arg(long, requires = "output")]
    pub force: bool,
    /// GPUs of the machine
    #[arg(long, value_name = "M")]
    gpus: u32,
    /// Allocation rule
    #[arg(long, value_enum, default_value_t = PolicyChoice::Ours)]
    policy: PolicyChoice,
    /// Objective to minimise
    #[arg(long, value_enum, default_value_t = ObjectiveChoice::Completion)]
    objective: ObjectiveChoice,
    /// Pause of a training when its processes change, in seconds, until one has been measured
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0)]
    pause: f64,
    /// Steps for which a training that makes no progress keeps its fewest GPUs; then it waits until the
    /// others have no use for them
    #[arg(long, value_name = "STEPS", default_value_t = 1000)]
    patience: u64,
    /// Stop at the first invalid line, instead of reporting and skipping it
    #[arg(long)]
    pub strict: bool,
}

const HELP: &str = "Events, one per line (schema mt.training/1; progress events of mt-launch work too):
  {\"event\":\"arrive\",\"time_s\":0,\"task\":\"a\",\"min_gpus\":1,\"max_gpus\":4,
   \"target_loss\":0.3,\"total_steps\":20000,\"weight\":1,\"batch\":512}
  {\"event\":\"progress\",\"time_s\":12.5,\"task\":\"a\",\"step\":100,\"loss\":1.73,
   \"gpus\":2}
  {\"event\":\"parked\",\"time_s\":13.0,\"task\":\"a\"}
  {\"event\":\"ack\",\"time_s\":13.1,\"seq\":7}
  {\"event\":\"done\",\"time_s\":99.0,\"task\":\"a\"}
  {\"event\":\"failed\",\"time_s\":99.0,\"task\":\"a\"}
  {\"event\":\"lost\",\"time_s\":60,\"gpu\":3}
  {\"event\":\"found\",\"time_s\":80,\"gpu\":3}

A target is a target_loss, total_steps, total_samples, or a plateau (done when the loss falls by less than
that part over 100 steps). The first one reached ends the training, and its GPUs go to the others.

Examples:
  mt-elastic --gpus 4 run.ndjson
  train-all | mt-elastic --gpus 8 --policy paper > allocations.ndjson
  mt-elastic --gpus 4 --objective makespan run.ndjson | mt-report

Exit codes: 0 done; 2 bad usage, no event in the input, or a bad line with --strict.";

#[derive(Debug, Clone, Copy, ValueEnum)]
enum PolicyChoice {
    /// Best plan by simulation of phases
    Ours,
    /// Wei and Shudo: three quarters to the older of two
    Paper,
    /// The same number for each
    Equal,
    /// All to the one that is done first
    Srpt,
    /// Optimus: one by one to the training that gains most time
    Optimus,
    /// Shares of heSRPT, rounded
    Hesrpt,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ObjectiveChoice {
    /// Sum of completion times
    Completion,
    /// The last completion time
    Makespan,
    /// Sum of completion times, each times the weight of its task
    Weighted,
}

impl Args {
    /// Settings of the allocator.
    pub fn settings(&self) -> Result<AllocatorSettings, Failure> {
        if !(1..=MOST_GPUS).contains(&self.gpus) {
            let given = self.gpus;
            return Err(Failure::Usage(format!(
                "--gpus {given}: give 1 to {MOST_GPUS}"
            )));
        }
        let pause = Seconds::new(self.pause).map_err(|e| {
            Failure::Usage(format!(
                "--pause {}: give {}",
                shown(self.pause),
                e.expected
            ))
        })?;
        Ok(AllocatorSettings {
            gpus: self.gpus,
            pause,
            patience: self.patience,
            policy: match self.policy {
                PolicyChoice::Ours => Policy::Ours,
                PolicyChoice::Paper => Policy::Paper,
                PolicyChoice::Equal => Policy::Equal,
                PolicyChoice::Srpt => Policy::Srpt,
                PolicyChoice::Optimus => Policy::Optimus,
                PolicyChoice::Hesrpt => Policy::Hesrpt,
            },
            objective: match self.objective {
                ObjectiveChoice::Completion => Objective::Completion,
                ObjectiveChoice::Makespan => Objective::Makespan,
                ObjectiveChoice::Weighted => Objective::Weighted,
            },
        })
    }
}
