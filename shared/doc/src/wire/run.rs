use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{DeviceFingerprint, PhaseKind, Plan, Provenance, Timeline, Wire};

/// One event of a launched run. Which optional fields an event has is said with each
/// [`EventKind`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "mt.run/1")]
pub struct RunEvent {
    /// `mt.run/1`.
    pub schema: String,
    /// What happened.
    pub event: EventKind,
    /// Seconds since the launch.
    pub time_s: f64,
    /// Round, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round: Option<u32>,
    /// Name of the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// Batch size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<u64>,
    /// Share in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_percent: Option<f64>,
    /// Process id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Samples trained on since the start of the task's phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples: Option<u64>,
    /// Throughput in samples per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples_per_s: Option<f64>,
    /// Predicted throughput in samples per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted_samples_per_s: Option<f64>,
    /// Training loss that the job reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
    /// Which phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<PhaseKind>,
    /// Start of a phase in seconds from the start of the round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_s: Option<f64>,
    /// End of a phase in seconds from the start of the round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_s: Option<f64>,
    /// Exit code of a process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    /// Signal that ended a process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// How often the task has been restarted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restarts: Option<u32>,
    /// Why, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether the whole run (or round) succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ok: Option<bool>,
    /// Makespan of the round, or of the run, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub makespan_s: Option<f64>,
    /// Makespan that the timeline promised, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planned_makespan_s: Option<f64>,
    /// What became of each task.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<TaskSummary>,
    /// What the run is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<DeviceFingerprint>,
    /// The timeline that is followed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeline: Option<Box<Timeline>>,
    /// The plan, where there is no timeline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Box<Plan>>,
    /// Which tools made this document.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub provenance: Vec<Provenance>,
}

impl Wire for RunEvent {
    const SCHEMA: &'static str = "mt.run/1";
}

/// What happened in a run.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum EventKind {
    /// The launcher began: `device`, `timeline` or `plan`, `provenance`. First event of a run.
    Launch,
    /// A job was started: `round task batch share_percent pid`.
    Start,
    /// A job is warm: `round task`.
    Ready,
    /// A job trained: `round task samples`, `samples_per_s`, `loss`.
    Progress,
    /// A phase ended: `round task phase start_s end_s`.
    Phase,
    /// A process ended: `round task`, `phase`, `code` or `signal`.
    Exit,
    /// A job is about to be started again: `round task restarts reason`.
    Restart,
    /// Something changed the shares of the rest: `round task share_percent reason`.
    Reshare,
    /// The plan of the next round was made anew: `round reason`, `plan` or `timeline`.
    Replan,
    /// Something stopped a task or the run: `reason`, `task`.
    Stop,
    /// A device fault was met: `reason`.
    Fault,
    /// A round ended: `round ok makespan_s planned_makespan_s tasks`.
    Round,
    /// The launcher ended: `ok makespan_s tasks`. Last event of a run.
    Summary,
}

/// What became of a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskSummary {
    /// Name of the task.
    pub id: String,
    /// Whether it trained on all its samples.
    pub finished: bool,
    /// Samples trained on.
    pub samples: u64,
    /// Mean throughput while all tasks computed, samples per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples_per_s: Option<f64>,
    /// Predicted throughput while all tasks compute, samples per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted_samples_per_s: Option<f64>,
    /// First and last loss reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_loss: Option<f64>,
    /// Last loss reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_loss: Option<f64>,
    /// Restarts.
    pub restarts: u32,
    /// Exit code of the last process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    /// Signal that ended the last process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
}
