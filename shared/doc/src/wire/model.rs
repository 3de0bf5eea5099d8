use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Aim, DeviceFingerprint, ModelParams, Provenance, Wire, Workload};

/// A fitted predictor of co-run throughput.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "mt.model/1")]
pub struct Model {
    /// `mt.model/1`.
    pub schema: String,
    /// What was profiled.
    pub workload: Workload,
    /// On what it was profiled.
    pub device: DeviceFingerprint,
    /// The predictor.
    pub predictor: ModelParams,
    /// What the configurations were chosen for, as the profile says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aim: Option<Aim>,
    /// Which tools made this document.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub provenance: Vec<Provenance>,
}

impl Wire for Model {
    const SCHEMA: &'static str = "mt.model/1";
}
