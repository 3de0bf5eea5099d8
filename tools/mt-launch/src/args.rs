use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum, ValueHint};
use cli::{Failure, Replaced};
use doc::DeviceKind;
use jobs::{LogLimits, RunDir};
use launch::Settings;

use crate::verbs::Verb;

const EXAMPLES: &str = "\
Examples:
  mt-launch timeline.json > run.ndjson
      start the jobs in the order of a timeline and write what happens, event by event
  mt-launch --device sim timeline.json | mt-report
      play the round on the simulator: the same events, with simulated times
  mt-launch --dry-run plan.json
      print what would be started, as shell lines, and start nothing
  mt-launch exec --plan plan.json --task a -- python3 train.py
      become this program under the share of task a, as nice(1) and taskset(1) do
  mt-launch env --task a plan.json
      print the variables of task a, for containers and services
  mt-launch --arrivals arrivals.ndjson workload.json --controller mt-elastic --gpus 4 > run.ndjson
      run the tasks of a workload as trainings that a controller moves between GPUs

With --controller the tasks of a workload (or of a plan's) are trainings. PROGRAM reads their
events (mt.training/1) and writes allocations (mt.allocation/1), as mt-elastic does. A training is
stopped by SIGTERM and started with another number of processes; mt-worker --help says what is
asked of its program. The GPUs are those of the workload's device; on the cpu device each is so
many parts of the processors. A controller that dies, is slow or makes no sense harms no training:
the last allocation stands.

Jobs are started without a shell, with these variables of this environment and no others: PATH,
HOME, USER, LOGNAME, LANG, LC_*, TZ, TMPDIR, XDG_*, LD_LIBRARY_PATH, LD_PRELOAD, CUDA_*, NVIDIA_*,
NCCL_*, OMP_*, MKL_*, OPENBLAS_*, PYTHON*, PYTORCH_*, TORCH_*, HF_*, VIRTUAL_ENV, CONDA_*,
RUST_BACKTRACE, http_proxy, https_proxy, no_proxy; then those of the workload, then MT_TASK,
MT_BATCH_SIZE, MT_SHARE_PERCENT, MT_DEVICE, MT_ROUND, MT_SAMPLES. Where control groups are made is
found by itself, or is MT_CGROUP_PARENT.

Exit codes: 0 every task finished; 1 some did not; 2 bad input or usage; 3 the device cannot be
used; 130 after Ctrl-C, 143 after SIGTERM, with nothing left running.";

/// Launch the jobs of plans or timelines under their shares and supervise them
///
/// Reads plans or timelines (with --controller: workloads) and writes events: one record a line, from
/// `launch` to `summary`.
#[derive(Debug, Parser)]
#[command(version, after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    pub verb: Option<Verb>,
    /// Plans, timelines or (with --controller) workloads to launch; `-` or none: standard input
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub files: Vec<PathBuf>,
    /// Write events to FILE as they happen; absent: standard output
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Replace the output even if it holds a run or a profile
    #[arg(long, requires = "output")]
    pub force: bool,
    /// Where to run, in place of what the workload says
    #[arg(long, value_enum, value_name = "KIND")]
    pub device: Option<Device>,
    /// Print what would be started, as shell lines, and start nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Let PROGRAM move trainings between GPUs while they run; the rest of the line is its own
    #[arg(long, value_name = "PROGRAM", num_args = 1.., allow_hyphen_values = true,
          conflicts_with_all = ["dry_run", "rounds", "adapt", "keep_shares", "no_overlap",
                                "task_timeout", "cpus"])]
    pub controller: Vec<String>,
    /// When trainings arrive (mt.training/1), with `--controller`; `-`: told while it runs
    #[arg(long, value_name = "FILE", requires = "controller", value_hint = ValueHint::FilePath)]
    pub arrivals: Option<PathBuf>,
    /// Rounds to run, one after another
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub rounds: u32,
    #[command(flatten)]
    pub care: Care,
    /// Look after a run directory: clean it up once its owner is dead (started by mt-launch)
    #[arg(long, value_name = "DIR", hide = true)]
    pub guard: Option<PathBuf>,
    #[command(flatten)]
    pub seed: cli::SeedArgs,
}

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
    /// Restarts of a task in a round before it is given up
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub restarts: u32,
    /// Pause before the first restart; each further one is twice as long, up to a minute
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    pub backoff: f64,
    /// Time between SIGTERM and SIGKILL when a job is stopped
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    pub grace: f64,
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
    /// Keep the logs of tasks in DIR; absent: only while they run
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub logs: Option<PathBuf>,
    /// Size at which a log is set aside as NAME.log.1 and begun anew
    #[arg(long, value_name = "BYTES", default_value_t = 16 << 20)]
    pub log_bytes: u64,
    /// Older logs to keep of each task
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub log_files: u32,
    /// Print what the jobs print to standard error, each line after its task's name
    #[arg(long)]
    pub follow: bool,
    /// Write metrics in the Prometheus text format to FILE, anew every second
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub prometheus: Option<PathBuf>,
    /// Where the private run directory is made; absent: in the folder for temporary files
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub runs: Option<PathBuf>,
    /// Between rounds, correct the model by what was measured and solve anew
    #[arg(long)]
    pub adapt: bool,
    /// Part of a correction that --adapt applies: 1 is all of it
    #[arg(long, value_name = "X", default_value_t = 0.5)]
    pub damping: f64,
}

impl Care {
    /// Checks every value.
    ///
    /// # Errors
    /// [`Failure::Usage`] with a line for each that is out of range, or that the file of metrics is
    /// an input or output.
    pub fn settings(&self) -> Result<Settings, Failure> {
        let mut faults = Vec::new();
        let mut seconds = |name: &str, value: f64| {
            if (0.0..=1e9).contains(&value) {
                return Duration::from_secs_f64(value);
            }
            faults.push(format!("--{name} {value}: give seconds from 0 to 1e9"));
            Duration::ZERO
        };
        let ready = seconds("ready-timeout", self.ready_timeout);
        let stall = seconds("stall-timeout", self.stall_timeout);
        let total = seconds("task-timeout", self.task_timeout);
        let backoff = seconds("backoff", self.backoff);
        let grace = seconds("grace", self.grace);
        let progress_every = seconds("progress-every", self.progress_every);
        if self.log_bytes == 0 {
            faults.push("--log-bytes 0: give at least 1".to_owned());
        }
        if !(self.damping > 0.0 && self.damping <= 1.0) {
            faults.push(format!(
                "--damping {}: give a number above 0, at most 1",
                self.damping
            ));
        }
        if !faults.is_empty() {
            return Err(Failure::Usage(faults.join("\n")));
        }
        let deadline = |d: Duration| (!d.is_zero()).then_some(d);
        Ok(Settings {
            ready: deadline(ready),
            stall: deadline(stall),
            total: deadline(total),
            restarts: self.restarts,
            backoff,
            grace,
            cpus: self.cpus.clone(),
            keep_shares: self.keep_shares,
            no_overlap: self.no_overlap,
            progress_every,
            logs: self.logs.clone(),
            log_limits: LogLimits {
                bytes: self.log_bytes,
                old_files: self.log_files,
            },
            follow: self.follow,
            metrics: self
                .prometheus
                .as_deref()
                .map(Replaced::claim)
                .transpose()?,
            adapt: self.adapt.then_some(self.damping),
            runs: self.runs.clone().unwrap_or_else(RunDir::default_base),
        })
    }
}

/// A device that can run jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Device {
    /// A GPU of this machine under MPS if there is one, else the simulator
    Auto,
    /// The GPU simulator: no job is started
    Sim,
    /// Real processes under CPU quotas
    Cpu,
    /// Real processes under NVIDIA MPS
    Cuda,
}

impl From<Device> for DeviceKind {
    fn from(device: Device) -> Self {
        match device {
            Device::Auto => DeviceKind::Auto,
            Device::Sim => DeviceKind::Sim,
            Device::Cpu => DeviceKind::Cpu,
            Device::Cuda => DeviceKind::Cuda,
        }
    }
}
