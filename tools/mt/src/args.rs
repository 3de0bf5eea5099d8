use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueHint};

use crate::{start, top, verbs};

const EXAMPLES: &str = "\
Examples:
  mt try 'python3 train.py'
      is it worth running two copies together? The answer takes about a minute
  mt try 'python3 a.py --lr 0.1' 'python3 b.py'
      the same for two commands
  mt init && mt run
      measure, plan, launch and report three models on this machine's GPU, or on a
      simulated one
  mt run 'python3 a.py' 'python3 b.py'
      run two commands to their end, together if that is worth it
  mt init --script train.py --tasks 2 && mt run
      a workload of your own training script, twice
  mt sweep -- ./train.py --lr {lr} --seed {s} ::: lr=0.1,0.01 s=1..10
      twenty trainings on one device, as many at once as is fastest; mt status shows
      them from any terminal
  mt profile workload.json | mt fit | mt solve
      `mt TOOL` is `mt-TOOL`

Exit codes: those of the tool that ended last; 2 bad usage; 3 the environment lacks something.";

/// Share one device among training jobs: first steps, a queue, and all mt tools
#[derive(Debug, Parser)]
#[command(version, after_help = EXAMPLES, arg_required_else_help = true, disable_help_subcommand = true)]
pub struct Args {
    #[command(subcommand)]
    pub verb: Option<Verb>,
    /// Look after a run directory: clean it up once its owner is dead (started by mt)
    #[arg(long, value_name = "DIR", hide = true)]
    pub guard: Option<PathBuf>,
    /// Serve the queue in this folder (started by the verbs that need its server)
    #[arg(long, value_name = "DIR", hide = true)]
    pub serve: Option<PathBuf>,
}

/// The command.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Find out in a minute whether running commands together is worth it
    Try(TryArgs),
    /// Write a first workload, and say what to change in it
    Init(start::InitArgs),
    /// Run a workload (measure, plan, launch, report) or commands, together
    Run(start::RunArgs),
    /// Run many commands on one device, as many at once as is fastest
    #[command(after_help = include_str!("sweep.txt"))]
    Sweep(verbs::args::SweepArgs),
    /// Start the queue's server, or change its limits
    #[command(after_help = include_str!("queue.txt"))]
    Queue(verbs::args::QueueArgs),
    /// Add a command to the queue and print its number
    Add(verbs::args::AddArgs),
    /// Show running, waiting and failed jobs of the queue
    Status(verbs::args::StatusArgs),
    /// Watch the queue or a launched run, full screen
    #[command(after_help = include_str!("top.txt"))]
    Top(top::TopArgs),
    /// Print the output of jobs
    Logs(verbs::args::LogsArgs),
    /// Print a table of what jobs have come to: parameters, ends, times, the metrics that they printed
    #[command(after_help = include_str!("results.txt"))]
    Results(verbs::args::ResultsArgs),
    /// Print what was learnt of a command, also in the form that another system takes
    #[command(after_help = include_str!("numbers.txt"))]
    Numbers(verbs::numbers::NumbersArgs),
    /// Start failed jobs again, or the given ones
    Retry(verbs::args::RetryArgs),
    /// End running jobs, or remove waiting ones
    Cancel(verbs::args::CancelArgs),
    /// Start no more jobs, or hold the given ones
    Pause(verbs::args::PauseArgs),
    /// Wait until jobs have ended
    Wait(verbs::args::WaitArgs),
    /// Wait for room in the queue, then run a program in this process
    #[command(after_help = include_str!("exec.txt"))]
    Exec(verbs::args::ExecArgs),
    #[command(flatten)]
    Tool(start::Tool),
    /// Print the help of a command
    Help {
        /// Command; default: mt itself
        command: Option<OsString>,
    },
}

/// Arguments of `try`.
#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("try.txt"))]
pub struct TryArgs {
    /// Commands, each in quotes as one argument; no shell is involved
    #[arg(value_name = "CMD", required = true)]
    pub commands: Vec<String>,
    /// Copies of a single command to run together; default: 2
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=16))]
    pub copies: Option<u32>,
    /// Time to measure in each run; default: 5 to 20 s, depending on the number of runs
    #[arg(long, value_name = "SECONDS")]
    pub seconds: Option<f64>,
    /// Longest run of a command that prints no progress
    #[arg(long, value_name = "SECONDS", default_value_t = 120.0)]
    pub limit: f64,
    /// Folder to create for the workload and the output; default: mt-try, mt-try-2, ...
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub output: Option<PathBuf>,
}
