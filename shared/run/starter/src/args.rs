//! Arguments of `mt run`.

use std::path::PathBuf;

use clap::{ValueEnum, ValueHint};
use doc::DeviceKind;

/// Arguments of `run`.
#[derive(Debug, clap::Args)]
pub struct RunArgs {
    /// Workload
    #[arg(value_name = "FILE", default_value = "workload.json", value_hint = ValueHint::FilePath)]
    pub workload: PathBuf,
    /// Folder to create for the documents; default: the workload's name with -run
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub output: Option<PathBuf>,
    /// Continue in the folder of an earlier run, without measuring anything twice
    #[arg(long)]
    pub resume: bool,
    /// Start over in the folder of an earlier run; its documents are removed
    #[arg(long, conflicts_with = "resume")]
    pub force: bool,
    /// Objective of the profile and of the plan; default: progress if it is known what samples are worth,
    /// else round
    #[arg(long, value_enum, value_name = "OBJECTIVE")]
    pub objective: Option<cli::ObjectiveArg>,
    /// Configurations to measure; default: as mt-profile chooses
    #[arg(long, value_name = "N")]
    pub budget: Option<u32>,
    /// Shortest window of a measurement; default: as mt-profile chooses
    #[arg(long, value_name = "SECONDS")]
    pub window: Option<f64>,
    /// Where to run, instead of what the workload says
    #[arg(long, value_enum, value_name = "KIND")]
    pub device: Option<Device>,
    /// Folder for the logs of the launched tasks; default: `logs` in the folder
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub logs: Option<PathBuf>,
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
