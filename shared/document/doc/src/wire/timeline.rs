use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Plan, Provenance, Search, wire_form};

/// Order of transfers and compute in one round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "mt.timeline/1")]
pub struct Timeline {
    /// `mt.timeline/1`.
    pub schema: String,
    /// Name of the device or client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Kind of compute rates that were used.
    pub rates: RatesKind,
    /// Whether uploads had to keep the order of the downloads (FedMT Algorithm 1); a proof then
    /// covers only rounds with one order. Absent: false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub single_order: bool,
    /// Names of the tasks in the order of their downloads.
    pub download_order: Vec<String>,
    /// Names of the tasks in the order of their uploads.
    pub upload_order: Vec<String>,
    /// Phases that are held back although they could start, because another task then runs faster;
    /// absent: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub holds: Vec<Hold>,
    /// Batch sizes that were chosen or are known, in the order of the plan's tasks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub batches: Vec<TaskBatch>,
    /// Every phase of every task, by start time.
    pub phases: Vec<Phase>,
    /// End of the last phase, in seconds.
    pub makespan_s: f64,
    /// Lower bound of the makespan in seconds: no schedule is faster, with or without idling.
    pub lower_bound_s: f64,
    /// `makespan_s / lower_bound_s - 1`.
    pub gap: f64,
    /// Whether it is proven that no schedule of the class `proven_among` is faster. If the class
    /// has only schedules that never wait, this is false for every round that waits. In the other
    /// classes, the round may wait in more ways than the schedules that it was compared with.
    pub proven: bool,
    /// Class of schedules that the proof covers; absent if nothing is proven.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proven_among: Option<ScheduleClass>,
    /// Makespan in seconds without overlap: all downloads, then all compute, then all uploads.
    pub overlap_off_s: f64,
    /// Search that found the order.
    pub search: Search,
    /// Plan whose round this is.
    pub plan: Plan,
    /// Tools that made this document, in the order in which they ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub provenance: Vec<Provenance>,
}

wire_form!(Timeline, "mt.timeline/1");

/// Kind of compute rates that a timeline uses.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum RatesKind {
    /// Rates that a model predicts for every set of active tasks.
    Model,
    /// Rates from the table of the plan.
    Table,
    /// Each task always has its rate with all tasks active (FedMT Algorithm 1).
    Fixed,
}

/// Class of schedules that a proof covers. Each class contains the previous one.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum ScheduleClass {
    /// Nothing waits: a transfer starts as soon as it is next in the order and the link is free,
    /// and compute as soon as its download ends.
    NeverWaiting,
    /// In addition, the compute of a task may be held until the compute of a task that was
    /// downloaded earlier ends.
    Waiting,
    /// In addition, on a full-duplex link, all transfers may go one at a time: each waits for the
    /// previous one, in either direction. These are the rounds of a half-duplex link.
    Alternating,
    /// Any schedule, with any idling of links and processor.
    Any,
}

/// A phase of a task that is held back until a phase of another task ends, given by the one
/// `until_` field that is present. It starts then, or later if it cannot start yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Hold {
    /// Name of the task.
    pub task: String,
    /// Phase that is held; absent: `compute`.
    #[serde(default = "compute", skip_serializing_if = "is_compute")]
    pub phase: PhaseKind,
    /// Name of the task whose download must end first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_downloaded: Option<String>,
    /// Name of the task whose compute must end first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_computed: Option<String>,
    /// Name of the task whose upload must end first.
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
    /// Kind of phase.
    pub phase: PhaseKind,
    /// Start, in seconds from the start of the round.
    pub start_s: f64,
    /// End, in seconds from the start of the round.
    pub end_s: f64,
}

/// The three phases of a task in a round.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum PhaseKind {
    /// The task fetches the model.
    Download,
    /// The task trains.
    Compute,
    /// The task sends its update.
    Upload,
}
