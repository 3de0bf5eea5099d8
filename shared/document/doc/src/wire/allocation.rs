use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Provenance, wire_form};

/// A decision: how many GPUs each training gets; one per line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "mt.allocation/1")]
pub struct Allocation {
    /// `mt.allocation/1`.
    pub schema: String,
    /// Number of the decision, from 1, increasing. The program that carries out decisions reports with an `ack` event
    /// which one it has applied; a decision older than the last applied one must be ignored.
    pub seq: u64,
    /// When it was made: the time of the event that led to it, in seconds.
    pub time_s: f64,
    /// GPUs of the machine.
    pub total_gpus: u32,
    /// GPUs of every training; 0: parked.
    pub gpus: BTreeMap<String, u32>,
    /// Batch size of every process of a training, rank 0 first; absent if unknown.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub batches: BTreeMap<String, Vec<u64>>,
    /// Trainings that have reached their target: they have no GPUs, and need none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reached: Vec<String>,
    /// Why, for people.
    pub reason: String,
    /// Expected gain in the objective over keeping the current allocation, in seconds, less the
    /// pauses; absent if it cannot be estimated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gain_s: Option<f64>,
    /// The gain if the trainings are as long, or as short, as their quantiles allow, whichever is
    /// less.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gain_low_s: Option<f64>,
    /// The larger of the two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gain_high_s: Option<f64>,
    /// Expected pause of a training when its processes change, in seconds.
    pub pause_s: f64,
    /// When every training is expected to be done; absent if that cannot be estimated.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub expected: BTreeMap<String, Expected>,
    /// Which tools made this document.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub provenance: Vec<Provenance>,
}

wire_form!(Allocation, "mt.allocation/1");

/// When a training is expected to be done, in seconds on the clock of the events.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    /// With the median of its remaining steps.
    pub end_s: f64,
    /// With the 5 % quantile.
    pub low_s: f64,
    /// With the 95 % quantile.
    pub high_s: f64,
}
