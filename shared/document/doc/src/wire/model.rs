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
    /// The profiled workload.
    pub workload: Workload,
    /// The device on which the workload was profiled.
    pub device: DeviceFingerprint,
    /// The predictor.
    pub predictor: ModelParams,
    /// Objective that the profiled configurations were chosen for; absent if they were not chosen
    /// for a plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aim: Option<Aim>,
    /// Measured co-runs of all tasks, from which a plan may choose in addition to predicted ones
    /// (if there are many, only the best), and measured runs of some of the tasks at the same batch
    /// sizes, which show how a round continues after a task has ended. Absent in models that do not
    /// contain measurements.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub measured: Vec<Corun>,
    /// Tools that made this document, in the order in which they ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub provenance: Vec<Provenance>,
}

wire_form!(Model, "mt.model/1");

/// A measured run of all or some tasks of a workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Corun {
    /// Number of the configuration in the profile.
    pub config: u64,
    /// Settings and throughput of each task that ran, in the order of the workload.
    pub tasks: Vec<MeasuredTask>,
}
