use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueHint};

const EXAMPLES: &str = "\
Examples:
  mt try 'python3 train.py'
      is it worth it to run two of it together? An answer within a minute or so, from your own command
  mt try 'python3 a.py --lr 0.1' 'python3 b.py'
      the same of two commands
  mt init && mt run
      three models on this machine's GPU, or on a simulated one: measured, planned, launched, reported
  mt init --script train.py --tasks 2 && mt run --objective fairness
      your own training script, twice
  mt sweep -- ./train.py --lr {lr} --seed {s} ::: lr=0.1,0.01 s=1..10
      twenty trainings on one device, as many at once as do most; mt status shows them from any terminal
  mt profile workload.json | mt fit | mt solve
      `mt TOOL` is `mt-TOOL`

Exit codes: those of the tool that ended last; 2 bad usage; 3 the environment cannot.";

const TRY: &str = "\
Each different command runs alone, then all run together, as plain processes on this machine (on a GPU under
NVIDIA MPS where that can be). How far they get is read from what they print: the worker protocol, tqdm bars,
percent, i/n, epoch, step, iter or samples and a number, else lines of one shape, else the end of the run.
Whole runs are compared, start-up included, where their length is known.

Exit codes: 0 an answer, also 'not worth it' and a difference within the noise; 1 a command failed, alone or
beside the others, or prints nothing to go by; 2 a command that is not there; 3 the environment cannot;
130 Ctrl-C. In every case nothing is left running.";

/// First steps with the mt tools, and each of them by its name
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

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Say whether it is worth it to run commands together, by running them for a minute
    Try(TryArgs),
    /// Write a workload to begin with, and say what to change in it
    Init(InitArgs),
    /// Measure, plan, launch and report a workload, into a folder
    Run(starter::RunArgs),
    /// Run many commands on one device, as many at once as do most
    #[command(after_help = include_str!("sweep.txt"))]
    Sweep(queue::args::SweepArgs),
    /// Start the server of the queue, or say what it may use
    #[command(after_help = include_str!("queue.txt"))]
    Queue(queue::args::QueueArgs),
    /// Add a command to the queue and print its number
    Add(queue::args::AddArgs),
    /// Show what runs, waits and has failed in the queue
    Status(queue::args::StatusArgs),
    /// Watch the queue, or a launched run, on the whole terminal
    #[command(after_help = include_str!("top.txt"))]
    Top(top::TopArgs),
    /// Print what a job of the queue has printed
    Logs(queue::args::LogsArgs),
    /// End jobs of the queue, or take them out
    Cancel(queue::args::CancelArgs),
    /// Start no jobs of the queue, or not these
    Pause(queue::args::PauseArgs),
    /// Wait until jobs of the queue have ended
    Wait(queue::args::WaitArgs),
    /// Wait until the queue has room, then become a program that is counted there
    #[command(after_help = include_str!("exec.txt"))]
    Exec(queue::args::ExecArgs),
    #[command(flatten)]
    Tool(starter::Tool),
    /// Print the help of a command
    Help {
        /// Its name; absent: mt itself
        command: Option<OsString>,
    },
}

/// Arguments of `try`.
#[derive(Debug, clap::Args)]
#[command(after_help = TRY)]
pub struct TryArgs {
    /// Commands, each in quotes as one argument; no shell is involved
    #[arg(value_name = "CMD", required = true)]
    pub commands: Vec<String>,
    /// How many copies of a single command to run together; absent: 2
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=16))]
    pub copies: Option<u32>,
    /// Progress to look at in each run; absent: 5 to 20 s, as many runs as there are
    #[arg(long, value_name = "SECONDS")]
    pub seconds: Option<f64>,
    /// How long a command may run alone that prints no progress
    #[arg(long, value_name = "SECONDS", default_value_t = 120.0)]
    pub limit: f64,
    /// Folder to make for the workload and what the commands print; absent: mt-try, mt-try-2, ...
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub output: Option<PathBuf>,
}

/// Arguments of `init`.
#[derive(Debug, clap::Args)]
pub struct InitArgs {
    /// Where to write it; `-`: standard output
    #[arg(short, long, value_name = "FILE", default_value = "workload.json",
          value_hint = ValueHint::FilePath)]
    pub output: PathBuf,
    /// Replace the file if it is there
    #[arg(long)]
    pub force: bool,
    /// Device; absent: cuda where MPS can share a GPU, else sim (with --script: cpu)
    #[arg(long, value_enum, value_name = "KIND")]
    pub device: Option<starter::Device>,
    /// GPU to simulate, by its name in the catalogue: rtx-3090, a100, ... (implies --device sim)
    #[arg(long, value_name = "NAME", conflicts_with_all = ["device", "script"])]
    pub gpu: Option<String>,
    /// Number of tasks
    #[arg(long, value_name = "N", default_value_t = 3,
          value_parser = clap::value_parser!(u32).range(1..=16))]
    pub tasks: u32,
    /// Training script of every task; a file *.py is started by python3
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub script: Option<String>,
}
