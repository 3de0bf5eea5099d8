use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Cluster, Provenance, is_default, wire_form};

/// A schedule: where and when each task of a cluster's jobs runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "mt.schedule/1")]
pub struct Schedule {
    /// `mt.schedule/1`.
    pub schema: String,
    /// Name of the instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Policy that made the schedule.
    pub policy: SchedulePolicy,
    /// Sum over the jobs of weight times completion time, in seconds.
    pub cost: f64,
    /// Sum over the jobs of weight times (completion time minus arrival time), in seconds.
    pub flow_cost: f64,
    /// Mean over the jobs of the time from arrival to completion, in seconds.
    pub mean_s: f64,
    /// 95th percentile over the n jobs of the time from arrival to completion, in seconds: the value at rank
    /// `ceil(0.95 n)`.
    pub p95_s: f64,
    /// Completion time of the last job, in seconds.
    pub makespan_s: f64,
    /// Fraction of GPU time until the makespan that is spent training, 0 to 1.
    pub utilisation: f64,
    /// Lower bound of the cost: no schedule costs less (without switching).
    pub lower_bound: f64,
    /// Relaxation that gave the lower bound.
    pub bound: ScheduleBound,
    /// `cost / lower_bound - 1`.
    pub gap: f64,
    /// Whether the schedule is proven optimal.
    pub proven: bool,
    /// Largest relative deviation (0 to below 1) of a duration from its value in the cluster document, to imitate
    /// reality; the bound allows for it. Absent: 0, all durations are those of the cluster document.
    #[serde(default, skip_serializing_if = "is_default")]
    pub noise: f64,
    /// Total synchronisation time of all tasks in seconds. Absent without noise, because it then follows from the
    /// cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sync_s: Option<f64>,
    /// Results of other policies on the same instance.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub baselines: Vec<ScheduleBaseline>,
    /// Modelled cost of switching between jobs; absent: switching is not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switching: Option<Switching>,
    /// Instance that was scheduled: GPUs and jobs.
    pub cluster: Cluster,
    /// Fingerprint of the GPUs and jobs. It ties the schedule to this instance.
    pub fingerprint: String,
    /// Tasks, by start time.
    pub assignments: Vec<ScheduledTask>,
    /// Tools that made this document, in the order in which they ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub provenance: Vec<Provenance>,
}

wire_form!(Schedule, "mt.schedule/1");

/// Policy that makes a schedule.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum SchedulePolicy {
    /// The portfolio of algorithms of mt-cluster.
    Hare,
    /// Hare's algorithm as published.
    HareLiteral,
    /// Gavel's FIFO: gangs in order of arrival.
    Fifo,
    /// Shortest remaining time first, with gangs, preempting between rounds.
    Srtf,
    /// Weighted completion time, ignoring the types of GPU.
    Homo,
    /// AlloX: each job runs on one GPU, chosen by matching.
    Allox,
    /// Hare without knowledge of future arrivals.
    Online,
}

impl SchedulePolicy {
    /// The name as it is in a document.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Hare => "hare",
            Self::HareLiteral => "hare-literal",
            Self::Fifo => "fifo",
            Self::Srtf => "srtf",
            Self::Homo => "homo",
            Self::Allox => "allox",
            Self::Online => "online",
        }
    }
}

/// Relaxation that gave a lower bound.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum ScheduleBound {
    /// Each job alone on the cluster.
    Chain,
    /// Unrelated machines.
    Unrelated,
    /// Prices of GPU time.
    Prices,
    /// Branch and bound over all schedules.
    Exact,
}

impl ScheduleBound {
    /// The name as it is in a document.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Chain => "chain",
            Self::Unrelated => "unrelated",
            Self::Prices => "prices",
            Self::Exact => "exact",
        }
    }
}

/// Result of another policy on the same instance.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScheduleBaseline {
    /// Name of the policy.
    pub name: SchedulePolicy,
    /// Sum over the jobs of weight times completion time, in seconds.
    pub cost: f64,
    /// Sum over the jobs of weight times (completion time minus arrival time), in seconds.
    pub flow_cost: f64,
    /// `cost / lower_bound`.
    pub over_bound: f64,
}

/// Modelled cost of switching a GPU between jobs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Switching {
    /// Method by which a GPU switches.
    pub mode: SwitchingMode,
    /// Always true: no switch has been measured.
    pub modelled: bool,
    /// Number of times that a GPU starts a task of another job than its previous one.
    pub switches: u32,
    /// Number of switches to a job whose model is still in memory, as charged in `total_s`.
    pub hits: u32,
    /// Number of such switches if the most recently used models stay in memory (Hare's rule).
    pub hits_newest: u32,
    /// Number of such switches if the model with the farthest next use is evicted (Belady).
    pub hits_belady: u32,
    /// Sum of all switching times, in seconds.
    pub total_s: f64,
    /// `total_s` divided by the total time of training and switching, 0 to 1.
    pub share: f64,
}

/// Method by which a GPU switches between jobs.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum SwitchingMode {
    /// A new process and context are started, and then the whole model is copied.
    Restart,
    /// The model is copied by groups of layers, while the first groups already compute.
    Pipelined,
    /// Pipelined, with early cleaning and models that stay in memory.
    Hare,
}

impl SwitchingMode {
    /// The name as it is in a document.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Restart => "restart",
            Self::Pipelined => "pipelined",
            Self::Hare => "hare",
        }
    }
}

/// One task of one round of a job on a GPU, and of the equal rounds that follow it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScheduledTask {
    /// Name of the job.
    pub job: String,
    /// Number of the round, from 0.
    pub round: u32,
    /// Number of the task in its round, from 0.
    pub task: u32,
    /// Name of the GPU.
    pub gpu: String,
    /// Time at which the GPU starts with the task, switching included, in seconds.
    pub start_s: f64,
    /// Switching time at the start, in seconds; absent: 0.
    #[serde(default, skip_serializing_if = "is_default")]
    pub switch_s: f64,
    /// Time at which training ends and the GPU is free, in seconds.
    pub train_end_s: f64,
    /// Time at which the synchronisation of its result ends, in seconds.
    pub synced_s: f64,
    /// Number of equal rounds that the entry stands for: this round and those that follow it, with the same task on the
    /// same GPU, each `period_s` after the previous one; absent: 1. A schedule of more than 600,000 tasks has at most
    /// 600,000 entries. Each of them ends where the entry of another task of its job begins or ends, switching is not
    /// modelled, and a GPU runs one task at a time.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub rounds: u32,
    /// Time from the start of a round to the start of the next, in seconds; absent for a single round.
    #[serde(default, skip_serializing_if = "is_default")]
    pub period_s: f64,
}

fn one() -> u32 {
    1
}

fn is_one(rounds: &u32) -> bool {
    *rounds == 1
}
