use std::path::PathBuf;

use design::{DesignSettings, WindowSettings};
use device::Cpus;
use doc::DeviceKind;

/// Inputs, device and options of a profile.
#[derive(Debug, Clone)]
pub struct ProfileSettings {
    /// Workloads; none: standard input.
    pub files: Vec<PathBuf>,
    /// Where profiles go; `None`: standard output.
    pub output: Option<PathBuf>,
    /// Whether this program supports `--guard`, so that it can have a guard.
    pub guarded: bool,
    /// Whether to replace the output even if it contains a profile or a run.
    pub force: bool,
    /// Device, overriding the workload.
    pub device: Option<DeviceKind>,
    /// GPU of the simulator: a name, or a file with a GPU's figures.
    pub gpu: Option<String>,
    /// Profile of the replay device.
    pub replay: Option<PathBuf>,
    /// Which configurations.
    pub design: DesignSettings,
    /// Number of coming rounds: an adaptive design ends when another co-run costs more time than it is expected to
    /// save in them.
    pub rounds: Option<u64>,
    /// Model of a similar workload from which an adaptive design starts.
    pub warm_start: Option<PathBuf>,
    /// How long to measure each configuration.
    pub window: WindowSettings,
    /// Relative standard deviation of noise on simulated throughputs, percent.
    pub noise_percent: f64,
    /// Documents or a table with the configurations, instead of the design.
    pub configs: Option<PathBuf>,
    /// With `configs`: also the baselines of plans.
    pub baselines: bool,
    /// With `configs`: first the solo runs of what is used.
    pub solos: bool,
    /// Tables of measurements made elsewhere.
    pub import: Vec<PathBuf>,
    /// A profile to continue with.
    pub resume: Option<PathBuf>,
    /// Processors of jobs.
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
