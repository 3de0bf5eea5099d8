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
    /// Whether the output is replaced even if it holds a profile or a run.
    pub force: bool,
    /// Where to measure, instead of what the workload says.
    pub device: Option<DeviceKind>,
    /// GPU of the simulator: a name, or a file with a GPU's figures.
    pub gpu: Option<String>,
    /// Profile that the replay device answers from.
    pub replay: Option<PathBuf>,
    /// Which configurations.
    pub design: DesignSettings,
    /// Rounds that the plan is for: an adaptive design ends once another co-run costs more time than it is
    /// expected to save in them.
    pub rounds: Option<u64>,
    /// Model of a similar workload that an adaptive design begins from.
    pub warm_start: Option<PathBuf>,
    /// How long to measure each.
    pub window: WindowSettings,
    /// Relative standard deviation of noise on simulated throughputs, percent.
    pub noise_percent: f64,
    /// Documents or a table that name the configurations, instead of the design.
    pub configs: Option<PathBuf>,
    /// With `configs`: the baselines of plans too.
    pub baselines: bool,
    /// With `configs`: solo runs of what is used first.
    pub solos: bool,
    /// Tables of measurements made elsewhere.
    pub import: Vec<PathBuf>,
    /// A profile to continue with.
    pub resume: Option<PathBuf>,
    /// Processors of jobs.
    pub cpus: Cpus,
    /// Whether to use an MPS daemon that runs already.
    pub attach_mps: bool,
    /// Variables that jobs get.
    pub passing: device::Passing,
    /// Where the trace of the simulated GPU goes.
    pub trace: Option<PathBuf>,
    /// A profile of a real GPU to fit the simulator to; nothing is measured then.
    pub calibrate: Option<PathBuf>,
    /// Seed of every random choice.
    pub seed: u64,
}
