//! Arguments of `mt run` and `mt init`.

use std::path::PathBuf;

use clap::{ValueEnum, ValueHint};
use doc::DeviceKind;

/// Arguments of `run`.
#[derive(Debug, clap::Args)]
pub struct RunArgs {
    /// Workload, or commands, each in quotes, to run to their end
    #[arg(value_name = "FILE|CMD", default_value = "workload.json", value_hint = ValueHint::FilePath)]
    pub workload: PathBuf,
    /// More commands
    #[arg(value_name = "CMD")]
    pub more: Vec<String>,
    /// Folder to create for the documents; default: the workload's name with -run
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub output: Option<PathBuf>,
    /// Continue in the folder of an earlier run, without measuring anything twice
    #[arg(long)]
    pub resume: bool,
    /// Start over in the folder of an earlier run; its documents are removed
    #[arg(long, conflicts_with = "resume")]
    pub force: bool,
    /// Rounds to train. Shares of later rounds follow what the earlier ones took
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub rounds: u32,
    /// Measure and plan before anything is trained, as the options of measuring and a simulated device also do
    #[arg(long)]
    pub measure_first: bool,
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

impl RunArgs {
    /// The commands, if they are given instead of a workload. A single word counts as a command if it has arguments and
    /// no file has that name.
    ///
    /// # Errors
    /// A message about options that need a workload, or about a script in place of a workload.
    pub fn commands(&self) -> Result<Option<Vec<String>>, String> {
        let first = self.workload.to_string_lossy().into_owned();
        let several = !self.more.is_empty();
        for (ending, interpreter) in [(".py", "python3"), (".sh", "sh")] {
            if !several && first.ends_with(ending) && self.workload.is_file() {
                return Err(format!(
                    "{first} is a script and no workload; give its command in quotes: mt run '{interpreter} {first}'"
                ));
            }
        }
        if !several && (self.workload.exists() || !first.contains(char::is_whitespace)) {
            return Ok(None);
        }
        let options = [
            ("--resume", self.resume),
            ("--force", self.force),
            ("--objective", self.objective.is_some()),
            ("--budget", self.budget.is_some()),
            ("--window", self.window.is_some()),
            ("--device", self.device.is_some()),
            ("--logs", self.logs.is_some()),
            ("--no-launch", self.no_launch),
        ];
        match options.iter().find(|(_, given)| *given) {
            Some((name, _)) => Err(format!(
                "{name} is for a workload; commands run to their end, and -o DIR is the folder of their output"
            )),
            None => Ok(Some(
                std::iter::once(first)
                    .chain(self.more.iter().cloned())
                    .collect(),
            )),
        }
    }
}

/// Arguments of `init`.
#[derive(Debug, clap::Args)]
pub struct InitArgs {
    /// Where to write it; `-`: standard output
    #[arg(short, long, value_name = "FILE", default_value = "workload.json",
          value_hint = ValueHint::FilePath)]
    pub output: PathBuf,
    /// Replace an existing file
    #[arg(long)]
    pub force: bool,
    /// Device; default: cuda if MPS can share a GPU, else sim (with --script: cpu)
    #[arg(long, value_enum, value_name = "KIND")]
    pub device: Option<Device>,
    /// GPU to simulate: rtx-3090, a100, ... (implies --device sim)
    #[arg(long, value_name = "NAME", conflicts_with_all = ["device", "script"])]
    pub gpu: Option<String>,
    /// Number of tasks
    #[arg(long, value_name = "N", default_value_t = 3,
          value_parser = clap::value_parser!(u32).range(1..=16))]
    pub tasks: u32,
    /// Training script of every task; a file *.py is started by python3
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub script: Option<String>,
    /// Batch sizes that the script can use, if it reads MT_BATCH_SIZE
    #[arg(long, value_name = "B,...", value_delimiter = ',', requires = "script")]
    pub batch_sizes: Vec<u32>,
    /// Data of a round of the script, if it reads MT_SAMPLES
    #[arg(long, value_name = "N", requires = "script")]
    pub samples: Option<u64>,
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
