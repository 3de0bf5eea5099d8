use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum, ValueHint};
use doc::DeviceKind;

const EXAMPLES: &str = "\
Examples:
  mt init && mt run
      three models on this machine's GPU, or on a simulated one: measured, planned, launched, reported
  mt init --script train.py --tasks 2 && mt run --objective fairness
      your own training script, twice
  mt profile workload.json | mt fit | mt solve
      `mt TOOL` is `mt-TOOL`

Exit codes: those of the tool that ended last; 2 bad usage; 3 a tool is not installed.";

/// First steps with the mt tools, and each of them by its name
#[derive(Debug, Parser)]
#[command(version, after_help = EXAMPLES, arg_required_else_help = true, disable_help_subcommand = true)]
pub struct Args {
    #[command(subcommand)]
    pub verb: Verb,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Write a workload to begin with, and say what to change in it
    Init(InitArgs),
    /// Measure, plan, launch and report a workload, into a folder
    Run(RunArgs),
    #[command(flatten)]
    Tool(starter::Tool),
    /// Print the help of a command
    Help {
        /// Its name; absent: mt itself
        command: Option<OsString>,
    },
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
    pub device: Option<Device>,
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

/// Arguments of `run`.
#[derive(Debug, clap::Args)]
pub struct RunArgs {
    /// Workload
    #[arg(value_name = "FILE", default_value = "workload.json", value_hint = ValueHint::FilePath)]
    pub workload: PathBuf,
    /// Folder to make for the documents; absent: the workload's name with -run
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub output: Option<PathBuf>,
    /// What to maximise, in the profile as in the plan
    #[arg(long, value_enum, value_name = "OBJECTIVE", default_value_t = cli::ObjectiveArg::Round)]
    pub objective: cli::ObjectiveArg,
    /// Co-runs to measure; absent: as mt-profile chooses
    #[arg(long, value_name = "N")]
    pub budget: Option<u32>,
    /// Where to run, in place of what the workload says
    #[arg(long, value_enum, value_name = "KIND")]
    pub device: Option<Device>,
    /// Stop before the launch
    #[arg(long)]
    pub no_launch: bool,
}

/// A device of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Device {
    /// The GPU simulator
    Sim,
    /// Real processes under CPU quotas
    Cpu,
    /// Real processes under NVIDIA MPS
    Cuda,
}

impl From<Device> for DeviceKind {
    fn from(device: Device) -> Self {
        match device {
            Device::Sim => Self::Sim,
            Device::Cpu => Self::Cpu,
            Device::Cuda => Self::Cuda,
        }
    }
}
