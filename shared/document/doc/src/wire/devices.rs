use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{DeviceKind, Provenance, wire_form};

/// The devices of a machine. A device that cannot be used has a reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "mt.devices/1")]
pub struct DeviceList {
    /// `mt.devices/1`.
    pub(crate) schema: String,
    /// Devices: GPUs first, then the processor, then the GPUs of the simulator.
    pub devices: Vec<ListedDevice>,
    /// Names of the models that `model` in a workload may name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<String>,
    /// Tools that made this document, in the order in which they ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub provenance: Vec<Provenance>,
}

wire_form!(DeviceList, "mt.devices/1");

/// One device of the machine or of the simulator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListedDevice {
    /// Kind of device, never `auto`.
    pub kind: DeviceKind,
    /// Name of the device; for a GPU of the simulator, the value of `gpu` in a workload.
    pub name: String,
    /// Whether tasks can be measured on it now.
    pub usable: bool,
    /// Reason why it is not usable, and what to do; absent if it is usable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Conditions that may forbid sharing the device but could not be checked, and the reason;
    /// absent if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unverified: Option<String>,
    /// Number of units that shares are divided into: SMs or cores; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub units: Option<u32>,
    /// Device memory in bytes; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Device memory in bytes that all processes use at present; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_bytes: Option<u64>,
    /// Percentage of the recent past in which a kernel ran on the GPU; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub utilisation_percent: Option<u32>,
    /// Stable name (UUID) of a GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// Compute capability of a GPU, for example `9.0`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compute_capability: Option<String>,
    /// Version of the driver; absent if the driver does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// Highest CUDA version that the driver supports, for example `12.6`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cuda_version: Option<String>,
    /// Maximum number of MPS clients at the same time; absent if the device cannot be shared under
    /// MPS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mps_clients: Option<u32>,
}
