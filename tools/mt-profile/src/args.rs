use std::path::PathBuf;

use clap::{Parser, ValueEnum, ValueHint};

const EXAMPLES: &str = "\
Examples:
  mt-profile workload.json | mt-fit | mt-solve
      measure each task alone and a few co-runs, and make a plan
  mt-profile --device cuda --tolerance 1 -o profile.ndjson workload.json
      the same on this machine's GPU, until another co-run promises less than 1 % more;
      the file grows record by record
  mt-profile --resume profile.ndjson -o profile.ndjson workload.json
      continue after an interruption, without measuring anything twice
  mt-profile --configs plan.json
      measure what a plan chose, to compare with what it predicts
  mt-profile --configs shares.csv workload.json
      measure the configurations of a table: config,task,batch,share_percent
  mt-profile --import samples.csv workload.json
      make a profile from measurements made elsewhere: the same columns and
      throughput[,stderr]
  mt-profile --import run.ndjson workload.json
      make a profile from the events of a launch
  mt-profile --configs plan.json --trace corun.json
      record which kernels of which task ran when on the simulated GPU, for Perfetto
  mt-profile --calibrate profile.ndjson --gpu rtx-3090 -o mine.json
      fit the simulator to a profile from a real GPU, for --gpu mine.json

On real devices, jobs that end by themselves are restarted while they are measured. A job that prints
nothing is measured by whole runs if its task has `samples`. The first task that fails alone ends the
profile.

Exit codes: 0 done; 1 a task failed alone, or nothing could be measured for a workload; 2 bad input
or usage, such as a script that does not exist; 3 the device cannot be used; 130 after
Ctrl-C, with every finished record written.";

/// Measure how fast training tasks run alone and together on one device
///
/// Reads workloads and writes a profile for each, one record per line: first each task alone at each of
/// its batch sizes, then co-runs.
#[derive(Debug, Parser)]
#[command(version, after_help = EXAMPLES)]
pub struct Args {
    /// Workloads to profile; `-` or none: standard input
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub files: Vec<PathBuf>,
    /// Write to FILE, record by record; default: standard output
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Replace the output even if it holds a profile or a run
    #[arg(long, requires = "output")]
    pub force: bool,
    /// Where to measure, instead of what the workload says
    #[arg(long, value_enum, value_name = "KIND")]
    pub device: Option<Device>,
    /// GPU to simulate: a name such as titan-v, or a file with a GPU's parameters
    #[arg(long, value_name = "NAME|FILE", value_hint = ValueHint::FilePath)]
    pub gpu: Option<String>,
    /// Measure nothing; list this machine's GPUs and processor, and the simulator's GPUs and models, as
    /// JSON
    #[arg(long, conflicts_with_all = ["files", "configs", "import", "resume", "device", "replay"])]
    pub list_devices: bool,
    /// Profile whose recorded samples the replay device returns (implies --device replay)
    #[arg(long, value_name = "PROFILE", value_hint = ValueHint::FilePath)]
    pub replay: Option<PathBuf>,
    #[command(flatten)]
    pub design: DesignArgs,
    #[command(flatten)]
    pub window: WindowArgs,
    /// Noise added to simulated throughputs: relative standard deviation in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0)]
    pub noise: f64,
    /// Measure only the configurations of FILE (plans, timelines, profiles, or CSV)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all = ["import", "design", "budget"])]
    pub configs: Option<PathBuf>,
    /// With --configs: also measure the plan's baselines
    #[arg(long)]
    pub baselines: bool,
    /// With --configs: first measure each task alone, at each batch size in FILE
    #[arg(long)]
    pub solos: bool,
    /// Make a profile from the measurements in FILE: events of a run (mt-launch), of which only the
    /// stretches with steady training under known shares count; or CSV with one row for each task of a
    /// configuration and the columns config, task, batch, share_percent (or share_fraction), throughput in
    /// samples per second (or step_s, step_ms: mean time of a step), and its stderr. Leave throughput
    /// empty if a task ran but was not measured. May be repeated
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all = ["resume", "design", "budget"])]
    pub import: Vec<PathBuf>,
    /// Continue the profile in FILE, which may also be the output; a missing file is an empty profile
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub resume: Option<PathBuf>,
    /// Processors of jobs: auto gives each task a part of all, none pins nothing, a list (0-7,9) is divided
    #[arg(long, value_name = "auto|none|LIST", default_value = "auto")]
    pub cpus: device::Cpus,
    /// On a GPU, use the running MPS daemon instead of a private one
    #[arg(long)]
    pub attach_mps: bool,
    #[command(flatten)]
    pub env: cli::EnvArgs,
    /// Record what the simulated GPU did in the first co-run with the most tasks, for Perfetto or
    /// chrome://tracing, and write its occupancy to the same name with .csv
    #[arg(long, value_name = "FILE.json", value_hint = ValueHint::FilePath)]
    pub trace: Option<PathBuf>,
    /// Measure nothing; fit the parameters of --gpu to a profile from a real GPU and write them
    #[arg(long, value_name = "PROFILE", value_hint = ValueHint::FilePath, requires = "gpu", conflicts_with_all = ["configs", "import", "resume", "files", "replay", "trace"])]
    pub calibrate: Option<PathBuf>,
    /// Look after a run directory: clean it up once its owner is dead (started by mt-profile)
    #[arg(long, value_name = "DIR", hide = true)]
    pub guard: Option<PathBuf>,
    #[command(flatten)]
    pub seed: cli::SeedArgs,
}

/// Which configurations to measure.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Design")]
pub struct DesignArgs {
    /// How to choose co-runs
    #[arg(long, value_enum, value_name = "DESIGN", default_value = "adaptive")]
    pub design: Design,
    /// Configurations to measure [default: adaptive 40, random 125, grid all]. On real devices solo runs
    /// count too, and each task is always measured alone; on the simulator and with replay only co-runs
    /// count
    #[arg(long, alias = "samples", value_name = "K")]
    pub budget: Option<u64>,
    /// Shares are multiples of this [default: 5, grid 20]
    #[arg(long, value_name = "PERCENT")]
    pub share_step: Option<f64>,
    /// Batch sizes of co-runs [default: free; adaptive reference, unless the objective is progress]. Without
    /// knowing what larger batches cost, mt-solve keeps the reference sizes unless it is told --batch free, too
    #[arg(long, value_enum, value_name = "SIZES")]
    pub batch: Option<Sizes>,
    /// Least sum of the shares of a co-run of all tasks
    #[arg(long, value_name = "PERCENT")]
    pub rv_min: Option<f64>,
    /// Largest sum of the shares of a co-run
    #[arg(long, value_name = "PERCENT")]
    pub rv_max: Option<f64>,
    /// Part of adaptive and random co-runs that leaves out some of three or more tasks
    #[arg(long, value_name = "PERCENT", default_value_t = 20.0)]
    pub subsets: f64,
    /// Adaptive: stop when the expected gain of another co-run falls below this; on several GPUs
    /// (above 0) once the plan that mt-solve would choose is measured
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0)]
    pub tolerance: f64,
    /// Adaptive: stop when another co-run takes more time than it is expected to save in N rounds of the
    /// plan, at the earliest after the schemes of equal shares; every task needs `samples`
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), conflicts_with_all = ["configs", "import"])]
    pub rounds: Option<u64>,
    /// Adaptive: the objective that the co-runs are chosen for, which mt-solve then maximises; default:
    /// progress if the workload says what samples are worth, else round if every task has samples, else raw
    #[arg(long, value_enum, value_name = "OBJECTIVE")]
    pub objective: Option<cli::ObjectiveArg>,
    /// Adaptive: consider only co-runs in which every task keeps this fraction of its throughput alone, as
    /// mt-solve then does
    #[arg(long, value_name = "PHI", default_value_t = 0.0)]
    pub floor: f64,
    /// Adaptive: begin with the model of a similar workload with the same tasks; its predictions, scaled
    /// by the new solo runs, replace samples until there are enough
    #[arg(long, value_name = "MODEL", value_hint = ValueHint::FilePath)]
    pub warm_start: Option<PathBuf>,
}

/// How long to measure.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Measuring")]
pub struct WindowArgs {
    /// Windows to average for each configuration [default: 1; simulator: 3]
    #[arg(long, value_name = "N")]
    pub repeats: Option<u32>,
    /// Shortest window in seconds [default: 2; simulator: 10, and five steps of the slowest task]
    #[arg(long, value_name = "SECONDS")]
    pub window: Option<f64>,
    /// Longest window on real devices in seconds; shorter if a task finishes its work before
    #[arg(long, value_name = "SECONDS", default_value_t = 20.0)]
    pub max_window: f64,
    /// Relative standard error that ends a window on real devices
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0)]
    pub precision: f64,
}

/// A kind of device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Device {
    /// A GPU of this machine under MPS if there is one, else the simulator
    Auto,
    /// The GPU simulator
    Sim,
    /// Real processes under CPU quotas
    Cpu,
    /// Real processes under NVIDIA MPS
    Cuda,
    /// Recorded samples (see --replay)
    Replay,
}

/// Batch sizes of co-runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Sizes {
    /// The reference size of each task: its `batch`, or the first of its sizes
    Reference,
    /// Any of a task's sizes
    Free,
}

/// How to choose co-runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Design {
    /// Every combination of shares and batch sizes
    Grid,
    /// Random configurations
    Random,
    /// First the schemes that plans are compared with, then in turns the plan that mt-solve would choose
    /// so far and the co-run of highest expected improvement
    Adaptive,
}
