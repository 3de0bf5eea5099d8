use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Cluster, Provenance, is_default, wire_form};

/// Which task of a cluster's jobs runs where and when.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "mt.schedule/1")]
pub struct Schedule {
    /// `mt.schedule/1`.
    pub schema: String,
    /// Name of the instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Who scheduled.
    pub policy: SchedulePolicy,
    /// Sum of weight times completion.
    pub cost: f64,
    /// Sum of weight times (completion less arrival).
    pub flow_cost: f64,
    /// Mean of completion less arrival.
    pub mean_s: f64,
    /// 95th percentile of the time from arrival to completion: the value at rank `ceil(0.95 n)`.
    pub p95_s: f64,
    /// The last completion.
    pub makespan_s: f64,
    /// Fraction of GPU time until the makespan that is spent training, from 0 to 1.
    pub utilisation: f64,
    /// Lower bound on the cost of any schedule (without switching).
    pub lower_bound: f64,
    /// Which relaxation gave the bound.
    pub bound: ScheduleBound,
    /// `cost / lower_bound - 1`.
    pub gap: f64,
    /// Whether no schedule is better.
    pub proven: bool,
    /// Largest relative deviation (0 to below 1) of a duration from the cluster's, as it would be
    /// in reality; the bound allows for it. Absent: all durations are the cluster's.
    #[serde(default, skip_serializing_if = "is_default")]
    pub noise: f64,
    /// Total synchronisation time of all tasks in seconds, if there is noise; without noise it
    /// follows from the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sync_s: Option<f64>,
    /// Other policies on the same instance.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub baselines: Vec<ScheduleBaseline>,
    /// Modelled switching between jobs; absent: not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switching: Option<Switching>,
    /// The instance.
    pub cluster: Cluster,
    /// Fingerprint of GPUs and jobs: the schedule belongs only to this instance.
    pub fingerprint: String,
    /// The tasks, by start.
    pub assignments: Vec<ScheduledTask>,
    /// Which tools made this document.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub provenance: Vec<Provenance>,
}

wire_form!(Schedule, "mt.schedule/1");

/// Who schedules.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum SchedulePolicy {
    /// The portfolio of mt-cluster.
    Hare,
    /// Hare's algorithm as published.
    HareLiteral,
    /// Gavel's FIFO: gangs in order of arrival.
    Fifo,
    /// Shortest remaining time first, with gangs, preempting between rounds.
    Srtf,
    /// Weighted, ignoring GPU types.
    Homo,
    /// AlloX: a job on one GPU, by matching.
    Allox,
    /// Hare without knowing arrivals in advance.
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

/// Which relaxation gave a lower bound.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum ScheduleBound {
    /// Each job alone on the cluster.
    Chain,
    /// Identical machines, every subset's volume (Q).
    Queyranne,
    /// Unrelated machines (U).
    Unrelated,
    /// Fluid over intervals of time (F).
    Fluid,
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
            Self::Queyranne => "queyranne",
            Self::Unrelated => "unrelated",
            Self::Fluid => "fluid",
            Self::Prices => "prices",
            Self::Exact => "exact",
        }
    }
}

/// Another policy on the same instance.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScheduleBaseline {
    /// The policy.
    pub name: SchedulePolicy,
    /// Sum of weight times completion.
    pub cost: f64,
    /// Sum of weight times (completion less arrival).
    pub flow_cost: f64,
    /// `cost / lower_bound`.
    pub over_bound: f64,
}

/// Modelled switching between the jobs of a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Switching {
    /// How a GPU switches.
    pub mode: SwitchingMode,
    /// Always true: no switch has been measured.
    pub modelled: bool,
    /// Switches to another job than the one before on the GPU.
    pub switches: u32,
    /// Switches to a job whose model is still in memory, with the residency used.
    pub hits: u32,
    /// Hits if the newest models stay (Hare's rule).
    pub hits_newest: u32,
    /// Hits if the model whose next use is farthest goes (Belady).
    pub hits_belady: u32,
    /// Sum of all switching times.
    pub total_s: f64,
    /// `total_s` over the time of training and switching, from 0 to 1.
    pub share: f64,
}

/// How a GPU switches between jobs.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum SwitchingMode {
    /// A new process and context, and the whole model copied.
    Restart,
    /// The model copied by groups of layers while the first are computed.
    Pipelined,
    /// Pipelined, with early cleaning and models that stay resident.
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

/// One task of one round of a job on a GPU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScheduledTask {
    /// Name of the job.
    pub job: String,
    /// Round, from 0.
    pub round: u32,
    /// Task of the round, from 0.
    pub task: u32,
    /// Name of the GPU.
    pub gpu: String,
    /// Start on the GPU, in seconds.
    pub start_s: f64,
    /// Seconds of switching, at the start; absent: none.
    #[serde(default, skip_serializing_if = "is_default")]
    pub switch_s: f64,
    /// When training ends and the GPU is free.
    pub train_end_s: f64,
    /// When its result is synchronised.
    pub synced_s: f64,
    /// Number of equal rounds, this one and its successors: this task on this GPU, each `period_s` after the one
    /// before; absent: only this one. A schedule of more than 600,000 tasks has at most as many entries, each cut
    /// where that of another task of its job begins or ends, no modelled switching, and one task on a GPU at a
    /// time.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub rounds: u32,
    /// Seconds from the start of a round to that of the next, if there are several.
    #[serde(default, skip_serializing_if = "is_default")]
    pub period_s: f64,
}

fn one() -> u32 {
    1
}

fn is_one(rounds: &u32) -> bool {
    *rounds == 1
}
