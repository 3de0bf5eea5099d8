use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::wire_form;

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
