use super::{Choice, choice};
use crate::Checker;
use crate::wire::{self, Scheme};

/// A simpler scheme and what it would reach.
#[derive(Debug, Clone, PartialEq)]
pub struct Baseline {
    /// Which scheme.
    pub name: Scheme,
    /// Total throughput in samples per second.
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
#[derive(Debug, Clone, PartialEq)]
pub struct ParetoPoint {
    /// Value of the plan's objective.
    pub objective: f64,
    /// Distance from the balance asked for.
    pub mismatch: f64,
    /// Total throughput in samples per second.
    pub total_samples_per_s: f64,
    /// Total of throughput relative to solo.
    pub fairness: f64,
    /// What each task runs with.
    pub tasks: Vec<Choice>,
}

pub(super) fn baseline(wire: &wire::Baseline, c: &mut Checker) -> Option<Baseline> {
    let tasks = c.list("tasks", &wire.tasks, choice);
    Some(Baseline {
        name: wire.name,
        total_samples_per_s: wire.total_samples_per_s,
        fairness: wire.fairness,
        objective: wire.objective,
        feasible: wire.feasible,
        tasks: tasks?,
    })
}

pub(super) fn point(wire: &wire::ParetoPoint, c: &mut Checker) -> Option<ParetoPoint> {
    let tasks = c.list("tasks", &wire.tasks, choice);
    Some(ParetoPoint {
        objective: wire.objective,
        mismatch: wire.mismatch,
        total_samples_per_s: wire.total_samples_per_s,
        fairness: wire.fairness,
        tasks: tasks?,
    })
}

fn choices(tasks: &[Choice]) -> Vec<wire::Choice> {
    tasks.iter().map(Choice::to_wire).collect()
}

impl Baseline {
    pub(super) fn to_wire(&self) -> wire::Baseline {
        wire::Baseline {
            name: self.name,
            total_samples_per_s: self.total_samples_per_s,
            fairness: self.fairness,
            objective: self.objective,
            feasible: self.feasible,
            tasks: choices(&self.tasks),
        }
    }
}

impl ParetoPoint {
    pub(super) fn to_wire(&self) -> wire::ParetoPoint {
        wire::ParetoPoint {
            objective: self.objective,
            mismatch: self.mismatch,
            total_samples_per_s: self.total_samples_per_s,
            fairness: self.fairness,
            tasks: choices(&self.tasks),
        }
    }
}
