use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ClusterJob, wire_form};

/// What a live system tells a scheduler of its jobs, one event a line. Which optional fields an
/// event has is said with each [`QueueEventKind`].
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
}

wire_form!(QueueEvent, "mt.queue/1");

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum QueueEventKind {
    /// A job is there, or will be at its `arrival_s`: `job` is one of the cluster, or `spec` a new one.
    Arrival,
    /// A task has been started: `job`, `round`, `task`, `gpu`.
    Started,
    /// It has trained, and its GPU is free: `job`, `round`, `task`.
    Trained,
    /// It is synchronised; its GPU is free, if it was not before: `job`, `round`, `task`.
    Finished,
    /// It has failed, and is to be started again, of a gang the whole round: `job`, `round`, `task`.
    Failed,
    /// A job is given up: `job`.
    Cancelled,
    /// A GPU is not to be used any more, and what trains there is to be started again: `gpu`.
    Lost,
    /// It can be used again: `gpu`.
    Found,
    /// Time has passed.
    Time,
}

/// A task that a live system is to start now.
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
