use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Plan, Provenance, Search, wire_form};

/// The order of transfers and compute of one round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "mt.timeline/1")]
pub struct Timeline {
    /// `mt.timeline/1`.
    pub schema: String,
    /// Name of the device or client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Which compute rates were used.
    pub rates: RatesKind,
    /// Uploads had to keep the order of the downloads (FedMT Algorithm 1): a proof covers only such
    /// rounds.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub single_order: bool,
    /// Names of the tasks in the order of their downloads.
    pub download_order: Vec<String>,
    /// Names of the tasks in the order of their uploads.
    pub upload_order: Vec<String>,
    /// Phases that are held back although they could start, because another task then runs faster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub holds: Vec<Hold>,
    /// Batch sizes, where they were varied or known, in the order of the plan's tasks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub batches: Vec<TaskBatch>,
    /// Every phase of every task, by start time.
    pub phases: Vec<Phase>,
    /// End of the last phase in seconds.
    pub makespan_s: f64,
    /// Lower bound in seconds: no schedule can be faster, whatever idling it has.
    pub lower_bound_s: f64,
    /// `makespan_s / lower_bound_s - 1`.
    pub gap: f64,
    /// Whether no schedule of the class `proven_among` is faster. Never of a plan that waits if the
    /// class has only schedules that never wait; in the other classes, the plan may wait for more
    /// than the schedules that it was compared with.
    pub proven: bool,
    /// The schedules that the proof is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proven_among: Option<ScheduleClass>,
    /// Makespan without overlap: all downloads, then all compute, then all uploads, in seconds.
    pub overlap_off_s: f64,
    /// How the order was found.
    pub search: Search,
    /// The plan.
    pub plan: Plan,
    /// Which tools made this document.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub provenance: Vec<Provenance>,
}

wire_form!(Timeline, "mt.timeline/1");

/// Which compute rates a timeline uses.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum RatesKind {
    /// Predicted for every set of active tasks.
    Model,
    /// The plan's table.
    Table,
    /// The rate with all tasks active, always (FedMT Algorithm 1).
    Fixed,
}

/// Classes of schedules that a proof covers; each contains the one before.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum ScheduleClass {
    /// Nothing waits: a transfer starts when it is its turn and the link is free, compute as soon
    /// as its download ends.
    NeverWaiting,
    /// In addition, the compute of a task may be held until the compute of a task that was
    /// downloaded earlier ends.
    Waiting,
    /// In addition, on a full-duplex link, all transfers may go one at a time: each waits for the
    /// one before it, in either direction. These are the rounds of a half-duplex link.
    Alternating,
    /// Any schedule, with any idling of links and processor.
    Any,
}

/// A phase of a task that is held back. It starts at the end of a phase of another task, given by
/// the one `until_` field that is present, or when it could start anyway if that is later.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Hold {
    /// Name of the task.
    pub task: String,
    /// Which of its phases is held; absent: its compute.
    #[serde(default = "compute", skip_serializing_if = "is_compute")]
    pub phase: PhaseKind,
    /// Until the end of this task's download.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_downloaded: Option<String>,
    /// Until the end of this task's compute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_computed: Option<String>,
    /// Until the end of this task's upload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_uploaded: Option<String>,
}

fn compute() -> PhaseKind {
    PhaseKind::Compute
}

fn is_compute(kind: &PhaseKind) -> bool {
    *kind == PhaseKind::Compute
}

/// Batch size of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskBatch {
    /// Name of the task.
    pub id: String,
    /// Batch size.
    pub batch: u64,
}

/// One phase of one task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// Name of the task.
    pub task: String,
    /// Which phase.
    pub phase: PhaseKind,
    /// Start in seconds from the start of the round.
    pub start_s: f64,
    /// End in seconds from the start of the round.
    pub end_s: f64,
}

/// The three phases of a task in a round.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum PhaseKind {
    /// Fetch the model.
    Download,
    /// Train.
    Compute,
    /// Send the update.
    Upload,
}
