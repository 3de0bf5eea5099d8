use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Aim, DeviceFingerprint, MeasuredTask, ModelParams, Provenance, Workload, wire_form};

/// A fitted predictor of co-run throughput.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "mt.model/1")]
pub struct Model {
    /// `mt.model/1`.
    pub schema: String,
    /// What was profiled.
    pub workload: Workload,
    /// The profiled workload.
    pub device: DeviceFingerprint,
    /// The predictor.
    pub predictor: ModelParams,
    /// What the configurations were chosen for, as the profile says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aim: Option<Aim>,
    /// Measured co-runs of all tasks that a plan may choose from, besides predictions (if there are
    /// many, only the best); and runs of some of the tasks at the same batch sizes, which show how
    /// a round continues when a task has ended. Absent in models that do not say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub measured: Vec<Corun>,
    /// Which tools made this document.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub provenance: Vec<Provenance>,
}

wire_form!(Model, "mt.model/1");

/// A measured run of all tasks of a workload or of a part of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Corun {
    /// Number of the configuration in the profile.
    pub config: u64,
    /// Settings and throughput of each task that ran, in the order of the workload.
    pub tasks: Vec<MeasuredTask>,
}
