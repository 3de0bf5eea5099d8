use super::choice::{Choice, choice};
use crate::checker::optional;
use crate::wire::{self, Chosen, Scheme};
use crate::{Checker, Code};

/// A simpler scheme and its predicted results.
#[derive(Debug, Clone, PartialEq)]
pub struct Baseline {
    /// Which scheme.
    pub name: Scheme,
    /// Total throughput in samples per second.
    pub total_samples_per_s: f64,
    /// Sum over the tasks of throughput relative to throughput alone.
    pub fairness: f64,
    /// Value of the plan's objective.
    pub objective: f64,
    /// Whether the scheme meets the constraints.
    pub feasible: bool,
    /// Batch size and share of each task.
    pub tasks: Vec<Choice>,
}

/// A plan on a Pareto front, or one of the next best plans.
#[derive(Debug, Clone, PartialEq)]
pub struct ParetoPoint {
    /// Value of the plan's objective.
    pub objective: f64,
    /// Distance from the requested balance.
    pub mismatch: f64,
    /// Total throughput in samples per second.
    pub total_samples_per_s: f64,
    /// Sum over the tasks of throughput relative to throughput alone.
    pub fairness: f64,
    /// Batch size and share of each task.
    pub tasks: Vec<Choice>,
}

/// The best measured co-run and the best plan by the model's prediction; the plan is one of the two.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidates {
    /// Which of the two was chosen as the plan.
    pub chosen: Chosen,
    /// The best measured co-run.
    pub measured: Candidate,
    /// The best plan by the model's prediction; absent if no plan meets the constraints under the model.
    pub predicted: Option<Candidate>,
}

/// A configuration and its objective, measured or predicted.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// Number of the configuration in the profile, if it was measured.
    pub config: Option<u64>,
    /// Value of the plan's objective.
    pub objective: f64,
    /// Lower end of the 95 % interval of the objective. Absent only for a prediction: if the rates may be so low that
    /// a task makes no progress, a time in seconds has no limit.
    pub low: Option<f64>,
    /// Batch size and share of each task.
    pub tasks: Vec<Choice>,
}

pub(super) fn candidates(wire: &wire::Candidates, c: &mut Checker) -> Option<Candidates> {
    let measured = c.field("measured", |c| {
        if wire.measured.low_objective.is_none() {
            c.field("low_objective", |c| {
                let advice = "give it: what was measured has an interval";
                c.fault(Code::MissingField, "absent", advice);
            });
        }
        candidate(&wire.measured, c)
    });
    let predicted = optional(c, "predicted", wire.predicted.as_ref(), candidate);
    if wire.chosen == Chosen::Predicted && wire.predicted.is_none() {
        c.field("predicted", |c| {
            let advice = "give it, or choose the measured one";
            c.fault(Code::MissingField, "absent, though it is the plan", advice);
        });
        return None;
    }
    Some(Candidates {
        chosen: wire.chosen,
        measured: measured?,
        predicted: predicted?,
    })
}

fn candidate(wire: &wire::Candidate, c: &mut Checker) -> Option<Candidate> {
    Some(Candidate {
        config: wire.config,
        objective: wire.objective,
        low: wire.low_objective,
        tasks: c.list("tasks", &wire.tasks, choice)?,
    })
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

impl Candidates {
    pub(super) fn to_wire(&self) -> wire::Candidates {
        wire::Candidates {
            chosen: self.chosen,
            measured: self.measured.to_wire(),
            predicted: self.predicted.as_ref().map(Candidate::to_wire),
        }
    }
}

impl Candidate {
    fn to_wire(&self) -> wire::Candidate {
        wire::Candidate {
            config: self.config,
            objective: self.objective,
            low_objective: self.low,
            tasks: choices(&self.tasks),
        }
    }
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
