use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ClusterJob, wire_form};

/// What a live system reports to a scheduler about its jobs, one event per line. [`QueueEventKind`]
/// says which optional fields each event has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "mt.queue/1")]
pub struct QueueEvent {
    /// `mt.queue/1`; may be left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
    /// What happened.
    pub event: QueueEventKind,
    /// Seconds on a clock of the writer's choice.
    pub time_s: f64,
    /// Name of the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// A job that the cluster does not have, as in `mt.cluster/1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<ClusterJob>,
    /// Round of the task, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round: Option<u32>,
    /// Which of the round's tasks it is, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<u32>,
    /// Name of the GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<String>,
    /// Weight of the job from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<f64>,
    /// Remaining rounds of the job, including the current one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounds_left: Option<u32>,
    /// Training time of its tasks from now on, in seconds by GPU type; types that are not named keep
    /// their time.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub train_s: BTreeMap<String, f64>,
    /// When the job should be complete, in seconds on the clock of the events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_s: Option<f64>,
}

wire_form!(QueueEvent, "mt.queue/1");

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum QueueEventKind {
    /// A job has arrived, or will arrive at its `arrival_s`: `job` is one of the cluster, or `spec` a
    /// new one.
    Arrival,
    /// A task has been started: `job`, `round`, `task`, `gpu`.
    Started,
    /// It has trained, and its GPU is free: `job`, `round`, `task`.
    Trained,
    /// It is synchronised; its GPU is free, if it was not before: `job`, `round`, `task`.
    Finished,
    /// It has failed and must be started again (for a gang, the whole round): `job`, `round`,
    /// `task`.
    Failed,
    /// A job is given up: `job`.
    Cancelled,
    /// A GPU must no longer be used, and the task on it must be started again: `gpu`.
    Lost,
    /// It can be used again: `gpu`.
    Found,
    /// Time has passed.
    Time,
    /// A job has another weight: `job`, `weight`.
    Weight,
    /// New estimate of how long a job takes: `job`, and `rounds_left`, `train_s`, or both.
    Estimate,
    /// A job should be complete by a given time: `job`, `deadline_s`; without it the deadline is
    /// removed.
    Deadline,
    /// Requests the status: what runs, what waits and why, and when it will end.
    Status,
}

/// A task that a live system should start now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "mt.start/1")]
pub struct QueueStart {
    /// `mt.start/1`.
    pub schema: String,
    /// Seconds on the clock of the events.
    pub time_s: f64,
    /// Name of the job.
    pub job: String,
    /// Round, from 0.
    pub round: u32,
    /// Task of the round, from 0.
    pub task: u32,
    /// Name of the GPU.
    pub gpu: String,
    /// The machine that it is in, where the cluster says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
}

wire_form!(QueueStart, "mt.start/1");

/// Status of a cluster's jobs at a given time, with the expected completion of each.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "mt.status/1")]
pub struct ClusterStatus {
    /// `mt.status/1`.
    pub schema: String,
    /// Seconds on the clock of the events, or since the launch.
    pub time_s: f64,
    /// GPUs that must not be used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<String>,
    /// The jobs, in order of their arrivals.
    pub jobs: Vec<JobStatus>,
}

wire_form!(ClusterStatus, "mt.status/1");

/// Status of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JobStatus {
    /// Name of the job.
    pub job: String,
    /// Whether it runs.
    pub state: JobState,
    /// Its weight.
    pub weight: f64,
    /// Rounds that are complete.
    pub rounds_done: u32,
    /// Rounds that it has.
    pub rounds: u32,
    /// Its tasks under way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub running: Vec<TaskStatus>,
    /// Why it waits, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<String>,
    /// When its next task is expected to start, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_start_s: Option<f64>,
    /// On which GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_gpu: Option<String>,
    /// When it is expected to be complete or, once complete, when it was. Absent if no GPU can run it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_s: Option<f64>,
    /// In nineteen of twenty cases it ends later, judging by how far durations have deviated from
    /// expectations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_low_s: Option<f64>,
    /// In nineteen of twenty cases it ends earlier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_high_s: Option<f64>,
    /// When it should be complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_s: Option<f64>,
}

/// A task under way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskStatus {
    /// Which of the round's tasks it is, from 0.
    pub task: u32,
    /// Name of its GPU.
    pub gpu: String,
    /// Whether it trains; otherwise it synchronises, and its GPU is free.
    pub trains: bool,
}

/// State of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// Tasks of it are under way.
    Running,
    /// It waits.
    Waiting,
    /// It is complete.
    Done,
    /// It was cancelled or given up.
    Cancelled,
}

impl JobState {
    /// The word for it in documents.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Done => "done",
            Self::Cancelled => "cancelled",
        }
    }
}
