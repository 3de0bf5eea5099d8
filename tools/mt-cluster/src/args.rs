use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueHint};
use cli::{DeviceArg, EventArgs, JobArgs, LimitArgs, SeedArgs, StreamArgs};

/// Schedule many training jobs on GPUs of several kinds
///
/// Each job is a sequence of rounds of parallel tasks; the objective is the least weighted sum of
/// completion times. Every answer comes with a lower bound that holds for every schedule.
#[derive(Debug, Parser)]
#[command(version, after_help = include_str!("help.txt"), args_conflicts_with_subcommands = true,
          subcommand_required = false, arg_required_else_help = true)]
pub struct Args {
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Look after a run directory: clean it up once its owner is dead (started by mt-cluster run)
    #[arg(long, value_name = "DIR", hide = true)]
    pub guard: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Schedule clusters (mt.cluster/1) and write schedules (mt.schedule/1)
    Plan(PlanArgs),
    /// Schedule as time passes: arrivals are unknown, durations deviate; or drive a live system
    Online(OnlineArgs),
    /// Run the tasks of schedules (mt.schedule/1) and write events (mt.run/1)
    Run(RunArgs),
    /// Make a random cluster like that of Hare's evaluation
    Generate(GenerateArgs),
    /// Make a cluster from tables of jobs and rates
    Import(ImportArgs),
    /// Order the pending jobs of a Slurm queue: `scontrol` lines for sh
    Order(OrderArgs),
}

#[derive(Debug, clap::Args)]
pub struct PlanArgs {
    #[command(flatten)]
    pub stream: StreamArgs,
    /// Scheduler: this tool (hare), Hare's algorithm as published, order of arrival (fifo), shortest remaining
    /// time (srtf), blind to GPU types (homo), AlloX; all: hare compared with all others
    #[arg(long, default_value = "hare",
          value_parser = ["hare", "hare-literal", "fifo", "srtf", "homo", "allox", "all"])]
    pub policy: String,
    /// Stop the search after this many seconds; without --effort, up to 64 tasks are searched for as long,
    /// unless proven. Results may then differ from run to run
    #[arg(long, value_name = "SECONDS")]
    pub time_limit: Option<f64>,
    /// Starts of tasks to simulate in the local search; default: 4000000
    #[arg(long, value_name = "N")]
    pub effort: Option<u64>,
    /// Add modelled switching times between jobs: a new process (restart), the model copied layer by layer
    /// (pipelined), or models that stay resident (hare)
    #[arg(long, value_name = "HOW", value_parser = ["restart", "pipelined", "hare"])]
    pub switching: Option<String>,
    /// Take training times from a profile: TYPE=FILE, with the solo rates of mt-profile on that GPU type; jobs
    /// have the names of its tasks, and samples_per_task
    #[arg(long, value_name = "TYPE=FILE")]
    pub profile: Vec<String>,
    /// Report the cost of the schedule and of others on standard error
    #[arg(long)]
    pub explain: bool,
    #[command(flatten)]
    pub seed: SeedArgs,
}

#[derive(Debug, clap::Args)]
pub struct OnlineArgs {
    #[command(flatten)]
    pub stream: StreamArgs,
    /// Read events of a live system (mt.queue/1, one per line; `-`: standard input) and write the tasks that
    /// it should start (mt.start/1) as they are decided; FILE has the cluster
    #[arg(long, value_name = "EVENTS", value_hint = ValueHint::FilePath, conflicts_with = "noise")]
    pub events: Option<PathBuf>,
    /// Stop with exit code 2 at the first invalid line, instead of skipping it
    #[arg(long, requires = "events")]
    pub strict: bool,
    /// Largest relative deviation of durations, from 0 to below 1
    #[arg(long, value_name = "PART", default_value_t = 0.0)]
    pub noise: f64,
    /// Starts of tasks to simulate in the search after each event; default: 50,000 to 500,000 by how many jobs
    /// wait, and at most 5 % of the time until the next event
    #[arg(long, value_name = "N")]
    pub effort: Option<u64>,
    /// Jobs that have waited this many times their shortest duration go first, on up to a quarter of the GPUs, and
    /// weights grow with waiting until then; 0: neither
    #[arg(long, value_name = "TIMES", default_value_t = 50.0)]
    pub aging: f64,
    #[command(flatten)]
    pub seed: SeedArgs,
}

#[derive(Debug, clap::Args)]
pub struct RunArgs {
    #[command(flatten)]
    pub stream: EventArgs,
    /// Prefix of every task's command, split at blanks; {node}, {gpu}, {type}, {uuid}, {job}, {round} and
    /// {task} in it are replaced
    #[arg(long, value_name = "PREFIX", conflicts_with = "device")]
    pub via: Option<String>,
    /// Where to run on this machine; default: auto
    #[arg(long, value_enum, value_name = "KIND")]
    pub device: Option<DeviceArg>,
    /// Record in FILE which tasks are done, so that --resume can continue; default: OUTPUT.journal, or a file in
    /// the run directory, which a reboot may empty; a default one is removed once all is done
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub journal: Option<PathBuf>,
    /// Continue the run of the journal, if there is one: finished tasks stay done, running ones are started
    /// again, with the job's `resume` command if it has one
    #[arg(long)]
    pub resume: bool,
    /// Read events while it runs (mt.queue/1, one per line; `-`: standard input): weight, estimate, deadline,
    /// cancelled, lost, found, status; each counts from its time_s on, in seconds since the launch
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub events: Option<PathBuf>,
    /// Keep in FILE what runs, what waits and why, and when each job is expected to end (mt.status/1, for mt-report)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub status: Option<PathBuf>,
    /// Where jobs share GPUs: use the running MPS daemon (CUDA_MPS_PIPE_DIRECTORY), and leave it running
    #[arg(long)]
    pub attach_mps: bool,
    #[command(flatten)]
    pub limits: LimitArgs,
    #[command(flatten)]
    pub supervision: JobArgs,
    #[command(flatten)]
    pub seed: SeedArgs,
}

#[derive(Debug, clap::Args)]
pub struct GenerateArgs {
    /// GPUs: TYPE=COUNT of k80, m60, t4, v100, separated by commas
    #[arg(long, value_name = "LIST", default_value = "v100=8,t4=4,k80=1,m60=2")]
    pub gpus: String,
    /// Jobs
    #[arg(long, value_name = "N", default_value_t = 40,
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub jobs: u32,
    /// Load: arriving work over the capacity of the GPUs; 0: all jobs arrive at once
    #[arg(long, value_name = "RATIO", default_value_t = 2.0)]
    pub load: f64,
    /// Most tasks of a round
    #[arg(long, value_name = "N", default_value_t = 4,
          value_parser = clap::value_parser!(u32).range(1..=64))]
    pub most_tasks: u32,
    /// Speed of the network that synchronises, in Gbit/s
    #[arg(long, value_name = "GBPS", default_value_t = 25.0)]
    pub network: f64,
    /// Write to FILE, which appears only when it is complete
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub seed: SeedArgs,
}

#[derive(Debug, clap::Args)]
pub struct ImportArgs {
    /// Table of jobs: model, arrival_s, gpus, steps (of each GPU) or duration_s; optionally id, weight
    #[arg(long, value_name = "CSV", value_hint = ValueHint::FilePath)]
    pub jobs: PathBuf,
    /// Table of rates: model, type, steps_per_s; optionally gpus
    #[arg(long, value_name = "CSV", value_hint = ValueHint::FilePath)]
    pub rates: PathBuf,
    /// Rates of two models on one GPU, if jobs may share: model, beside, type, steps_per_s, beside_steps_per_s
    #[arg(long, value_name = "CSV", value_hint = ValueHint::FilePath)]
    pub pairs: Option<PathBuf>,
    /// Take other pairs from a model of mt-fit: TYPE=FILE, measured on that GPU type; its tasks are named as models
    #[arg(long, value_name = "TYPE=FILE")]
    pub model: Vec<String>,
    /// Percent of a GPU that each of two tasks may use, for --model; `run` limits neither
    #[arg(
        long,
        value_name = "PERCENT",
        default_value_t = 100.0,
        requires = "model"
    )]
    pub share: f64,
    /// GPUs: TYPE=COUNT, separated by commas
    #[arg(long, value_name = "LIST")]
    pub gpus: String,
    /// Least seconds of a task on the fastest type: shorter tasks are merged
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0)]
    pub task: f64,
    /// Type on which duration_s was measured
    #[arg(long, value_name = "TYPE")]
    pub reference: Option<String>,
    /// Write to FILE, which appears only when it is complete
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("order.txt"))]
pub struct OrderArgs {
    /// What `squeue --json` wrote; `-`: standard input
    #[arg(value_name = "FILE", default_value = "-", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// Write to FILE, which appears only when it is complete
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
}
