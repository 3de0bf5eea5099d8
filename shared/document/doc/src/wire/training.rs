use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{GradientNoise, wire_form};

/// An event of a training, for an allocator of GPUs, one per line. [`TrainingEventKind`] says which
/// optional fields each event has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "mt.training/1")]
pub struct TrainingEvent {
    /// `mt.training/1`; may be left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
    /// What happened.
    pub event: TrainingEventKind,
    /// Seconds on a clock of the writer's choice.
    pub time_s: f64,
    /// Name of the training.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// Fewest GPUs that it runs on; absent: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_gpus: Option<u32>,
    /// Most GPUs that it runs on; absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_gpus: Option<u32>,
    /// It is done when the mean loss of its last ten reports is at most this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_loss: Option<f64>,
    /// It is done after this many steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_steps: Option<u64>,
    /// It is done after this many samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_samples: Option<u64>,
    /// It is done when its loss falls by less than this fraction over a window of 100 steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plateau: Option<f64>,
    /// Weight in the weighted objective; absent: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<f64>,
    /// Steps per second by number of GPUs, from an earlier run; what is absent is learnt.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub steps_per_s: BTreeMap<String, f64>,
    /// Global steps made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
    /// Loss of the step; absent where it has diverged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
    /// GPUs that it runs on now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus: Option<u32>,
    /// Samples of a step, over all its processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<u64>,
    /// What the gradients of the steps since the progress before say about the noise scale.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gradient: Option<GradientNoise>,
    /// Samples of a step and process, where the batch grows with the GPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch_per_gpu: Option<u64>,
    /// Number of the decision that is taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// Why, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Number of the GPU, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<u32>,
}

wire_form!(TrainingEvent, "mt.training/1");

/// What happened to a training.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TrainingEventKind {
    /// It wants GPUs: `task`, and those of `min_gpus max_gpus target_loss total_steps total_samples
    /// plateau weight batch batch_per_gpu steps_per_s` that are known.
    Arrive,
    /// It made steps: `task step gpus`, `loss`, `batch`, `gradient`.
    Progress,
    /// It has stopped and saved a checkpoint: `task`, `step`.
    Parked,
    /// It has ended: `task`.
    Done,
    /// It has ended without reaching its target: `task`, `reason`.
    Failed,
    /// A decision has been taken: `seq`.
    Ack,
    /// A GPU of the machine must no longer be used: `gpu`.
    Lost,
    /// It can be used again: `gpu`.
    Found,
}
