use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use std::collections::BTreeMap;

use super::model_params::Kind;
use super::{Choice, Link, Model, ObjectiveKind, Provenance, UpdateBytes, Workload, wire_form};

/// Batch sizes and shares of every task.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "mt.plan/1")]
pub struct Plan {
    /// `mt.plan/1`.
    pub schema: String,
    /// Name of the device or client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The network link; absent: transfers take no time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<Link>,
    /// The tasks; empty only if no plan is feasible.
    #[serde(deserialize_with = "super::tasks")]
    pub tasks: Vec<PlanTask>,
    /// Measured rates of every set of active tasks, instead of a model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rates: Vec<RateRow>,
    /// Sum of the shares in percent: the total virtual resource R_v.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rv_percent: Option<f64>,
    /// Whether sharing is worth it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// When the tasks reach their targets; for plans that optimise progress if every task has
    /// samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    /// Distance of the plan from its model's training data, and the model's error at that distance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prediction: Option<PredictionError>,
    /// The objective.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objective: Option<Objective>,
    /// The constraints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub constraints: Option<Constraints>,
    /// Distance of the batch sizes from the requested balance (FedMT eq. 6).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mismatch: Option<f64>,
    /// Objective of the best plan without the batch constraints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unconstrained_objective: Option<f64>,
    /// What simpler schemes would reach, predicted in the same way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub baselines: Vec<Baseline>,
    /// Pareto front of mismatch and objective.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pareto: Vec<ParetoPoint>,
    /// Pareto front of raw throughput and fairness.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pareto_fairness: Vec<ParetoPoint>,
    /// The next best plans.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alternatives: Vec<ParetoPoint>,
    /// Effect of a little more or less share.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub explanation: Vec<Marginal>,
    /// Results per GPU, if there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<GpuPlan>,
    /// The candidates, if the model has measured co-runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub candidates: Option<Candidates>,
    /// How the plan was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<Search>,
    /// Why no plan is feasible; empty if one is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub infeasible: Vec<Infeasibility>,
    /// The model that predicted the throughput.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<Model>,
    /// The workload, if there is no model to carry it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<Workload>,
    /// Which tools made this document.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub provenance: Vec<Provenance>,
}

wire_form!(Plan, "mt.plan/1");

/// Prediction error for co-runs of the plan's kind, cross-validated: co-runs as far from the remaining
/// training data as the plan is from the measurements. For a plan on several GPUs, the worst of them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PredictionError {
    /// The kind; with several GPUs, the kind with the largest error, where unknown errors count as largest.
    pub kind: Kind,
    /// Mean absolute error of a throughput of this kind, in percent; absent: too few could be held out to
    /// estimate it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_percent: Option<f64>,
    /// Number of throughputs that were held out.
    #[serde(default)]
    pub cases: u64,
    /// Number of parts that were held out in turn; errors within a part are correlated.
    #[serde(default)]
    pub parts: u32,
}

/// One task of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanTask {
    /// Name of the task.
    pub id: String,
    /// Batch size; needed with a model and to launch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<u64>,
    /// Share in percent; needed with a model and to launch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_percent: Option<f64>,
    /// GPU that the task runs on, from 0, if there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<u32>,
    /// Samples to train on in one round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples: Option<u64>,
    /// Exponential average of the samples over rounds, used for the mismatch if damping was
    /// requested; absent: `samples`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_samples: Option<u64>,
    /// Bytes to move before and after compute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_bytes: Option<UpdateBytes>,
    /// Predicted throughput while all tasks run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput: Option<Estimate>,
    /// Throughput alone on the whole device with which `throughput` is compared: at the best of the
    /// task's batch sizes, or at this one, as `constraints.solo` says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub solo_samples_per_s: Option<f64>,
}

/// A predicted throughput with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Estimate {
    /// Prediction in samples per second.
    pub samples_per_s: f64,
    /// Lower end of the interval.
    pub low_samples_per_s: f64,
    /// Upper end of the interval.
    pub high_samples_per_s: f64,
}

/// Rates of the tasks that are active together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RateRow {
    /// Names of the active tasks.
    pub active: Vec<String>,
    /// Throughput of each of them.
    pub samples_per_s: BTreeMap<String, f64>,
}

/// The best measured co-run and the model's best, both under the constraints. The plan is the model's best if its
/// expected value exceeds that of the measured one by more than 3 % of itself and the measured one's distance to its
/// lower end. Expected is the objective, but for seconds, of which it is `(1 + (1 - objective/low_objective)^2)` times
/// as many.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Candidates {
    /// Which of the two is the plan.
    pub chosen: Chosen,
    /// The best measured co-run.
    pub measured: Candidate,
    /// The model's best; absent: under the model nothing is feasible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted: Option<Candidate>,
}

/// Whether a plan was measured.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Chosen {
    /// The best measured co-run. Unless it is also the model's best, `search` gives the gap to the
    /// model's best, and proves nothing.
    Measured,
    /// The model's best.
    Predicted,
}

/// A configuration and its objective, measured or predicted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Candidate {
    /// Number of the configuration in the profile, where it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<u64>,
    /// Objective.
    pub objective: f64,
    /// Lower end of its 95 % interval; absent, and only if predicted: a task may make no progress at such rates, so
    /// that there is no end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low_objective: Option<f64>,
    /// Batch size and share of each task.
    pub tasks: Vec<Choice>,
}

/// Whether sharing is worth it: compares the same work done together and one task after another.
///
/// On one GPU a round includes its transfers in both cases: together in the best order found, as
/// `mt-overlap` computes it; one after another with the transfers of a task alongside the compute
/// of others. Otherwise only compute is compared; with several GPUs, on the GPUs that the plan
/// assigns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Verdict {
    /// Whether together is faster.
    pub share: bool,
    /// The work that is compared.
    pub work: WorkKind,
    /// Seconds that the work takes together with the batch sizes and shares of the plan. Tasks that
    /// remain when one ends keep their shares, or also get its share if the device can change
    /// shares.
    pub together_s: f64,
    /// Lower end of the 95 % interval.
    pub together_low_s: f64,
    /// Upper end; absent if the interval of a rate reaches 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub together_high_s: Option<f64>,
    /// Seconds that the work takes with one task at a time on the whole device.
    pub one_after_another_s: f64,
    /// The best scheme of equal shares at the plan's batch sizes, and its seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best_static: Option<StaticScheme>,
    /// The work of each task, and its best batch size alone.
    pub tasks: Vec<WorkAlone>,
}

/// When the tasks reach their targets: the seconds of the objective, which are the weighted mean over the tasks
/// (`progress`) or the last (`progress-last`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// Whether the plan reaches them sooner than one task after another.
    pub share: bool,
    /// Seconds with the plan.
    pub together_s: f64,
    /// Lower end of the 95 % interval, from the intervals of the throughputs and of the noise scales, if
    /// known.
    pub together_low_s: f64,
    /// Upper end; absent if the interval of a rate reaches 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub together_high_s: Option<f64>,
    /// Seconds if, in each round, one task after another has the whole device, at batch sizes such that
    /// changing any single one is no faster.
    pub one_after_another_s: f64,
    /// The plan of the shortest round, regardless of the value of a sample, and its seconds to the
    /// target; absent if none was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fastest_samples: Option<FastestSamples>,
    /// The target of each task.
    pub tasks: Vec<TaskTarget>,
}

/// Batch sizes and shares of the shortest round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FastestSamples {
    /// Seconds to the target.
    pub seconds: f64,
    /// What each task runs with.
    pub tasks: Vec<Choice>,
}

/// The target of one task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskTarget {
    /// Name of the task.
    pub id: String,
    /// Progress of a sample at the plan's batch size, relative to the reference size.
    pub efficiency: f64,
    /// Rounds to the target at the plan's batch size.
    pub rounds: f64,
    /// When the plan reaches it.
    pub seconds: f64,
    /// Batch size of the task in one after another.
    pub alone_batch: u64,
}

/// The work that a verdict compares.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum WorkKind {
    /// The samples of every task in one round.
    Round,
    /// What the plan trains in one second: the mixture that it produces, since no volumes are
    /// given.
    Mixture,
}

/// A scheme of equal shares and the time that the work of a verdict takes with it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StaticScheme {
    /// Which scheme.
    pub name: Scheme,
    /// Seconds that the work takes.
    pub seconds: f64,
}

/// The work of one task, and its batch size with the highest throughput alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkAlone {
    /// Name of the task.
    pub id: String,
    /// Samples to train on.
    pub samples: f64,
    /// Batch size with the highest throughput alone.
    pub batch: u64,
    /// That throughput.
    pub solo_samples_per_s: f64,
}

/// A simpler scheme that a plan is compared with.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Scheme {
    /// One task at a time on the whole GPU, equal work of each.
    Temporal,
    /// Equal parts, `100/n` % each.
    Isolated,
    /// No limits: 100 % each.
    Sharing,
    /// NVIDIA's static advice: `100/(0.5 n)` %, at most 100.
    Nvidia,
    /// 60 % each (FedMT section VI-B).
    Moderate,
    /// 80 % each (FedMT section VI-B).
    Aggressive,
}

/// An objective and its value.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Objective {
    /// Which objective.
    pub kind: ObjectiveKind,
    /// Its predicted value; larger is better.
    pub value: f64,
}

/// What a plan must satisfy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Constraints {
    /// Shares are multiples of this.
    pub share_step_percent: f64,
    /// Given sum of the shares; absent: free.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rv_percent: Option<f64>,
    /// Least `P_i / S_i` of every task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starvation_floor: Option<f64>,
    /// Memory that the tasks of one GPU may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// How batch sizes may be chosen.
    pub batch: BatchPolicy,
    /// Largest mismatch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mismatch: Option<f64>,
    /// What the batch sizes should be in proportion to.
    pub balance: Balance,
    /// Which solo rate `S_i` means in fairness, max-min and the floor; absent: `same-batch`.
    #[serde(default, skip_serializing_if = "SoloRate::is_same_batch")]
    pub solo: SoloRate,
}

/// The solo rate `S_i` that throughput is compared with.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum SoloRate {
    /// The best over the task's batch sizes: what it has without sharing. If the plan keeps reference
    /// sizes (`batch`), that at the reference size.
    Best,
    /// That of the chosen batch size (FedMT). A batch size that is slow alone then looks as fair as
    /// the best one.
    #[default]
    SameBatch,
}

impl SoloRate {
    fn is_same_batch(&self) -> bool {
        *self == Self::SameBatch
    }
}

/// How batch sizes may be chosen.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum BatchPolicy {
    /// Each task takes any of its batch sizes.
    #[default]
    Free,
    /// Each task takes the largest of its batch sizes.
    Fixed,
    /// All tasks take the same batch size.
    Same,
    /// Each task keeps its reference batch size (`batch`, else the first of its sizes).
    Reference,
}

/// What the batch sizes should be in proportion to (FedMT eq. 6).
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Balance {
    /// Data volumes against batch sizes: `|D_a/D_b - B_a/B_b|`.
    #[default]
    Batch,
    /// Data volumes against workloads `O = alpha f B + beta m B`.
    Workload,
    /// Data volumes against throughput, so that all finish together.
    Time,
}

/// A simpler scheme and what it would reach.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Baseline {
    /// Which scheme.
    pub name: Scheme,
    /// Total throughput.
    pub total_samples_per_s: f64,
    /// Total of throughput relative to solo.
    pub fairness: f64,
    /// Value of the plan's objective.
    pub objective: f64,
    /// Whether it meets the constraints.
    pub feasible: bool,
    /// What each task runs with.
    pub tasks: Vec<Choice>,
}

/// A plan on a front, or a runner-up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ParetoPoint {
    /// Value of the plan's objective.
    pub objective: f64,
    /// Distance from the balance asked for.
    pub mismatch: f64,
    /// Total throughput.
    pub total_samples_per_s: f64,
    /// Total of throughput relative to solo.
    pub fairness: f64,
    /// What each task runs with.
    pub tasks: Vec<Choice>,
}

/// Effect of changing one task's share.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Marginal {
    /// Task whose share changes.
    pub id: String,
    /// The changed share in percent.
    pub share_percent: f64,
    /// Change of the objective.
    pub objective_change: f64,
    /// Change of the throughput of each task, by name.
    pub samples_per_s_change: BTreeMap<String, f64>,
}

/// Result for one of several GPUs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GpuPlan {
    /// Number of the GPU, from 0.
    pub gpu: u32,
    /// Names of its tasks.
    pub tasks: Vec<String>,
    /// Sum of the shares in percent.
    pub rv_percent: f64,
    /// Total throughput.
    pub total_samples_per_s: f64,
    /// Total of throughput relative to solo.
    pub fairness: f64,
    /// Value of the plan's objective on this GPU.
    pub objective: f64,
}

/// Whether a result is proven optimal.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
#[must_use]
pub enum Proof {
    /// Every point was evaluated.
    Enumerated,
    /// The rest was excluded by a bound.
    Bounded,
    /// Not proven.
    NotProven,
}

/// How a result was found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Search {
    /// Points (or nodes) evaluated.
    pub points: u64,
    /// Whether the result is proven optimal under the model.
    pub proof: Proof,
    /// Bound on the objective of any result, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<f64>,
    /// Time of the search in seconds, if requested (it differs from run to run).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
}

/// A constraint that can make a plan infeasible.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum ConstraintKind {
    /// Least `P_i / S_i` of every task.
    StarvationFloor,
    /// Largest mismatch of batch sizes and data volumes.
    Mismatch,
    /// Memory of a GPU, bytes.
    Memory,
    /// Sum of the shares, percent.
    Rv,
    /// How batch sizes may be chosen; 0 means no, 1 means yes.
    Batch,
    /// Settings outside the profiled domain.
    Domain,
}

/// One reason why no plan is feasible.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Infeasibility {
    /// The constraint.
    pub constraint: ConstraintKind,
    /// What the constraint demands.
    pub limit: f64,
    /// The best that can be reached.
    pub best: f64,
    /// What would make it feasible.
    pub advice: String,
}

impl Scheme {
    /// Every scheme.
    pub const ALL: [Self; 6] = [
        Self::Temporal,
        Self::Isolated,
        Self::Sharing,
        Self::Nvidia,
        Self::Moderate,
        Self::Aggressive,
    ];

    /// The name in a document.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Temporal => "temporal",
            Self::Isolated => "isolated",
            Self::Sharing => "sharing",
            Self::Nvidia => "nvidia",
            Self::Moderate => "moderate",
            Self::Aggressive => "aggressive",
        }
    }
}
