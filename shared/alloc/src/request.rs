use doc::{BatchPolicy, ObjectiveKind, Plan};
use units::Batch;

use crate::answer::Options;
use crate::problem::Limits;

/// What a plan is asked to be.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// What is maximised.
    pub objective: ObjectiveKind,
    /// What has to hold.
    pub limits: Limits,
    /// How to search; `top` counts the plan itself.
    pub options: Options,
    /// Trace the front of mismatch against objective.
    pub mismatch_front: bool,
    /// Trace the front of total throughput against fairness.
    pub fairness_front: bool,
    /// Say what a little more or less share would change.
    pub explain: bool,
    /// Whether a plan may lie outside what was measured ([`Throughput::covers`]).
    pub outside: bool,
    /// Whether a measured co-run may be the plan.
    pub measured: bool,
    /// Weight of the previous load (0 to below 1), if the load is damped over rounds.
    pub damping: Option<f64>,
    /// Largest batch size that a task may take.
    pub max_batch: Option<Batch>,
    /// Whether the mismatch has to be the least that is feasible, in place of a bound.
    pub least_mismatch: bool,
}

impl Request {
    /// The plan of the largest `objective` within limits and within what was measured.
    #[must_use]
    pub fn new(objective: ObjectiveKind, limits: Limits) -> Self {
        Self {
            objective,
            limits,
            options: Options::default(),
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

    /// What a plan was asked to be; none of one that does not say what it maximises.
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
        };
        Some(Self {
            // What asks again does not stop because a plan made for it earlier lies outside.
            outside: true,
            ..Self::new(found.objective.kind, limits)
        })
    }

    /// Whether choices are looked at for more than the plan.
    pub(crate) fn looks_again(&self) -> bool {
        let limits = &self.limits;
        let bounded = limits.mismatch.is_some() || limits.policy != BatchPolicy::Free;
        bounded || self.least_mismatch || self.mismatch_front || self.fairness_front
    }
}
