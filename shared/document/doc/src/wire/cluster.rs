use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Job, Provenance, is_default, wire_form};

/// GPUs of several types, and the jobs to run on them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "mt.cluster/1")]
pub struct Cluster {
    /// `mt.cluster/1`.
    pub schema: String,
    /// Name of the instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// GPUs of the cluster.
    pub gpus: Vec<ClusterGpu>,
    /// Jobs to run on the GPUs.
    pub jobs: Vec<ClusterJob>,
    /// Pairs of jobs that may train on one GPU at the same time, and their rates; absent: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sharing: Vec<ClusterSharing>,
    /// Tools that made this document, in the order in which they ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub provenance: Vec<Provenance>,
}

wire_form!(Cluster, "mt.cluster/1");

/// A GPU, or several GPUs of one type.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClusterGpu {
    /// Name; absent: the type. If `count` is given, the GPUs are named `ID-0`, `ID-1`, ….
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Type of GPU, a key of the tables `train_s` and `sync_s` of the jobs.
    #[serde(rename = "type")]
    pub kind: String,
    /// Number of GPUs; absent: one, whose name has no number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
    /// Name of the machine that holds the GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Stable name (UUID) of the device, used to launch on it; only for a single GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// Device memory in bytes; absent: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<f64>,
    /// Bandwidth between host and device, in bytes per second; absent: copies take no time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bus_bytes_per_s: Option<f64>,
}

/// A job, which consists of rounds of parallel tasks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClusterJob {
    /// Name of the job.
    pub id: String,
    /// Weight of the completion time of the job in the objective; absent: 1.
    #[serde(default = "one")]
    pub weight: f64,
    /// Time at which the job arrives, in seconds; absent: 0.
    #[serde(default)]
    pub arrival_s: f64,
    /// Number of rounds, which run one after another.
    pub rounds: u32,
    /// Number of tasks in a round. They may run at the same time.
    pub tasks_per_round: u32,
    /// Whether the tasks of a round must run at the same time, each on its own GPU, at the pace of
    /// the slowest of these GPUs; absent: false, so that they may run one after another.
    #[serde(default, skip_serializing_if = "is_default")]
    pub gang: bool,
    /// Whether the GPUs of a gang must all be in one node; absent: false, so that any GPUs will do.
    #[serde(default, skip_serializing_if = "is_default")]
    pub same_node: bool,
    /// Training time of a task in seconds, by type of GPU. The job cannot run on types that are
    /// absent.
    pub train_s: BTreeMap<String, f64>,
    /// Time in seconds, by type of GPU, to synchronise the result of a task after training, while
    /// its GPU is already free; absent: 0.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sync_s: BTreeMap<String, f64>,
    /// Number of samples that a task trains on, from which profiles give `train_s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples_per_task: Option<f64>,
    /// Size in bytes of the model, which is copied to a GPU when the GPU switches to this job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_bytes: Option<f64>,
    /// Groups of layers of the model, in the order of the forward pass; absent: one group.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub layers: Vec<LayerGroup>,
    /// Device memory in bytes that a task needs; absent: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<f64>,
    /// Training program of a task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<Job>,
}

fn one() -> f64 {
    1.0
}

/// Two jobs that may share a GPU of one type: one task of each may train on it at the same time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClusterSharing {
    /// Names of the two jobs.
    pub jobs: [String; 2],
    /// Type of GPU.
    #[serde(rename = "type")]
    pub kind: String,
    /// Rate of each job while both train, relative to its rate alone: above 0 and at most 1, in the
    /// order of `jobs`.
    pub rates: [f64; 2],
}

/// Consecutive layers that are copied together.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LayerGroup {
    /// Size of their parameters in bytes.
    pub bytes: f64,
    /// Time of their forward pass in seconds.
    pub compute_s: f64,
}
