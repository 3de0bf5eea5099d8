use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::is_default;

/// Statistical efficiency: the value of a sample at each batch size. Exactly one of `noise_scale` and `table` is given.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Efficiency {
    /// Gradient noise scale `phi` in samples. At batch size B a sample makes `(phi + B0) / (phi + B)` times the
    /// progress that it makes at the reference size B0 (McCandlish et al. 2018; Pollux, OSDI 2021).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise_scale: Option<f64>,
    /// 95 % confidence interval of `noise_scale`, in samples: lower and upper end; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<[f64; 2]>,
    /// Relative progress per sample, or rounds to the target, at two or more batch sizes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub table: Vec<EfficiencyRow>,
    /// Source of the figures; absent: `declared`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub source: EfficiencySource,
}

/// One batch size in a table of efficiency. Either all rows have `progress`, or all have `rounds`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EfficiencyRow {
    /// Batch size.
    pub batch: u64,
    /// Progress per sample, relative to the other rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<f64>,
    /// Number of rounds (or epochs) until the target is reached. Each round trains on the same number of samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounds: Option<f64>,
    /// 95 % interval of this row's `rounds` or `progress` for one more training at this batch size: lower and upper
    /// end; in all rows or in none. Absent if unknown: then plans take the rows as exact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<[f64; 2]>,
}

/// Source of an efficiency, from the least to the most trusted.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum EfficiencySource {
    /// Given by the user.
    #[default]
    Declared,
    /// Estimated from squared gradient norms that the training reported.
    Measured,
    /// Estimated from the number of steps that runs at several batch sizes took to reach the same loss.
    Learnt,
}

/// Means over `steps` training steps of the two quantities that determine a noise scale. Each is an unbiased estimate,
/// so either may be negative.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GradientNoise {
    /// Number of training steps whose gradient norms were used.
    pub steps: u64,
    /// Squared norm of the true gradient, `|G|^2`.
    pub squared_norm: f64,
    /// Trace `S` of the covariance matrix of one sample's gradient.
    pub variance: f64,
}

/// The noise scale of one task, from all reports of its training.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MeasuredNoiseScale {
    /// Name of the task.
    pub id: String,
    /// Gradient noise scale in samples.
    pub noise_scale: f64,
    /// Standard error of `noise_scale`, in samples.
    pub stderr: f64,
    /// Number of training steps whose gradient norms were used.
    pub steps: u64,
}
