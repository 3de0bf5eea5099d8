use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Job, Provenance, is_default, wire_form};

/// GPUs of several kinds, and the jobs that want them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "mt.cluster/1")]
pub struct Cluster {
    /// `mt.cluster/1`.
    pub schema: String,
    /// Name of the instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The GPUs.
    pub gpus: Vec<ClusterGpu>,
    /// The jobs.
    pub jobs: Vec<ClusterJob>,
    /// Which two jobs may train on one GPU at the same time, and at what rates; absent: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sharing: Vec<ClusterSharing>,
    /// Which tools made this document.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub provenance: Vec<Provenance>,
}

wire_form!(Cluster, "mt.cluster/1");

/// A GPU, or several of one kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClusterGpu {
    /// Name; absent: the type. Of several GPUs the names are `ID-0`, `ID-1`, ….
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Type: the key in the jobs' tables.
    #[serde(rename = "type")]
    pub kind: String,
    /// How many; absent: one, called by its name alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
    /// The machine that it is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Stable name of the device (of a single GPU), for launching.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// Device memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<f64>,
    /// Bytes per second between host and device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bus_bytes_per_s: Option<f64>,
}

/// A job: rounds of parallel tasks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClusterJob {
    /// Name.
    pub id: String,
    /// Weight of its completion time; absent: 1.
    #[serde(default = "one")]
    pub weight: f64,
    /// Arrival in seconds; absent: 0.
    #[serde(default)]
    pub arrival_s: f64,
    /// Rounds, one after another.
    pub rounds: u32,
    /// Tasks of a round, which may run at the same time.
    pub tasks_per_round: u32,
    /// Whether the tasks of a round run at the same time, each on a GPU of its own, at the pace of the
    /// slowest of these GPUs; absent: they may run one after another.
    #[serde(default, skip_serializing_if = "is_default")]
    pub gang: bool,
    /// Whether the GPUs of a gang are all of one node; absent: any GPUs.
    #[serde(default, skip_serializing_if = "is_default")]
    pub same_node: bool,
    /// Seconds that a task trains on a GPU of each type; a type that is absent cannot run it.
    pub train_s: BTreeMap<String, f64>,
    /// Seconds that its result then takes to synchronise, while the GPU is free; absent: 0.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sync_s: BTreeMap<String, f64>,
    /// Samples of a task, to take `train_s` from profiles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples_per_task: Option<f64>,
    /// Size of the model, copied to a GPU that switches to the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_bytes: Option<f64>,
    /// The model in groups of layers, in the order of the forward pass; absent: one group.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub layers: Vec<LayerGroup>,
    /// Device memory that a task needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<f64>,
    /// The program of a task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<Job>,
}

fn one() -> f64 {
    1.0
}

/// Two jobs of which a task each may train on one GPU of a type at the same time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClusterSharing {
    /// Names of the two jobs.
    pub jobs: [String; 2],
    /// GPU type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Rate of each while both train, relative to its rate alone, above 0 and at most 1.
    pub rates: [f64; 2],
}

/// Neighbouring layers that are copied together.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LayerGroup {
    /// Bytes of their parameters.
    pub bytes: f64,
    /// Seconds of their forward pass.
    pub compute_s: f64,
}
