use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use units::{MOST, Seconds, TaskId, Weight};

use crate::event::News;
use crate::wire::{self, Wire as _, wire_form};
use crate::{Checker, ClusterJob, Code, Document, Event, cluster};

/// An event that a live system reports to a scheduler about its jobs.
pub type QueueEvent = Event<QueueNews>;

wire_form!(QueueEvent, "mt.queue/1", ranges);

/// An event that a live system reports to a scheduler about its jobs. A stream has one event per line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum QueueNews {
    /// A job has arrived, or will arrive at its `arrival_s`: `job` names a job of the cluster, or `spec`
    /// describes a new one.
    Arrival(QueueArrival),
    /// A task has been started.
    Started {
        /// The task.
        #[serde(flatten)]
        task: QueueTask,
        /// Name of the GPU.
        gpu: String,
    },
    /// A task has finished training, and its GPU is free.
    Trained(QueueTask),
    /// A task has synchronised its result; its GPU is free, if it was not before.
    Finished(QueueTask),
    /// A task has failed and must be started again (for a gang, the whole round).
    Failed(QueueTask),
    /// A job is abandoned.
    Cancelled {
        /// Name of the job.
        job: TaskId,
    },
    /// A GPU must no longer be used, and the task on it must be started again.
    Lost {
        /// Name of the GPU.
        gpu: String,
    },
    /// A lost GPU can be used again.
    Found {
        /// Name of the GPU.
        gpu: String,
    },
    /// Nothing happened except that time has passed.
    Time,
    /// The weight of a job has changed.
    Weight {
        /// Name of the job.
        job: TaskId,
        /// New weight of the job.
        weight: Weight,
    },
    /// There is a new estimate of how long a job takes: `rounds_left`, `train_s`, or both.
    Estimate {
        /// Name of the job.
        job: TaskId,
        /// The estimate.
        #[serde(flatten)]
        estimate: QueueEstimate,
    },
    /// The deadline of a job has changed.
    Deadline {
        /// Name of the job.
        job: TaskId,
        /// Time by which the job should be complete, in seconds on the clock of the events; absent: no deadline.
        #[serde(
            default,
            rename = "deadline_s",
            skip_serializing_if = "Option::is_none"
        )]
        at: Option<Seconds>,
    },
    /// Requests the status: which jobs run, which ones wait and why, and when they are expected to end.
    Status,
}

/// The job that has arrived: either its name or the whole job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct QueueArrival {
    /// Name of a job of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<TaskId>,
    /// A job that is not in the cluster document, in the form that it has in `mt.cluster/1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    spec: Option<Box<wire::ClusterJob>>,
}

impl QueueArrival {
    /// The job that is not in the cluster document, if it is such a job.
    #[must_use]
    pub fn spec(&self) -> Option<ClusterJob> {
        let spec = self.spec.as_ref()?;
        // Reading has found it sound.
        cluster::job(spec, &mut Checker::default())
    }
}

/// New estimate of how long a job takes; at least one of the two fields is given.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct QueueEstimate {
    /// Number of remaining rounds of the job, including the current one; absent: not changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1), extend("$comment" = "give 1 or more, or cancel the job"))]
    pub rounds_left: Option<u32>,
    /// New training time of the tasks of the job in seconds, by type of GPU. The time on types that are not named
    /// does not change.
    #[serde(
        default,
        rename = "train_s",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    #[schemars(schema_with = "training_times")]
    pub train: BTreeMap<String, Seconds>,
}

fn training_times(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "additionalProperties": {
            "type": "number",
            "title": "training time",
            "description": "a number of seconds above 0, at most 1e30",
            "exclusiveMinimum": 0,
            "maximum": MOST,
        },
    })
}

/// A task of a round of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct QueueTask {
    /// Name of the job.
    pub job: TaskId,
    /// Number of the round, from 0.
    pub round: u32,
    /// Number of the task in its round, from 0.
    pub task: u32,
}

impl News for QueueNews {
    fn check(&self, c: &mut Checker) {
        match self {
            Self::Arrival(arrival) => {
                if arrival.job.is_some() == arrival.spec.is_some() {
                    c.field("job", |c| {
                        let problem = "an arrival has either `job` or `spec`";
                        let advice =
                            "give the name of a job of the cluster, or a whole job as `spec`";
                        c.fault(Code::Conflict, problem, advice);
                    });
                }
                if let Some(spec) = &arrival.spec {
                    c.field("spec", |c| cluster::job(spec, c));
                }
            }
            Self::Estimate { estimate, .. } if *estimate == QueueEstimate::default() => {
                c.field("rounds_left", |c| {
                    let problem = "an estimate says nothing";
                    let advice = "give `rounds_left`, `train_s`, or both";
                    c.fault(Code::MissingField, problem, advice);
                });
            }
            _ => {}
        }
    }
}

/// A task that a live system should start now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QueueStart {
    /// `mt.start/1`.
    schema: String,
    /// Time of the start, in seconds on the clock of the events.
    #[serde(rename = "time_s")]
    pub time: Seconds,
    /// The task to start.
    #[serde(flatten)]
    pub task: QueueTask,
    /// Name of the GPU.
    pub gpu: String,
    /// Name of the machine that holds the GPU; absent if the cluster document does not give it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
}

wire_form!(QueueStart, "mt.start/1", ranges);

impl QueueStart {
    /// The start of `task` on the GPU of this name, which `node` holds.
    #[must_use]
    pub fn new(time: Seconds, task: QueueTask, gpu: String, node: Option<String>) -> Self {
        Self {
            schema: Self::SCHEMA.to_owned(),
            time,
            task,
            gpu,
            node,
        }
    }
}

impl Document for QueueStart {
    type Wire = Self;

    fn from_wire(wire: &Self, _: &mut Checker) -> Option<Self> {
        Some(wire.clone())
    }

    fn to_wire(&self) -> Self {
        self.clone()
    }
}
