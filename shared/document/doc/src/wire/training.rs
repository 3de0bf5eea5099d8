use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{GradientNoise, wire_form};

/// An event of a training, for an allocator of GPUs. A stream has one event per line.
/// [`TrainingEventKind`] says which optional fields each event has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "mt.training/1")]
pub struct TrainingEvent {
    /// `mt.training/1`; may be absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
    /// Kind of event.
    pub event: TrainingEventKind,
    /// Time of the event in seconds, on a clock of the writer's choice.
    pub time_s: f64,
    /// Name of the training.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// Minimum number of GPUs that the training runs on; absent: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_gpus: Option<u32>,
    /// Maximum number of GPUs that the training runs on; absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_gpus: Option<u32>,
    /// The training is done when the mean loss of its last ten reports is at most this value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_loss: Option<f64>,
    /// The training is done after this number of steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_steps: Option<u64>,
    /// The training is done after this number of samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_samples: Option<u64>,
    /// The training is done when its loss falls by less than this fraction (above 0, below 1) over
    /// a window of 100 steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plateau: Option<f64>,
    /// Weight of the training in the weighted objective; absent: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<f64>,
    /// Steps per second by number of GPUs, from an earlier run. Numbers of GPUs that are absent are
    /// learnt.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub steps_per_s: BTreeMap<String, f64>,
    /// Number of global steps made so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
    /// Loss of the step; absent if the training has diverged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
    /// Number of GPUs that the training runs on at present.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus: Option<u32>,
    /// Number of samples per step, over all its processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<u64>,
    /// Gradient statistics of the steps since the previous progress event, from which the noise
    /// scale is estimated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gradient: Option<GradientNoise>,
    /// Number of samples per step and process, if the batch grows with the number of GPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch_per_gpu: Option<u64>,
    /// Number of the decision that was carried out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// Reason for the event, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Number of the GPU, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<u32>,
}

wire_form!(TrainingEvent, "mt.training/1");

/// Kind of event of a training. The text of each kind ends with the fields that the event has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TrainingEventKind {
    /// A training wants GPUs: `task`, and those of `min_gpus max_gpus target_loss total_steps
    /// total_samples plateau weight batch batch_per_gpu steps_per_s` that are known.
    Arrive,
    /// A training made steps: `task step gpus`, `loss`, `batch`, `gradient`.
    Progress,
    /// A training has stopped and saved a checkpoint: `task`, `step`.
    Parked,
    /// A training has ended: `task`.
    Done,
    /// A training has ended without reaching its target: `task`, `reason`.
    Failed,
    /// A decision has been carried out: `seq`.
    Ack,
    /// A GPU of the machine must no longer be used: `gpu`.
    Lost,
    /// A lost GPU can be used again: `gpu`.
    Found,
}
