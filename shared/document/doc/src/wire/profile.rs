use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{DeviceKind, GradientNoise, MeasuredNoiseScale, Provenance, Workload, wire_form};

/// First record of a profile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProfileHeader {
    /// `mt.profile/1`.
    pub schema: String,
    /// `header`.
    pub record: String,
    /// The profiled workload.
    pub workload: Workload,
    /// The device on which the workload was profiled.
    pub device: DeviceFingerprint,
    /// Method by which the configurations were chosen.
    pub design: DesignKind,
    /// Seed of the design and of the simulator.
    pub seed: u64,
    /// Minimum measurement window requested, in seconds; absent: the default of the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_s: Option<f64>,
    /// Objective that the configurations were chosen for; absent if they were not chosen for a plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aim: Option<Aim>,
    /// Tools that made this document, in the order in which they ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub provenance: Vec<Provenance>,
}

wire_form!(ProfileHeader, "mt.profile/1", "header");

/// Quantity that is maximised.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum ObjectiveKind {
    /// Total throughput `sum P_i`, in samples per second.
    Raw,
    /// Sum of throughput relative to solo, `sum P_i / S_i`.
    Fairness,
    /// Weighted total throughput `sum w_i P_i`, in samples per second.
    Weighted,
    /// The smallest `P_i / S_i` of all tasks.
    MaxMin,
    /// Minus the time of the round in seconds, with transfers in the best order found and compute at the rates of the
    /// tasks that currently compute. On several GPUs, minus the time until every task has trained on its samples,
    /// without transfers.
    Round,
    /// If every task has samples: minus the weighted mean of the tasks' times to target, in seconds. Task i takes
    /// `n_i = N_i / E_i(B_i)` rounds. `N_i` is the number of rounds at the reference batch size, from
    /// `rounds_to_target` or a table of rounds, otherwise 1. Each round is as long as a round of the tasks that have
    /// not reached their targets yet. If a task has no samples: the weighted mean of progress per second, relative to
    /// the highest progress of the task alone, `P_i E_i(B_i) / max_B S_i(B) E_i(B)`.
    Progress,
    /// The same for the worst-off task: minus the last time to target, or the smallest relative progress.
    ProgressLast,
}

impl ObjectiveKind {
    /// Whether the objective is progress: of all tasks or of the worst-off task, by time or by rate.
    #[must_use]
    pub const fn is_progress(self) -> bool {
        matches!(self, Self::Progress | Self::ProgressLast)
    }
}

/// Objective and starvation floor that measurements were chosen for. `mt-solve` uses the same ones unless its options
/// say otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Aim {
    /// Objective of the plan.
    pub objective: ObjectiveKind,
    /// Lower limit of `P_i / S_i` for every task, 0 to 1; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starvation_floor: Option<f64>,
}

/// Identity of a device, so that a profile of another device is not used by mistake.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeviceFingerprint {
    /// Kind of device, never `auto`.
    pub kind: DeviceKind,
    /// Name of the device, for example of the GPU or the processor.
    pub name: String,
    /// Whether the numbers come from a simulator.
    pub simulated: bool,
    /// Number of units that shares are divided into: SMs or cores; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub units: Option<u32>,
    /// Version of the driver, the kernel or other software that may change the numbers; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Relative noise that the simulator adds to each throughput on request, in percent; a string, so that it is exact.
    /// Absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise_percent: Option<String>,
}

/// Method by which configurations were chosen.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum DesignKind {
    /// Every combination of a coarse grid.
    Grid,
    /// Drawn at random.
    Random,
    /// Chosen one at a time by expected improvement.
    Adaptive,
    /// Given by the user.
    Given,
    /// Measured elsewhere and imported.
    Imported,
}

/// One measured co-run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProfileSample {
    /// `mt.profile/1`.
    pub schema: String,
    /// `sample`.
    pub record: String,
    /// Number of the configuration in the profile, from 0.
    pub config: u64,
    /// Measurement of each task that ran, in the order of the workload.
    pub tasks: Vec<MeasuredTask>,
    /// Length of the window in which all tasks ran, in seconds.
    pub window_s: f64,
    /// Number of windows that were averaged.
    pub repeats: u32,
    /// GPU utilisation during the measurement; absent if not available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<GpuUse>,
}

wire_form!(ProfileSample, "mt.profile/1", "sample");

/// GPU utilisation reported by NVML, from the moment when the tasks were told to train until the end of the last
/// window. A value that the GPU or its driver does not report is absent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GpuUse {
    /// Percentage of the time in which at least one kernel ran ("GPU utilisation"). The driver keeps about a hundred of
    /// its samples of 0.2 s, so in a longer measurement the value covers only the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub utilisation_percent: Option<f64>,
    /// Percentage of the time in which an SM had at least one warp, averaged over SMs (Hopper and newer).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sm_active_percent: Option<f64>,
    /// Number of warps on an SM relative to the maximum that it can hold, averaged over SMs and time, in percent
    /// (Hopper and newer).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sm_occupancy_percent: Option<f64>,
    /// Device memory in bytes that all processes use at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Device memory in bytes that the processes of each task use at the end, in the order of `tasks`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks_memory_bytes: Option<Vec<u64>>,
}

/// One task of a measured co-run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MeasuredTask {
    /// Name of the task.
    pub id: String,
    /// Batch size.
    pub batch: u64,
    /// Share in percent.
    pub share_percent: f64,
    /// Throughput in samples per second.
    pub samples_per_s: f64,
    /// Standard error of the throughput, in samples per second; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr_samples_per_s: Option<f64>,
    /// Gradient statistics of its steps, from which its noise scale is estimated; absent if the training reports no
    /// gradient norms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gradient: Option<GradientNoise>,
    /// Time in seconds from the launch of the job until it trained, averaged over its launches for this sample; absent
    /// if the job was parked and only woken, or reports no progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub startup_s: Option<f64>,
    /// Time in seconds from launch to exit of a job that ended by itself, averaged over such runs in this sample;
    /// absent if there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_s: Option<f64>,
    /// Number of samples that such a run trained on, as reported by the job; the task's `samples` if it reported none.
    /// Absent if `run_s` is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_samples: Option<u64>,
}

/// A configuration that could not be measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProfileFailure {
    /// `mt.profile/1`.
    pub schema: String,
    /// `failure`.
    pub record: String,
    /// Number of the configuration in the profile, from 0.
    pub config: u64,
    /// Tasks that should have run together.
    pub tasks: Vec<Choice>,
    /// Reason why there is no measurement, for people.
    pub reason: String,
    /// Category of the reason; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<FailureCause>,
    /// Name of the task whose job caused the failure; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// Last lines that this job printed, at most 2 KiB, without control characters; absent if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
}

/// Reason why a job could not be measured.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum FailureCause {
    /// The job ended with an exit code other than 0, or by a signal.
    Crash,
    /// The job ended because Python could not import a module.
    Module,
    /// The job ended because arguments were missing or unknown.
    Arguments,
    /// The job could not be started.
    Program,
    /// The job ran, but nothing in its output shows progress.
    Silent,
    /// The job printed nothing within the time allowed for its start.
    Timeout,
    /// The job trained, and then reported no progress for too long.
    Stall,
    /// The job ran out of memory.
    Memory,
    /// The job trains for too short a time to be measured.
    Short,
    /// Any other reason.
    Other,
}

wire_form!(ProfileFailure, "mt.profile/1", "failure");

/// Batch size and share of one task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Choice {
    /// Name of the task.
    pub id: String,
    /// Batch size.
    pub batch: u64,
    /// Share in percent.
    pub share_percent: f64,
}

/// Last record of a finished profile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProfileEnd {
    /// `mt.profile/1`.
    pub schema: String,
    /// `end`.
    pub record: String,
    /// Number of configurations that were measured.
    pub measured: u64,
    /// Number of configurations that failed.
    pub failed: u64,
    /// Total device time of the measured windows, in seconds.
    pub cost_s: f64,
    /// Reason why the profile ended.
    pub stopped: StopReason,
    /// Noise scale of each task, estimated from the `gradient` of all samples. Tasks for which the norms do not suffice
    /// are absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub noise_scales: Vec<MeasuredNoiseScale>,
}

wire_form!(ProfileEnd, "mt.profile/1", "end");

/// Reason why profiling ended.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum StopReason {
    /// Every configuration of the design was measured.
    Complete,
    /// The budget was used up.
    Budget,
    /// The expected gain of another co-run fell below the tolerance, or below the cost of that co-run.
    Tolerance,
    /// A task failed when it ran alone, so there is no rate to compare its co-runs with.
    Failure,
}
