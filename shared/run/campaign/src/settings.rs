use std::path::PathBuf;

use design::{DesignSettings, WindowSettings};
use device::Cpus;
use doc::DeviceKind;

/// Inputs, device and options of a profile.
#[derive(Debug, Clone)]
pub struct ProfileSettings {
    /// Files of workloads; empty: standard input.
    pub files: Vec<PathBuf>,
    /// Output file of profiles; `None`: standard output.
    pub output: Option<PathBuf>,
    /// Whether this program supports `--guard`, which a guard needs.
    pub guarded: bool,
    /// Whether to replace the output even if it contains a profile or a run.
    pub force: bool,
    /// Device, overriding the workload.
    pub device: Option<DeviceKind>,
    /// GPU of the simulator: a name, or a file with a GPU's parameters.
    pub gpu: Option<String>,
    /// Profile that the replay device replays.
    pub replay: Option<PathBuf>,
    /// Which configurations to measure.
    pub design: DesignSettings,
    /// Number of future rounds: an adaptive design ends when another co-run costs more time than it is expected to save
    /// in these rounds.
    pub rounds: Option<u64>,
    /// Model of a similar workload from which an adaptive design starts.
    pub warm_start: Option<PathBuf>,
    /// How long to measure each configuration.
    pub window: WindowSettings,
    /// Relative standard deviation of noise on simulated throughputs, percent.
    pub noise_percent: f64,
    /// File with the configurations (documents or a table), instead of the design.
    pub configs: Option<PathBuf>,
    /// With `configs`: whether to measure the baselines of plans, too.
    pub baselines: bool,
    /// With `configs`: whether to measure first the solo runs of the tasks in them.
    pub solos: bool,
    /// Tables of measurements made elsewhere.
    pub import: Vec<PathBuf>,
    /// A profile to continue with.
    pub resume: Option<PathBuf>,
    /// Pinning of jobs to processors.
    pub cpus: Cpus,
    /// Whether to use a running MPS daemon.
    pub attach_mps: bool,
    /// Variables that jobs get.
    pub passing: device::Passing,
    /// File of the trace of the simulated GPU.
    pub trace: Option<PathBuf>,
    /// A profile of a real GPU to fit the simulator to; nothing is measured then.
    pub calibrate: Option<PathBuf>,
    /// Seed of every random choice.
    pub seed: u64,
}
