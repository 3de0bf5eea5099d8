use doc::{BatchPolicy, Model, ObjectiveKind, Plan};
use units::Batch;

use crate::problem::Limits;
use crate::search::answer::SearchOptions;

/// A request for a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The objective.
    pub objective: ObjectiveKind,
    /// The constraints.
    pub limits: Limits,
    /// How to search; `top` counts the plan itself.
    pub options: SearchOptions,
    /// Trace the front of mismatch against objective.
    pub mismatch_front: bool,
    /// Trace the front of total throughput against fairness.
    pub fairness_front: bool,
    /// Whether to report the effect of slightly larger and smaller shares.
    pub explain: bool,
    /// Whether a plan may lie outside the measured domain ([`units::corun::Throughput::covers`]).
    pub outside: bool,
    /// Whether a measured co-run may be the plan.
    pub measured: bool,
    /// Weight of the previous load (0 to below 1), if the load is damped over rounds.
    pub damping: Option<f64>,
    /// Largest batch size that a task may take.
    pub max_batch: Option<Batch>,
    /// Whether to minimise the mismatch first, instead of bounding it.
    pub least_mismatch: bool,
}

/// Command-line options of a request; absent ones get defaults ([`Request::for_model`]).
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Asked {
    /// The objective.
    pub objective: Option<ObjectiveKind>,
    /// Starvation floor.
    pub floor: Option<f64>,
    /// How batch sizes may be chosen.
    pub batch: Option<BatchPolicy>,
}

impl Request {
    /// The request for a model, with defaults for absent options:
    ///
    /// - the objective is progress if the efficiency of samples is known, otherwise the objective of the profile,
    ///   otherwise the workload's default;
    /// - the floor is that of the profile;
    /// - batch sizes are chosen for progress, or if another option concerns them (a mismatch, its front, a maximum
    ///   size). Otherwise each task keeps its reference size: larger batches give more samples per second, but the
    ///   value of these samples is unknown.
    #[must_use]
    pub fn for_model(&self, asked: &Asked, model: &Model) -> Self {
        let mut request = self.clone();
        let aim = model.aim.as_ref();
        let workload = &model.workload;
        let usual = || match aim {
            Some(aim) if !workload.knows_efficiency() => aim.objective,
            _ => workload.default_objective(),
        };
        request.objective = asked.objective.unwrap_or_else(usual);
        let profiled = || aim.and_then(|a| a.starvation_floor).unwrap_or(0.0);
        request.limits.floor = asked.floor.unwrap_or_else(profiled);
        let about_sizes = self.limits.mismatch.is_some()
            || self.least_mismatch
            || self.mismatch_front
            || self.max_batch.is_some();
        request.limits.policy = asked.batch.unwrap_or(match about_sizes {
            true => BatchPolicy::Free,
            false => default_policy(request.objective),
        });
        request
    }

    /// A request to maximise `objective` within the limits and the measured domain.
    #[must_use]
    pub fn new(objective: ObjectiveKind, limits: Limits) -> Self {
        Self {
            objective,
            limits,
            options: SearchOptions::default(),
            mismatch_front: false,
            fairness_front: false,
            explain: false,
            outside: false,
            measured: true,
            damping: None,
            max_batch: None,
            least_mismatch: false,
        }
    }

    /// The request that led to a plan; `None` if the plan does not name its objective.
    #[must_use]
    pub fn of_plan(plan: &Plan) -> Option<Self> {
        let found = plan.feasible()?;
        let held = &found.constraints;
        let limits = Limits {
            step: held.share_step,
            rv: held.rv,
            floor: held.starvation_floor.unwrap_or(0.0),
            memory: held.memory,
            policy: held.batch,
            mismatch: held.mismatch,
            balance: held.balance,
            solo: held.solo,
            alone: None,
        };
        Some(Self {
            // Repeating a request must not fail because the earlier plan lies outside.
            outside: true,
            ..Self::new(found.objective.kind, limits)
        })
    }

    /// Whether choices are evaluated again after the search for the plan, for a comparison or a front.
    pub(crate) fn looks_again(&self) -> bool {
        let limits = &self.limits;
        let bounded = limits.mismatch.is_some() || limits.policy != BatchPolicy::Free;
        bounded || self.least_mismatch || self.mismatch_front || self.fairness_front
    }
}

/// Default batch-size policy: all sizes if the objective accounts for the lower efficiency of large batches,
/// otherwise the reference of each task.
#[must_use]
pub fn default_policy(objective: ObjectiveKind) -> BatchPolicy {
    match objective.is_progress() {
        true => BatchPolicy::Free,
        false => BatchPolicy::Reference,
    }
}
