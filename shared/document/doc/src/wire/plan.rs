use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use std::collections::BTreeMap;

use super::model_params::Kind;
use super::{Choice, Link, Model, ObjectiveKind, Provenance, UpdateBytes, Workload, wire_form};

/// Batch size and share of every task, with their predicted results.
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
    /// Tasks of the plan; empty only if no plan is feasible.
    #[serde(deserialize_with = "super::tasks")]
    pub tasks: Vec<PlanTask>,
    /// Measured rates for every set of active tasks; given instead of a model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rates: Vec<RateRow>,
    /// Sum of the shares in percent: the total virtual resource R_v.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rv_percent: Option<f64>,
    /// Whether sharing is worth it; absent if a task makes no progress, and in plans that no search made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// Times at which the tasks reach their targets; present if the objective is progress and every task has samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    /// Distance of the plan from its model's training data, and the error of the model at that distance; absent if the
    /// model does not give it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prediction: Option<PredictionError>,
    /// Objective of the plan and its predicted value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objective: Option<Objective>,
    /// Constraints that the plan has to meet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub constraints: Option<Constraints>,
    /// Distance of the batch sizes from the requested balance (FedMT eq. 6); absent if a task has no data volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mismatch: Option<f64>,
    /// Objective of the best plan without the batch constraints; absent if there are none, or if there are several
    /// GPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unconstrained_objective: Option<f64>,
    /// Predicted results of simpler schemes, for comparison.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub baselines: Vec<Baseline>,
    /// Pareto front of mismatch and objective.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pareto: Vec<ParetoPoint>,
    /// Pareto front of raw throughput and fairness.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pareto_fairness: Vec<ParetoPoint>,
    /// Next best plans.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alternatives: Vec<ParetoPoint>,
    /// Effect of a slightly larger or smaller share, for one task at a time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub explanation: Vec<Marginal>,
    /// Results per GPU; absent for a single GPU.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<GpuPlan>,
    /// Best measured co-run and best predicted plan; absent if the model has no measured co-run that meets the
    /// constraints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub candidates: Option<Candidates>,
    /// Search that found the plan; absent in plans that no search made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<Search>,
    /// Reasons why no plan is feasible; absent if one is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub infeasible: Vec<Infeasibility>,
    /// Model that predicted the throughput.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<Model>,
    /// Workload of the plan; absent if the model contains it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<Workload>,
    /// Tools that made this document, in the order in which they ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub provenance: Vec<Provenance>,
}

wire_form!(Plan, "mt.plan/1");

/// Cross-validated prediction error for co-runs of the plan's kind, that is, co-runs as far from the remaining training
/// data as the plan is from the measurements. For a plan on several GPUs, the largest of their errors.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PredictionError {
    /// Kind of the plan by its distance from the measurements. With several GPUs, the kind with the largest error,
    /// where an unknown error counts as the largest.
    pub kind: Kind,
    /// Mean absolute error of the throughput of each task in co-runs of this kind, in percent; absent if too few could
    /// be held out to estimate it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_percent: Option<f64>,
    /// Number of throughputs that were held out.
    #[serde(default)]
    pub cases: u64,
    /// Number of parts that were held out, one after another. Errors within a part are correlated.
    #[serde(default)]
    pub parts: u32,
}

/// One task of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanTask {
    /// Name of the task.
    pub id: String,
    /// Batch size; required if the plan has a model, and for a launch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<u64>,
    /// Share in percent; required if the plan has a model, and for a launch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_percent: Option<f64>,
    /// Number of the GPU on which the task runs, from 0; absent for a single GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<u32>,
    /// Number of samples to train on in one round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples: Option<u64>,
    /// Exponential average of the samples over past rounds, from which the mismatch is computed if damping was
    /// requested; absent: `samples`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_samples: Option<u64>,
    /// Number of bytes to transfer before and after compute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_bytes: Option<UpdateBytes>,
    /// Predicted throughput while all tasks run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput: Option<Estimate>,
    /// Throughput alone on the whole device, in samples per second, with which `throughput` is compared.
    /// `constraints.solo` says whether it is the best over the task's batch sizes or that at this batch size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub solo_samples_per_s: Option<f64>,
}

/// A predicted throughput with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Estimate {
    /// Prediction in samples per second.
    pub samples_per_s: f64,
    /// Lower end of the interval, in samples per second.
    pub low_samples_per_s: f64,
    /// Upper end of the interval, in samples per second.
    pub high_samples_per_s: f64,
}

/// Rates of the tasks while exactly these tasks are active.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RateRow {
    /// Names of the active tasks.
    pub active: Vec<String>,
    /// Throughput of each active task, by name, in samples per second.
    pub samples_per_s: BTreeMap<String, f64>,
}

/// The best measured co-run and the best plan by the model's prediction, both under the constraints. The predicted plan
/// is chosen if its expected value exceeds that of the measured co-run by more than 3 % of itself plus the distance of
/// the measured co-run to its lower end. The expected value is the objective; if the objective is a time, it is
/// multiplied by `1 + (1 - objective/low_objective)^2`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Candidates {
    /// Which of the two candidates is the plan.
    pub chosen: Chosen,
    /// The best measured co-run.
    pub measured: Candidate,
    /// The best plan by the model's prediction; absent if no plan is feasible under the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted: Option<Candidate>,
}

/// Which of the two candidates is the plan.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Chosen {
    /// The best measured co-run. Unless it is also the model's best, `search` gives the gap to the model's best, and
    /// the result is not proven optimal, but may be `within-noise` of a proven optimum.
    Measured,
    /// The best plan by the model's prediction.
    Predicted,
}

/// A configuration and its objective, measured or predicted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Candidate {
    /// Number of the configuration in the profile; absent if it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<u64>,
    /// Value of the plan's objective; larger is better.
    pub objective: f64,
    /// Lower end of the 95 % interval of the objective. Absent only for a prediction: if the rates may be so low that a
    /// task makes no progress, there is no lower end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low_objective: Option<f64>,
    /// Batch size and share of each task.
    pub tasks: Vec<Choice>,
}

/// Whether sharing is worth it: compares the same work done together and done one task after another.
///
/// On one GPU, the work of a round includes its transfers in both cases. Together, they are in the best order found, as
/// `mt-overlap` computes it; one after another, the transfers of a task overlap the compute of the others. Otherwise
/// only compute is compared; with several GPUs, each task runs on the GPU that the plan assigns to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Verdict {
    /// Whether running together is faster.
    pub share: bool,
    /// Kind of work that is compared.
    pub work: WorkKind,
    /// Time of the work in seconds when the tasks run together, with the batch sizes and shares of the plan. When a
    /// task ends, the others keep their shares, or also get its share if the device can change shares.
    pub together_s: f64,
    /// Lower end of the 95 % interval of `together_s`, in seconds.
    pub together_low_s: f64,
    /// Upper end of that interval, in seconds; absent if the interval of a rate reaches 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub together_high_s: Option<f64>,
    /// Time of the work in seconds with one task at a time on the whole device.
    pub one_after_another_s: f64,
    /// Fastest scheme of equal shares at the plan's batch sizes, and its time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best_static: Option<StaticScheme>,
    /// Work of each task, and its best batch size alone.
    pub tasks: Vec<WorkAlone>,
}

/// Times at which the tasks reach their targets. The total is the objective in seconds: the weighted mean over the
/// tasks (`progress`) or the last time (`progress-last`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// Whether the plan reaches the targets sooner than one task after another.
    pub share: bool,
    /// Time to the targets with the plan, in seconds.
    pub together_s: f64,
    /// Lower end of the 95 % interval of `together_s`, in seconds. It follows from the intervals of the throughputs
    /// and, if known, of the noise scales and of the rows of tables of efficiency.
    pub together_low_s: f64,
    /// Upper end of that interval, in seconds; absent if the interval of a rate reaches 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub together_high_s: Option<f64>,
    /// Time to the targets in seconds if, in each round, the tasks run one after another on the whole device. Their
    /// batch sizes are such that changing any single one is no faster.
    pub one_after_another_s: f64,
    /// 95 % interval of `one_after_another_s / together_s`: lower and upper end. The error of the rounds of a task with
    /// the same batch size on both sides is left out, because both take equally many; at different sizes the errors
    /// are independent. Present if a table of efficiency has intervals. The lower end is 0 if `together_high_s` is
    /// absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gain_interval: Option<[f64; 2]>,
    /// Plan with the shortest round, regardless of the value of a sample, and its time to the targets; absent if none
    /// was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fastest_samples: Option<FastestSamples>,
    /// Target of each task.
    pub tasks: Vec<TaskTarget>,
}

/// Batch sizes and shares of the plan with the shortest round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FastestSamples {
    /// Time to the targets in seconds.
    pub seconds: f64,
    /// Batch size and share of each task.
    pub tasks: Vec<Choice>,
}

/// Target of one task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskTarget {
    /// Name of the task.
    pub id: String,
    /// Progress per sample at the plan's batch size, relative to the reference size.
    pub efficiency: f64,
    /// Number of rounds to the target at the plan's batch size.
    pub rounds: f64,
    /// Time at which the task reaches its target with the plan, in seconds.
    pub seconds: f64,
    /// Batch size of the task when the tasks run one after another.
    pub alone_batch: u64,
}

/// Kind of work that a verdict compares.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum WorkKind {
    /// The samples of every task in one round.
    Round,
    /// The samples that the plan trains in one second. This mixture is used because no data volumes are given.
    Mixture,
}

/// A scheme of equal shares, and the time that the work of a verdict takes with it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StaticScheme {
    /// Name of the scheme.
    pub name: Scheme,
    /// Time of the work in seconds.
    pub seconds: f64,
}

/// The work of one task, and its batch size with the highest throughput alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkAlone {
    /// Name of the task.
    pub id: String,
    /// Number of samples to train on; fractional if the work is a mixture.
    pub samples: f64,
    /// Batch size with the highest throughput alone.
    pub batch: u64,
    /// Throughput alone at that batch size, in samples per second.
    pub solo_samples_per_s: f64,
}

/// A simpler scheme that a plan is compared with.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Scheme {
    /// One task at a time on the whole GPU, with equal work for each.
    Temporal,
    /// Equal shares of `100/n` % each.
    Isolated,
    /// No limits: 100 % each.
    Sharing,
    /// NVIDIA's advice for static shares: `100/(0.5 n)` % each, at most 100.
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
    /// Quantity that is maximised.
    pub kind: ObjectiveKind,
    /// Predicted value of the objective; larger is better.
    pub value: f64,
}

/// Constraints that a plan must meet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Constraints {
    /// Step of the shares in percent: each share is a multiple of it.
    pub share_step_percent: f64,
    /// Required sum of the shares in percent; absent: any sum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rv_percent: Option<f64>,
    /// Lower limit of `P_i / S_i` for every task, 0 to 1; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starvation_floor: Option<f64>,
    /// Memory in bytes that the tasks of one GPU may use; absent: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Rule by which batch sizes are chosen.
    pub batch: BatchPolicy,
    /// Upper limit of the mismatch; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mismatch: Option<f64>,
    /// Quantity that should be proportional to the data volumes.
    pub balance: Balance,
    /// Definition of the solo rate `S_i` in fairness, max-min and the starvation floor; absent: `same-batch`.
    #[serde(default, skip_serializing_if = "SoloRate::is_same_batch")]
    pub solo: SoloRate,
}

/// Definition of the solo rate `S_i` with which throughput is compared.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum SoloRate {
    /// The best rate over the task's batch sizes, which is what the task has without sharing. If the plan keeps
    /// reference sizes (`batch`), the rate at the reference size.
    Best,
    /// The rate at the chosen batch size (FedMT). A batch size that is slow alone then looks as fair as the best one.
    #[default]
    SameBatch,
}

impl SoloRate {
    fn is_same_batch(&self) -> bool {
        *self == Self::SameBatch
    }
}

/// Rule by which batch sizes are chosen.
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
    /// Each task keeps its reference batch size (`batch`; absent: the first of its sizes).
    Reference,
}

/// Quantity that should be proportional to the data volumes (FedMT eq. 6).
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Balance {
    /// Batch sizes: the mismatch sums `|D_a/D_b - B_a/B_b|`.
    #[default]
    Batch,
    /// Workloads `O = alpha f B + beta m B`.
    Workload,
    /// Throughput, so that all tasks finish at the same time.
    Time,
}

/// A simpler scheme and its predicted results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Baseline {
    /// Name of the scheme.
    pub name: Scheme,
    /// Total throughput in samples per second.
    pub total_samples_per_s: f64,
    /// Sum over the tasks of throughput relative to throughput alone.
    pub fairness: f64,
    /// Value of the plan's objective; larger is better.
    pub objective: f64,
    /// Whether the scheme meets the constraints.
    pub feasible: bool,
    /// Batch size and share of each task.
    pub tasks: Vec<Choice>,
}

/// A plan on a Pareto front, or one of the next best plans.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ParetoPoint {
    /// Value of the plan's objective; larger is better.
    pub objective: f64,
    /// Distance of the batch sizes from the requested balance.
    pub mismatch: f64,
    /// Total throughput in samples per second.
    pub total_samples_per_s: f64,
    /// Sum over the tasks of throughput relative to throughput alone.
    pub fairness: f64,
    /// Batch size and share of each task.
    pub tasks: Vec<Choice>,
}

/// Effect of changing one task's share while everything else stays the same.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Marginal {
    /// Name of the task whose share changes.
    pub id: String,
    /// Share after the change, in percent.
    pub share_percent: f64,
    /// Change of the objective.
    pub objective_change: f64,
    /// Change of the throughput of each task, by name, in samples per second.
    pub samples_per_s_change: BTreeMap<String, f64>,
}

/// Results of the plan on one of several GPUs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GpuPlan {
    /// Number of the GPU, from 0.
    pub gpu: u32,
    /// Names of the tasks on this GPU.
    pub tasks: Vec<String>,
    /// Sum of their shares in percent.
    pub rv_percent: f64,
    /// Total throughput in samples per second.
    pub total_samples_per_s: f64,
    /// Sum over its tasks of throughput relative to throughput alone.
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
    /// Proven: every point was evaluated.
    Enumerated,
    /// Proven: a bound excluded the points that were not evaluated.
    Bounded,
    /// The plan is a measured co-run, and the bound, which is proven under the model, does not exceed the 95 % interval
    /// of its measured objective.
    WithinNoise,
    /// Not proven.
    NotProven,
}

impl Proof {
    /// Whether no other result is better under the model.
    pub fn is_proven(self) -> bool {
        matches!(self, Self::Enumerated | Self::Bounded)
    }
}

/// Search that found a result, and what it proves.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Search {
    /// Number of points (or nodes) that were evaluated.
    pub points: u64,
    /// Whether the result is proven optimal under the model.
    pub proof: Proof,
    /// Bound that no result can beat, on the objective of a plan or on the makespan of a timeline; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<f64>,
    /// Duration of the search in seconds; absent unless requested, because it differs from run to run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
}

/// A constraint that can make a plan infeasible.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum ConstraintKind {
    /// Lower limit of `P_i / S_i` for every task.
    StarvationFloor,
    /// Upper limit of the mismatch between batch sizes and data volumes.
    Mismatch,
    /// Memory of a GPU, in bytes.
    Memory,
    /// Sum of the shares, in percent.
    Rv,
    /// How batch sizes may be chosen. `limit` and `best` are 0 for no and 1 for yes.
    Batch,
    /// Number of settings outside the profiled domain.
    Domain,
}

/// One reason why no plan is feasible.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Infeasibility {
    /// Constraint that cannot be met.
    pub constraint: ConstraintKind,
    /// Value that the constraint demands.
    pub limit: f64,
    /// Best value that can be reached.
    pub best: f64,
    /// Change that would make a plan feasible, for people.
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
