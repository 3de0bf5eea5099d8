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
    /// What was profiled.
    pub workload: Workload,
    /// The profiled workload.
    pub device: DeviceFingerprint,
    /// How the configurations were chosen.
    pub design: DesignKind,
    /// Seed of the design and of the simulator.
    pub seed: u64,
    /// Shortest window requested, in seconds; absent: the device's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_s: Option<f64>,
    /// The objective that the configurations were chosen for; absent if they were not chosen for a
    /// plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aim: Option<Aim>,
    /// Which tools made this document.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub provenance: Vec<Provenance>,
}

wire_form!(ProfileHeader, "mt.profile/1", "header");

/// What is maximised.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum ObjectiveKind {
    /// Total throughput `sum P_i`, samples per second.
    Raw,
    /// Total of throughput relative to solo `sum P_i / S_i`.
    Fairness,
    /// Weighted total `sum w_i P_i`, samples per second.
    Weighted,
    /// The least `P_i / S_i`.
    MaxMin,
    /// Minus the time of the round in seconds: transfers in the best order found, compute at the
    /// rates of the currently computing tasks. On several GPUs, minus the time until every task has
    /// trained on its samples, without transfers.
    Round,
    /// If every task has samples: minus the weighted mean of the tasks' times to target in seconds. Task i
    /// takes `n_i = N_i / E_i(B_i)` rounds (`N_i` at the reference batch size, by `rounds_to_target` or a table
    /// of rounds, otherwise 1), each as long as a round of the tasks that have not reached their targets. Otherwise the
    /// weighted mean of progress per second over the highest progress of the task alone, `P_i E_i(B_i) /
    /// max_B S_i(B) E_i(B)`.
    Progress,
    /// The same for the worst-off task: minus the last time to target, or the least progress.
    ProgressLast,
}

impl ObjectiveKind {
    /// Whether the objective is progress, by time or by rate, of all tasks or of the worst-off.
    #[must_use]
    pub const fn is_progress(self) -> bool {
        matches!(self, Self::Progress | Self::ProgressLast)
    }
}

/// The plan that measurements were chosen for. `mt-solve` uses the same unless told otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Aim {
    /// The objective of the plan.
    pub objective: ObjectiveKind,
    /// Least `P_i / S_i` of every task, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starvation_floor: Option<f64>,
}

/// Identity of a device, so that a profile of another one is not used by mistake.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeviceFingerprint {
    /// Kind of device, never `auto`.
    pub kind: DeviceKind,
    /// Name, for example of the GPU or of the processor.
    pub name: String,
    /// Whether the numbers come from a simulator.
    pub simulated: bool,
    /// Units that shares are divided into: SMs or cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub units: Option<u32>,
    /// Driver, kernel or other version that may change the numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Relative noise that the simulator adds to each throughput on request, in percent, as text so
    /// that it is exact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise_percent: Option<String>,
}

/// How configurations were chosen.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum DesignKind {
    /// Every combination of a coarse grid.
    Grid,
    /// Random draws.
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
    /// The tasks that ran together, in the order of the workload.
    pub tasks: Vec<MeasuredTask>,
    /// Length of the window in which all tasks ran, in seconds.
    pub window_s: f64,
    /// Number of windows that were averaged.
    pub repeats: u32,
    /// GPU utilisation meanwhile, if available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<GpuUse>,
}

wire_form!(ProfileSample, "mt.profile/1", "sample");

/// GPU utilisation from the moment its tasks were told to train until the end of the last window, as
/// NVML reports it. What the GPU or its driver cannot report is absent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GpuUse {
    /// Percentage of the time in which at least one kernel ran: "GPU utilisation".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub utilisation_percent: Option<f64>,
    /// Percentage of the time in which an SM had at least one warp, mean over SMs (Hopper and
    /// newer).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sm_active_percent: Option<f64>,
    /// Warps on an SM over the most that it can hold, mean over SMs and time, in percent (Hopper and
    /// newer).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sm_occupancy_percent: Option<f64>,
    /// Device memory in use at the end, by everybody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Device memory of the processes of each task at the end, in the order of `tasks`.
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
    /// Standard error of the throughput.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr_samples_per_s: Option<f64>,
    /// What the gradients of its steps say about the noise scale, where the training reports norms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gradient: Option<GradientNoise>,
    /// Time from the launch of the job until it trained, mean over its launches for this sample;
    /// absent if it was parked and only woken, or reports no progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub startup_s: Option<f64>,
    /// Time from launch to exit of a job that ended by itself, mean over such runs in this sample.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_s: Option<f64>,
    /// Samples of such a run, as the job reported them, or the task's `samples` if it reported
    /// none.
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
    /// The tasks that should have run together.
    pub tasks: Vec<Choice>,
    /// Why there is no measurement.
    pub reason: String,
    /// The kind of reason, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<FailureCause>,
    /// The task whose job caused it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// The last lines that this job printed, at most 2 KiB, without control characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
}

/// Why a job could not be measured.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum FailureCause {
    /// It ended with an exit code other than 0, or by a signal.
    Crash,
    /// It ended because Python could not import a module.
    Module,
    /// It ended because arguments were missing or unknown.
    Arguments,
    /// It could not be started.
    Program,
    /// It ran, but nothing in its output shows progress.
    Silent,
    /// It printed nothing within the time allowed for its start.
    Timeout,
    /// It trained and then reported no progress for too long.
    Stall,
    /// Out of memory.
    Memory,
    /// It trains for too short a time to be measured.
    Short,
    /// Anything else.
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
    /// Configurations measured.
    pub measured: u64,
    /// Configurations that failed.
    pub failed: u64,
    /// Device time that the measured windows took, in seconds.
    pub cost_s: f64,
    /// Why the profile ended.
    pub stopped: StopReason,
    /// Noise scales from the `gradient` of all samples; tasks whose norms do not suffice are absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub noise_scales: Vec<MeasuredNoiseScale>,
}

wire_form!(ProfileEnd, "mt.profile/1", "end");

/// Why profiling ended.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum StopReason {
    /// Every configuration of the design was measured.
    Complete,
    /// The budget was used up.
    Budget,
    /// The expected gain fell below the tolerance, or below the cost of another co-run.
    Tolerance,
    /// A task failed alone, so its co-runs cannot be compared with anything.
    Failure,
}
