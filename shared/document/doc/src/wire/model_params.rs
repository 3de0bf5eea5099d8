use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::is_default;

/// Family of a predictor.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// A law with a few interpretable constants.
    Structured,
    /// Gaussian process on the residuals of the law.
    Gp,
    /// Mean of the Gaussian process and boosted trees on the residuals of the law, and of boosted
    /// trees on the slow-down.
    Blend,
}

/// Parameters of a fitted predictor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelParams {
    /// Family.
    pub method: Method,
    /// Whether the laws are scaled to reproduce the solo steps, and the other parts are relative to
    /// the solo step at the share; absent: neither.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub anchored: bool,
    /// One for each task, in the order of the workload.
    pub tasks: Vec<TaskParams>,
    /// The law of the solo step time across tasks, if FLOPs and bytes of some are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload_law: Option<WorkloadLaw>,
    /// Measured configurations that the Gaussian processes use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub points: Vec<Vec<Point>>,
    /// The process that predicts tasks and batch sizes that never ran with others, from the co-runs
    /// of all tasks; absent if too few could be held out to learn its weight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unseen: Option<UnseenParams>,
    /// The training data.
    pub domain: Domain,
    /// Accuracy on held-out data.
    pub validation: Validation,
}

/// FedMT's law `t = gamma_0 + gamma_1 O`, `O = alpha f B + beta m B`, with `alpha + beta = 1`
/// where `f` is counted in FLOP and `m` in bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkloadLaw {
    /// `gamma_0`: seconds of a step that do not depend on its work.
    pub gamma0_s: f64,
    /// `gamma_1`: seconds for each unit of workload.
    pub gamma1_s: f64,
    /// Weight of a FLOP.
    pub alpha: f64,
    /// Weight of a byte.
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

/// A Gaussian process of all tasks, and how it serves co-runs in which a task or its batch size
/// never ran with others. The step of such a co-run is, as a logarithm, `(1 - weight) own + weight
/// pooled - ln factor`, at least that of the solo run, where `own` is the answer of the task's own
/// model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UnseenParams {
    /// Batch sizes at which each task ran with others, ascending.
    pub seen_batches: Vec<Vec<u64>>,
    /// The process, on the logarithm of (step / solo step) less `mean`.
    pub gp: GpParams,
    /// Task of each of its points.
    pub tasks: Vec<u32>,
    /// Mean of the logarithm of (step / solo step).
    pub mean: f64,
    /// Weight of the process in co-runs whose tasks and batch sizes all ran with others, 0 to 1;
    /// absent: 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub known_weight: f64,
    /// The same at shares that no co-run covered; absent: the same value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub far_weight: Option<f64>,
    /// The process of the total throughput of such co-runs; absent: not used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sums: Option<SumParams>,
    /// For co-runs with a batch size that never ran with others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<UnseenUse>,
    /// For co-runs with a task that never ran with others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<UnseenUse>,
}

/// A Gaussian process of the sum of a co-run's rates over those alone at the same shares. The kernel is
/// `(c + c^4) / 2`, where `c` is the cosine of two co-runs under the mean Matern 3/2 kernel between
/// their tasks. The rates of a co-run are scaled so that the logarithm of their sum moves by the
/// fraction `weight` towards `mean + sum of weights times kernels`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SumParams {
    /// 0 to 1.
    pub weight: f64,
    /// Mean of the logarithms of the sums.
    pub mean: f64,
    /// One over the length of each number of a task: which it is, logarithms of solo step, batch size and
    /// share, and how many others run.
    pub inverse_length: Vec<f64>,
    /// Positions in `points`.
    pub points: Vec<u32>,
    /// Weight of each.
    pub weights: Vec<f64>,
}

/// Use of the process for all tasks, learnt from held-out batch sizes or tasks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UnseenUse {
    /// Weight of the process of all tasks, 0 to 1.
    pub weight: f64,
    /// Factor on the throughput that minimises the mean relative error.
    pub factor: f64,
    /// Factor on the standard deviation of the process that gives intervals their nominal coverage.
    pub interval_scale: f64,
    /// Number of parts that were held out in turn.
    pub parts: u32,
    /// Mean absolute error of held-out throughputs without the largest twentieth, in percent; absent: too few could be
    /// held out, and the weight is a guess.
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

/// Configurations among which predictions are interpolation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Domain {
    /// Configurations learnt from.
    pub configurations: u64,
    /// Most tasks seen together.
    pub most_together: u32,
    /// How many tasks ran together, ascending, 2 or more; absent where none did, and in models
    /// that do not say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub crowds: Vec<u32>,
    /// Fraction, on a logarithmic scale, by which the rates of more tasks than ever ran together are moved to
    /// the line through those of fewer (each further task adds the same slow-down). 0 to 1; absent: 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub line_weight: f64,
}

/// Results of cross-validation by configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Validation {
    /// Number of parts that were held out in turn; 0: too few measurements to validate.
    pub folds: u32,
    /// Mean absolute error of the total throughput of held-out configurations, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_error_percent: Option<f64>,
    /// Mean absolute error of the single throughputs of held-out configurations, in percent, bad
    /// measurements included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput_error_percent: Option<f64>,
    /// The same for co-runs with a share that was held out entirely.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level_error_percent: Option<f64>,
    /// The same for co-runs of the most tasks, held out entirely.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crowd_error_percent: Option<f64>,
    /// Fraction of held-out throughputs inside the interval of 1.645 standard errors, which should
    /// be 90 %.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coverage_90: Option<f64>,
    /// Error of each kind of configuration of which parts could be held out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<KindError>,
    /// The same error of every family that was tried.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub families: Vec<FamilyError>,
}

/// Distance of a configuration from the measurements.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Every task ran with others at its batch size and its share, and as many tasks ran together.
    Within,
    /// A task never ran with others at its share.
    Share,
    /// A task never ran with others at its batch size.
    Batch,
    /// A task never ran with others.
    Task,
    /// This many tasks never ran together.
    Crowd,
}

impl Kind {
    /// Every kind, the nearest first.
    pub const ALL: [Self; 5] = [
        Self::Within,
        Self::Share,
        Self::Batch,
        Self::Task,
        Self::Crowd,
    ];

    /// What configurations of the kind have, for people.
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

/// Error of one kind of configuration, from entirely held-out parts of that kind: single configurations, or
/// all of a share, of a batch size, of a task, or of the largest number of tasks.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KindError {
    /// Which kind.
    pub kind: Kind,
    /// Mean absolute error of the single throughputs, in percent, bad measurements included.
    pub error_percent: f64,
    /// Number of throughputs that were held out.
    pub cases: u64,
    /// Number of parts that were held out in turn; errors within a part are correlated.
    pub parts: u32,
}

/// Cross-validated error of one family.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FamilyError {
    /// Family.
    pub method: Method,
    /// Mean absolute error of the total throughput of held-out configurations, in percent.
    pub total_error_percent: f64,
}

/// Parameters of one task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskParams {
    /// Name.
    pub id: String,
    /// Position of the first task of the same model, if there is one: they share its `gp` and
    /// trees, which were learnt from the measurements of both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy_of: Option<u32>,
    /// What was measured of it.
    pub evidence: Evidence,
    /// Solo steps on the whole device, by batch size.
    pub solo: Vec<SoloStep>,
    /// Seconds for each further sample of a solo step where only one batch size is known.
    pub solo_slope_s: f64,
    /// Deviations of measured solo steps at part shares from the law, in logarithms: a process with
    /// a Matern 5/2 kernel of length 2 along `ln(batch)` and 1 along `ln(share)`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub solo_parts: Vec<SoloPart>,
    /// The structured law.
    pub law: LawParams,
    /// The Gaussian process, where the family has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gp: Option<GpParams>,
    /// The boosted trees on the logarithm of (step / law), where the family has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trees: Option<TreesParams>,
    /// The boosted trees on the logarithm of (step / solo step), if the family has them; used only
    /// for co-runs of at most as many tasks as were measured together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub solo_trees: Option<TreesParams>,
    /// Standard deviation of the logarithm of a prediction, in addition to that of the Gaussian
    /// process.
    pub spread: f64,
    /// Factor on the standard deviation that gives intervals their nominal coverage.
    pub interval_scale: f64,
    /// The same at shares and numbers of tasks that no co-run covered; absent: the same value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub far_interval_scale: Option<f64>,
    /// Standard deviation of the logarithm of a solo rate at a part of the device, at a share at which
    /// the task was measured alone; absent: too few solo runs could be held out to learn it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part_spread: Option<f64>,
    /// The same at another share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part_far_spread: Option<f64>,
    /// Mean absolute error of held-out throughputs of the task, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_percent: Option<f64>,
    /// Smallest and largest batch size measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch_range: Option<(u64, u64)>,
    /// Smallest and largest share measured, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_range_percent: Option<(f64, f64)>,
    /// Shares at which it ran with others, in percent, ascending; shares closer than 1.25 points
    /// are merged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub together_shares_percent: Vec<f64>,
}

/// What was measured of a task.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Evidence {
    /// It ran with others.
    Together,
    /// It ran only alone; its behaviour with others is taken from the other tasks.
    Alone,
    /// It never ran; everything is derived from its FLOPs and bytes.
    Nothing,
}

/// Measured solo step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SoloStep {
    /// Batch size.
    pub batch: u64,
    /// Seconds for a step.
    pub step_s: f64,
}

/// Measured solo step at a part of the device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SoloPart {
    /// Batch size.
    pub batch: u64,
    /// Share as a fraction.
    pub share: f64,
    /// Its weight in the process.
    pub weight: f64,
    /// Step seconds measured there: between two shares of a batch size, the solo step is linear in one
    /// over the share. Absent on the whole device, and in models that only have the process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_s: Option<f64>,
}

/// `t_i = (H^q + D^q)^(1/q)`, `H = g0 (1 + h x_m)`, `D = g1 B phi(R) (1 + sum_j c_ij u_j R_j^e)`,
/// with `x_m = 2 (1 - 1/m)` for m running tasks, `phi(R) = ((rho/R)^k + 1)^(1/k) / (rho^k + 1)^(1/k)`,
/// and `u_j` the part of its step in which task j uses the device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LawParams {
    /// `g0`: seconds of a step that do not depend on the share.
    pub fixed_s: f64,
    /// `h`: growth of the fixed part with the number of running tasks.
    pub crowding: f64,
    /// `g1`: seconds for each sample on the whole device.
    pub per_sample_s: f64,
    /// `rho`: share, as a fraction, beyond which more share is useless.
    pub bend: f64,
    /// `k`: sharpness of the bend.
    pub sharpness: f64,
    /// `q`: overlap of host and device, 1 (the default) or more: 1 adds their times, a large value
    /// takes the longer one.
    #[serde(default = "added")]
    pub overlap: f64,
    /// `e` of this task's share where it interferes with others; absent: 0.5.
    #[serde(default = "square_root")]
    pub interference_exponent: f64,
    /// `c_ij` for every task j of the workload.
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
    /// 5/2: of functions that can be differentiated twice.
    #[default]
    #[serde(rename = "5/2")]
    FiveHalves,
    /// 3/2: of functions that can be differentiated once.
    #[serde(rename = "3/2")]
    ThreeHalves,
}

/// Gaussian process with a Matern kernel on the logarithm of (step / law).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GpParams {
    /// One over the length of each feature.
    pub inverse_length: Vec<f64>,
    /// Prior variance.
    pub signal: f64,
    /// Variance of the noise of one measurement.
    pub noise: f64,
    /// Number of features, from the first, that describe the task itself; the rest describe its
    /// co-runners. The kernel is then the mean of those of both groups and of their product.
    /// Absent: one kernel of all features.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_features: Option<u32>,
    /// Smoothness of the kernel, 5/2 where absent; 3/2 only of two groups.
    #[serde(default, skip_serializing_if = "is_default")]
    pub matern: Matern,
    /// Positions in `points`.
    pub points: Vec<u32>,
    /// Task whose step each of them refers to, by position in the workload; absent: the task itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<u32>,
    /// Weight of each.
    pub weights: Vec<f64>,
    /// Factor on the noise of each; large for measurements that were found to be outliers.
    pub noise_factor: Vec<f64>,
}

/// Regression trees of depth 3, whose outputs are added: 7 splits in heap order and 8 leaves for
/// each tree.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TreesParams {
    /// Feature of each split.
    pub feature: Vec<u32>,
    /// A row goes right where its feature is above this.
    pub threshold: Vec<f64>,
    /// Value of each leaf.
    pub value: Vec<f64>,
}
