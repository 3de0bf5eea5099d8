use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{DeviceKind, Provenance, wire_form};

/// The devices of a machine; one that is not usable has a reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "mt.devices/1")]
pub struct DeviceList {
    /// `mt.devices/1`.
    pub(crate) schema: String,
    /// GPUs first, then the processor, then what the simulator knows.
    pub devices: Vec<ListedDevice>,
    /// Models that a task can name, as `model` in a workload.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<String>,
    /// Which tools made this document.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub provenance: Vec<Provenance>,
}

wire_form!(DeviceList, "mt.devices/1");

/// One device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListedDevice {
    /// Kind, never `auto`.
    pub kind: DeviceKind,
    /// Name, for the simulator as `gpu` in a workload takes it.
    pub name: String,
    /// Whether tasks can be measured on it now.
    pub usable: bool,
    /// Why not, and what to do; absent if it is usable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What could not be determined although it may forbid sharing the device, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unverified: Option<String>,
    /// Units that shares are divided into: SMs or cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub units: Option<u32>,
    /// Device memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Device memory that is in use now, by everybody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_bytes: Option<u64>,
    /// Percentage of the last moments in which a kernel ran on the GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub utilisation_percent: Option<u32>,
    /// Stable name of a GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// Compute capability of a GPU, for example `9.0`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compute_capability: Option<String>,
    /// Version of the driver, if it reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// Highest CUDA version of the driver, for example `12.6`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cuda_version: Option<String>,
    /// Most MPS clients at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mps_clients: Option<u32>,
}
