use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::is_default;

/// Family of predictors.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// A law with a few interpretable constants.
    Structured,
    /// Gaussian process on the residuals of the law.
    Gp,
    /// Mean of three models: a Gaussian process and boosted trees on the residuals of the law, and boosted trees on the
    /// slow-down.
    Blend,
}

/// Parameters of a fitted predictor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelParams {
    /// Family of the predictor.
    pub method: Method,
    /// Whether the laws are scaled to reproduce the solo steps, and the other parts are relative to the solo step at
    /// the share; absent: false, neither holds.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub anchored: bool,
    /// Parameters of each task, in the order of the workload.
    pub tasks: Vec<TaskParams>,
    /// Law of the solo step time across tasks; absent unless FLOPs and bytes of some tasks are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload_law: Option<WorkloadLaw>,
    /// Measured configurations that the Gaussian processes use, each a list of its tasks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub points: Vec<Vec<Point>>,
    /// Gaussian process, learnt from the co-runs of all tasks, that predicts tasks and batch sizes that never ran with
    /// others; absent if too few could be held out to learn its weight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unseen: Option<UnseenParams>,
    /// Extent of the measured configurations.
    pub domain: Domain,
    /// Accuracy on held-out data.
    pub validation: Validation,
}

/// FedMT's law `t = gamma_0 + gamma_1 O` with `O = alpha f B + beta m B` and `alpha + beta = 1`, where `f` is counted
/// in FLOP and `m` in bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkloadLaw {
    /// `gamma_0`: part of a step that does not depend on its workload, in seconds.
    pub gamma0_s: f64,
    /// `gamma_1`: seconds per unit of workload.
    pub gamma1_s: f64,
    /// `alpha`: weight of a FLOP.
    pub alpha: f64,
    /// `beta`: weight of a byte.
    pub beta: f64,
}

/// One task of a measured configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Point {
    /// Position of the task in the workload, from 0.
    pub task: u32,
    /// Batch size.
    pub batch: u64,
    /// Share in percent.
    pub share_percent: f64,
}

/// One Gaussian process for all tasks, and its use for co-runs with a task or batch size that never ran with others.
/// The logarithm of the step time in such a co-run is `(1 - weight) own + weight pooled - ln factor`, and at least that
/// of the solo run. `own` is the prediction of the task's own model, and `pooled` that of this process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UnseenParams {
    /// Batch sizes at which each task ran with others, ascending.
    pub seen_batches: Vec<Vec<u64>>,
    /// The process, on the deviation of `ln(step / solo step)` from `mean`.
    pub gp: GpParams,
    /// Task that each point of the process refers to, by position in the workload.
    pub tasks: Vec<u32>,
    /// Mean of `ln(step / solo step)`.
    pub mean: f64,
    /// Weight of the process in co-runs whose tasks and batch sizes all ran with others, 0 to 1; absent: 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub known_weight: f64,
    /// The same weight at shares and numbers of tasks that no co-run covered; absent: `known_weight`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub far_weight: Option<f64>,
    /// Process of the total throughput, for all co-runs in which the process of all tasks is used; absent: not used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sums: Option<SumParams>,
    /// Use of the process for co-runs with a batch size that never ran with others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<UnseenUse>,
    /// Use of the process for co-runs with a task that never ran with others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<UnseenUse>,
}

/// Gaussian process of the sum of relative rates in a co-run: the rate of each task over its rate alone at the same
/// share. The kernel is `(c + c^4) / 2`, where `c` is the cosine of two co-runs under the mean Matern 3/2 kernel
/// between their tasks. The rates of a co-run are scaled by a common factor, so that the logarithm of their sum moves
/// by the fraction `weight` towards `mean` plus the sum of weights times kernels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SumParams {
    /// Fraction by which the logarithm of the sum is moved, 0 to 1.
    pub weight: f64,
    /// Mean of the logarithms of the sums.
    pub mean: f64,
    /// Inverse length scale of each of the five features of a task, in this order: its identity, the logarithms of its
    /// solo step, batch size and share, and the number of other running tasks.
    pub inverse_length: Vec<f64>,
    /// Co-runs of the process, by position in `points` of the predictor.
    pub points: Vec<u32>,
    /// Weight of each of these co-runs.
    pub weights: Vec<f64>,
}

/// Use of the process for all tasks. The values are learnt from batch sizes or tasks that were held out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UnseenUse {
    /// Weight of the process of all tasks, 0 to 1.
    pub weight: f64,
    /// Factor on the predicted throughput that minimises the mean relative error.
    pub factor: f64,
    /// Factor on the standard deviation of the process with which intervals have their nominal coverage.
    pub interval_scale: f64,
    /// Number of parts that were held out, one after another.
    pub parts: u32,
    /// Mean absolute error of held-out throughputs, without the largest twentieth of the errors, in percent. Absent if
    /// too few could be held out; the weight is then a guess.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_percent: Option<f64>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

/// Extent of the measured configurations, within which predictions interpolate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Domain {
    /// Number of configurations that the predictor was fitted to.
    pub configurations: u64,
    /// Largest number of tasks that were measured together.
    pub most_together: u32,
    /// Numbers of tasks that were measured together, ascending, each 2 or more; absent if no tasks ran together, and in
    /// models that do not contain them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub crowds: Vec<u32>,
    /// Fraction, on a logarithmic scale, by which the predicted rates of more tasks than ever ran together are moved
    /// towards rates extrapolated from co-runs of fewer tasks. 0 to 1; absent: 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub line_weight: f64,
}

/// Results of cross-validation, in which configurations are held out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Validation {
    /// Number of parts that were held out, one after another; 0: there were too few measurements to validate.
    pub folds: u32,
    /// Mean absolute error of the total throughput of held-out configurations, in percent; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_error_percent: Option<f64>,
    /// Mean absolute error of the throughput of each task in held-out configurations, in percent, bad measurements
    /// included; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput_error_percent: Option<f64>,
    /// The same error for co-runs with a share that was held out entirely; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level_error_percent: Option<f64>,
    /// The same error for co-runs of the largest number of tasks, which were held out entirely; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crowd_error_percent: Option<f64>,
    /// Fraction (0 to 1) of held-out throughputs that lie within 1.645 standard errors of their prediction. It should
    /// be 90 %.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coverage_90: Option<f64>,
    /// Error of each kind of configuration that could be held out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<KindError>,
    /// Error of the total throughput for every family that was tried.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub families: Vec<FamilyError>,
}

/// Distance of a configuration from the measurements.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Every task ran with others at its batch size and its share, and the same number of tasks ran together.
    Within,
    /// A task never ran with others at its share.
    Share,
    /// A task never ran with others at its batch size.
    Batch,
    /// A task never ran with others.
    Task,
    /// The number of tasks is one that never ran together.
    Crowd,
}

impl Kind {
    /// All kinds, the one nearest to the measurements first.
    pub const ALL: [Self; 5] = [
        Self::Within,
        Self::Share,
        Self::Batch,
        Self::Task,
        Self::Crowd,
    ];

    /// Describes the configurations of this kind, for people.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Within => "tasks, batch sizes and shares that ran together",
            Self::Share => "a share at which its task never ran with others",
            Self::Batch => "a batch size at which its task never ran with others",
            Self::Task => "a task that never ran with others",
            Self::Crowd => "as many tasks as never ran together",
        }
    }
}

/// Error of one kind of configuration. Parts of that kind were held out entirely: single configurations, or all
/// configurations with one share, one batch size, one task, or the largest number of tasks.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KindError {
    /// Kind of configuration.
    pub kind: Kind,
    /// Mean absolute error of the throughput of each task, in percent, bad measurements included.
    pub error_percent: f64,
    /// Number of throughputs that were held out.
    pub cases: u64,
    /// Number of parts that were held out, one after another. Errors within a part are correlated.
    pub parts: u32,
}

/// Cross-validated error of one family of predictors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FamilyError {
    /// Family of predictors.
    pub method: Method,
    /// Mean absolute error of the total throughput of held-out configurations, in percent.
    pub total_error_percent: f64,
}

/// Parameters of the predictor for one task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskParams {
    /// Name of the task.
    pub id: String,
    /// Position of the first task of the same model in the workload. The two tasks share `gp` and trees, which were
    /// learnt from the measurements of both. Absent if there is no earlier task of the same model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy_of: Option<u32>,
    /// Measurements that exist of the task.
    pub evidence: Evidence,
    /// Measured solo steps on the whole device, by batch size.
    pub solo: Vec<SoloStep>,
    /// Increase of the solo step per additional sample of the batch, in seconds; used if only one batch size is known.
    pub solo_slope_s: f64,
    /// Deviations of measured solo steps at partial shares from the law, as logarithms: a Gaussian process with a
    /// Matern 5/2 kernel of length scale 2 along `ln(batch)` and 1 along `ln(share)`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub solo_parts: Vec<SoloPart>,
    /// Parameters of the structured law.
    pub law: LawParams,
    /// Gaussian process; absent if the family has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gp: Option<GpParams>,
    /// Boosted trees on `ln(step / law)`; absent if the family has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trees: Option<TreesParams>,
    /// Boosted trees on `ln(step / solo step)`; absent if the family has none. They are used only for co-runs of at
    /// most as many tasks as were measured together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub solo_trees: Option<TreesParams>,
    /// Standard deviation of the logarithm of a prediction, in addition to that of the Gaussian process.
    pub spread: f64,
    /// Factor on the standard deviation with which intervals have their nominal coverage.
    pub interval_scale: f64,
    /// The same factor at shares and numbers of tasks that no co-run covered; absent: `interval_scale`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub far_interval_scale: Option<f64>,
    /// Standard deviation of the logarithm of a solo rate on part of the device, at a share at which the task was
    /// measured alone. Absent if too few solo runs could be held out to learn it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part_spread: Option<f64>,
    /// The same standard deviation at any other share; absent if it could not be learnt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part_far_spread: Option<f64>,
    /// Mean absolute error of held-out throughputs of the task, in percent; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_percent: Option<f64>,
    /// Smallest and largest batch size measured; absent if none was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch_range: Option<(u64, u64)>,
    /// Smallest and largest share measured, in percent; absent if none was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_range_percent: Option<(f64, f64)>,
    /// Shares at which the task ran with others, in percent, ascending. Shares closer than 1.25 points are merged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub together_shares_percent: Vec<f64>,
}

/// Measurements that exist of a task.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Evidence {
    /// The task ran with others.
    Together,
    /// The task ran only alone. Its behaviour with others is taken from the other tasks.
    Alone,
    /// The task never ran. Everything is derived from its FLOPs and bytes.
    Nothing,
}

/// Measured solo step on the whole device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SoloStep {
    /// Batch size.
    pub batch: u64,
    /// Duration of a step in seconds.
    pub step_s: f64,
}

/// Measured solo step on part of the device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SoloPart {
    /// Batch size.
    pub batch: u64,
    /// Share as a fraction of the device.
    pub share: f64,
    /// Weight of this point in the Gaussian process.
    pub weight: f64,
    /// Measured duration of the step, in seconds. Between two shares of one batch size, the solo step is interpolated
    /// linearly in one over the share. Absent on the whole device, and in models that only have the process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_s: Option<f64>,
}

/// Law of the step time: `t_i = (H^q + D^q)^(1/q)`, `H = g0 (1 + h x_m)`, `D = g1 B phi(R) (1 + sum_j c_ij u_j R_j^e)`,
/// with `x_m = 2 (1 - 1/m)` for m running tasks, `phi(R) = ((rho/R)^k + 1)^(1/k) / (rho^k + 1)^(1/k)`, and `u_j` the
/// fraction of its step in which task j uses the device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LawParams {
    /// `g0`: part of a step that does not depend on the share, in seconds.
    pub fixed_s: f64,
    /// `h`: growth of the fixed part with the number of running tasks, per unit of `x_m`.
    pub crowding: f64,
    /// `g1`: seconds per sample on the whole device.
    pub per_sample_s: f64,
    /// `rho`: share, as a fraction, beyond which a larger share does not help.
    pub bend: f64,
    /// `k`: sharpness of the bend.
    pub sharpness: f64,
    /// `q`: overlap of host and device work, 1 (no overlap) or more; absent: 1. With 1 their times add up; with a large
    /// value the longer time decides.
    #[serde(default = "added")]
    pub overlap: f64,
    /// `e`: exponent of this task's share in its interference with others; absent: 0.5.
    #[serde(default = "square_root")]
    pub interference_exponent: f64,
    /// `c_ij`: slow-down of this task by each task j of the workload.
    pub slowdown: Vec<f64>,
}

const fn added() -> f64 {
    1.0
}

const fn square_root() -> f64 {
    0.5
}

/// Smoothness of a Matern kernel.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema,
)]
pub enum Matern {
    /// 5/2: twice differentiable functions.
    #[default]
    #[serde(rename = "5/2")]
    FiveHalves,
    /// 3/2: once differentiable functions.
    #[serde(rename = "3/2")]
    ThreeHalves,
}

/// Gaussian process with a Matern kernel: on `ln(step / law)` for a task, on `ln(step / solo step)` in `unseen`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GpParams {
    /// Inverse length scale of each feature.
    pub inverse_length: Vec<f64>,
    /// Prior variance of the process.
    pub signal: f64,
    /// Noise variance of one measurement.
    pub noise: f64,
    /// Number of features, counted from the first, that describe the task itself; the others describe its co-runners.
    /// The kernel is then the mean of three: one for each of the two groups, and their product. Absent: one kernel of
    /// all features.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_features: Option<u32>,
    /// Smoothness of the kernel; absent: 5/2. 3/2 occurs only with two groups of features.
    #[serde(default, skip_serializing_if = "is_default")]
    pub matern: Matern,
    /// Points of the process, by position in `points` of the predictor.
    pub points: Vec<u32>,
    /// Task whose step each of these points refers to, by position in the workload; absent: the task itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<u32>,
    /// Weight of each of these points.
    pub weights: Vec<f64>,
    /// Factor on the noise variance of each of these points; large for outliers.
    pub noise_factor: Vec<f64>,
}

/// Regression trees of depth 3, whose outputs are added. Each tree has 7 splits in heap order and 8 leaves.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TreesParams {
    /// Position of the feature that each split tests, 7 per tree.
    pub feature: Vec<u32>,
    /// Threshold of each split, 7 per tree. A row goes right if its feature is above the threshold.
    pub threshold: Vec<f64>,
    /// Value of each leaf, 8 per tree.
    pub value: Vec<f64>,
}
