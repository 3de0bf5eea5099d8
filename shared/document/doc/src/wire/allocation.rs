use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Provenance, wire_form};

/// A decision on the number of GPUs of each training. A stream has one decision per line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "mt.allocation/1")]
pub struct Allocation {
    /// `mt.allocation/1`.
    pub schema: String,
    /// Number of the decision, from 1, increasing. The program that carries out the decisions reports the number of an
    /// applied decision with an `ack` event. It must ignore any decision older than the last one that it applied.
    pub seq: u64,
    /// Time of the event that led to the decision, in seconds on the clock of the events.
    pub time_s: f64,
    /// Number of GPUs of the machine.
    pub total_gpus: u32,
    /// Number of GPUs of every training, by name; 0: the training is parked.
    pub gpus: BTreeMap<String, u32>,
    /// Batch size of every process of a training, by name, rank 0 first; a training is absent if its batch sizes are
    /// unknown.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub batches: BTreeMap<String, Vec<u64>>,
    /// Names of the trainings that have reached their target. They have no GPUs and need none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reached: Vec<String>,
    /// Reason for the decision, for people.
    pub reason: String,
    /// Expected gain in the objective over keeping the current allocation, in seconds, after the pauses are subtracted;
    /// absent if it cannot be estimated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gain_s: Option<f64>,
    /// Smallest of the gains at the 5 % quantiles, medians and 95 % quantiles of the remaining steps of all trainings,
    /// in seconds; absent if `gain_s` is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gain_low_s: Option<f64>,
    /// Largest of these three gains, in seconds; absent if `gain_s` is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gain_high_s: Option<f64>,
    /// Expected pause of a training when its processes change, in seconds.
    pub pause_s: f64,
    /// Time at which each training is expected to be done, by name; a training is absent if this cannot be estimated.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub expected: BTreeMap<String, Expected>,
    /// Tools that made this document, in the order in which they ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub provenance: Vec<Provenance>,
}

wire_form!(Allocation, "mt.allocation/1");

/// Time at which a training is expected to be done, in seconds on the clock of the events.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    /// Time at the median of its remaining steps.
    pub end_s: f64,
    /// Time at the 5 % quantile of its remaining steps.
    pub low_s: f64,
    /// Time at the 95 % quantile of its remaining steps.
    pub high_s: f64,
}
