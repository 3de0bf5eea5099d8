use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ClusterJob, wire_form};

/// An event that a live system reports to a scheduler about its jobs. A stream has one event per
/// line. [`QueueEventKind`] says which optional fields each event has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "mt.queue/1")]
pub struct QueueEvent {
    /// `mt.queue/1`; may be absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
    /// Kind of event.
    pub event: QueueEventKind,
    /// Time of the event in seconds, on a clock of the writer's choice.
    pub time_s: f64,
    /// Name of the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// A job that is not in the cluster document, in the form that it has in `mt.cluster/1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<ClusterJob>,
    /// Number of the round, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round: Option<u32>,
    /// Number of the task in its round, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<u32>,
    /// Name of the GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<String>,
    /// New weight of the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<f64>,
    /// Number of remaining rounds of the job, including the current one; absent: not changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounds_left: Option<u32>,
    /// New training time of the tasks of the job in seconds, by type of GPU. The time on types that
    /// are not named does not change.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub train_s: BTreeMap<String, f64>,
    /// Time by which the job should be complete, in seconds on the clock of the events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_s: Option<f64>,
}

wire_form!(QueueEvent, "mt.queue/1");

/// Kind of event that a live system reports. The text of each kind ends with the fields that the
/// event has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum QueueEventKind {
    /// A job has arrived, or will arrive at its `arrival_s`: `job` names a job of the cluster, or
    /// `spec` describes a new one.
    Arrival,
    /// A task has been started: `job`, `round`, `task`, `gpu`.
    Started,
    /// A task has finished training, and its GPU is free: `job`, `round`, `task`.
    Trained,
    /// A task has synchronised its result; its GPU is free, if it was not before: `job`, `round`,
    /// `task`.
    Finished,
    /// A task has failed and must be started again (for a gang, the whole round): `job`, `round`,
    /// `task`.
    Failed,
    /// A job is abandoned: `job`.
    Cancelled,
    /// A GPU must no longer be used, and the task on it must be started again: `gpu`.
    Lost,
    /// A lost GPU can be used again: `gpu`.
    Found,
    /// Nothing happened except that time has passed.
    Time,
    /// The weight of a job has changed: `job`, `weight`.
    Weight,
    /// There is a new estimate of how long a job takes: `job`, and `rounds_left`, `train_s`, or
    /// both.
    Estimate,
    /// The deadline of a job has changed: `job`, `deadline_s`. Without `deadline_s`, the deadline
    /// is removed.
    Deadline,
    /// Requests the status: which jobs run, which ones wait and why, and when they are expected to
    /// end.
    Status,
}

/// A task that a live system should start now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "mt.start/1")]
pub struct QueueStart {
    /// `mt.start/1`.
    pub schema: String,
    /// Time of the start, in seconds on the clock of the events.
    pub time_s: f64,
    /// Name of the job.
    pub job: String,
    /// Number of the round, from 0.
    pub round: u32,
    /// Number of the task in its round, from 0.
    pub task: u32,
    /// Name of the GPU.
    pub gpu: String,
    /// Name of the machine that holds the GPU; absent if the cluster document does not give it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
}

wire_form!(QueueStart, "mt.start/1");

/// Status of a cluster's jobs at a given time, with the expected completion time of each.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "mt.status/1")]
pub struct ClusterStatus {
    /// `mt.status/1`.
    pub schema: String,
    /// Time of the status, in seconds on the clock of the events or since the launch.
    pub time_s: f64,
    /// Names of the GPUs that must not be used at present.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<String>,
    /// Status of each job, in order of arrival.
    pub jobs: Vec<JobStatus>,
}

wire_form!(ClusterStatus, "mt.status/1");

/// Status of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JobStatus {
    /// Name of the job.
    pub job: String,
    /// State of the job: running, waiting, done or cancelled.
    pub state: JobState,
    /// Weight of the completion time of the job.
    pub weight: f64,
    /// Number of rounds that are complete.
    pub rounds_done: u32,
    /// Total number of rounds.
    pub rounds: u32,
    /// Tasks of the job that are running.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub running: Vec<TaskStatus>,
    /// Reason why the job waits, for people; absent unless it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<String>,
    /// Time at which its next task is expected to start, in seconds; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_start_s: Option<f64>,
    /// Name of the GPU on which its next task is expected to start; absent if `next_start_s` is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_gpu: Option<String>,
    /// Time at which the job is expected to be complete or, once it is complete, was completed, in
    /// seconds. Absent if no GPU can run it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_s: Option<f64>,
    /// 5 % quantile of the end, in seconds: the job ends later in nineteen of twenty cases, judging
    /// by how far durations have deviated from expectations so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_low_s: Option<f64>,
    /// 95 % quantile of the end, in seconds: the job ends earlier in nineteen of twenty cases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_high_s: Option<f64>,
    /// Time by which the job should be complete, in seconds; absent: no deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_s: Option<f64>,
}

/// A task that is running.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskStatus {
    /// Number of the task in its round, from 0.
    pub task: u32,
    /// Name of its GPU.
    pub gpu: String,
    /// Whether it trains. If false, it synchronises its result, and its GPU is free.
    pub trains: bool,
}

/// State of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// Some of its tasks are running.
    Running,
    /// The job waits.
    Waiting,
    /// The job is complete.
    Done,
    /// The job was cancelled or abandoned.
    Cancelled,
}

impl JobState {
    /// Name of the state in documents.
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
