//! Checks a claim that no plan meets the constraints: compares it with the request and, if there are few plans, tries
//! all of them.

use doc::{BatchPolicy, ConstraintKind, Constraints, Infeasibility, Infeasible, Model, Plan};
use predict::Predictor;
use units::TotalShare;

use super::choices::{Choices, Value};
use super::frame::Frame;
use super::proof::{all_plans, is_outside, settings};
use crate::judge::Judge;

/// Relative tolerance by which a reason may name a better value than the best of all plans tried here: a search meets
/// constraints to 1e-9, and sums in another order.
const FURTHER: f64 = 1e-6;

/// Judges the limits that the reasons name, the claim of infeasibility itself, and how far each constraint can be
/// met.
pub fn judge(plan: &Plan, none: &Infeasible, model: &Model, predictor: &Predictor, j: &mut Judge) {
    let Some(constraints) = &none.constraints else {
        return j.unjudged("infeasible", "the plan does not contain its constraints");
    };
    each(none, j, |reason, j| limit(reason, constraints, j));
    let workload = &model.workload;
    if workload.device.gpus != 1 {
        return j.unjudged("infeasible", "several GPUs: would need a search of its own");
    }
    once(none, j);
    let mut frame = Frame::new(plan, workload, predictor);
    frame.constraints = Some(constraints);
    let start = Choices {
        batch: Vec::new(),
        share: Vec::new(),
        gpu: vec![0; workload.tasks.len()],
    };
    let step = constraints.share_step.hundredths();
    let Some(all) = all_plans(&frame, step, None, &start) else {
        return j.unjudged("infeasible", "would need a search of its own");
    };
    let all: Vec<(Choices, Value)> = all
        .into_iter()
        .map(|choices| {
            let value = frame.evaluate(&choices);
            (choices, value)
        })
        .collect();
    keeps(none, constraints, &frame, &all, j);
    each(none, j, |reason, j| best(reason, &frame, &all, j));
}

/// On one GPU each constraint appears once; several GPUs would have separate reasons.
fn once(none: &Infeasible, j: &mut Judge) {
    for (i, reason) in none.reasons.iter().enumerate() {
        let mut before = none.reasons[..i].iter();
        if before.any(|other| other.constraint == reason.constraint) {
            let claimed = format!("{} again", doc::name_of(&reason.constraint));
            j.field("infeasible", |j| {
                j.index(i, |j| j.contradiction("constraint", claimed, "each once"));
            });
        }
    }
}

fn each(none: &Infeasible, j: &mut Judge, mut look: impl FnMut(&Infeasibility, &mut Judge)) {
    for (i, reason) in none.reasons.iter().enumerate() {
        j.field("infeasible", |j| j.index(i, |j| look(reason, j)));
    }
}

/// The limit that a reason names must be the one that the constraint sets.
fn limit(reason: &Infeasibility, c: &Constraints, j: &mut Judge) {
    let asked = match reason.constraint {
        ConstraintKind::StarvationFloor => c.starvation_floor,
        ConstraintKind::Mismatch => c.mismatch,
        ConstraintKind::Memory => c.memory.map(|most| most.get() as f64),
        ConstraintKind::Rv => c.rv.map(TotalShare::percent),
        // The limit of a largest batch size (--max-batch) stands only in the reason; 0 means that all tasks must have
        // the same size.
        ConstraintKind::Batch => {
            let largest = reason.limit >= 1.0 && reason.limit.fract() == 0.0;
            if !(largest && reason.best > reason.limit) && c.batch == BatchPolicy::Free {
                j.contradiction("constraint", "batch", "one that is asked for");
            }
            return;
        }
        // The limit is a number of settings outside the profiled domain: none are allowed.
        ConstraintKind::Domain => return j.number("limit", reason.limit, 0.0),
    };
    match asked {
        Some(asked) => j.number("limit", reason.limit, asked),
        None => {
            let claimed = doc::name_of(&reason.constraint);
            j.contradiction("constraint", claimed, "one that is asked for");
        }
    }
}

/// A single feasible plan contradicts a proof that there is none.
fn keeps(
    none: &Infeasible,
    constraints: &Constraints,
    frame: &Frame<'_>,
    all: &[(Choices, Value)],
    j: &mut Judge,
) {
    let search = none.search.as_ref();
    let proven = search.is_some_and(|s| s.proof.is_proven());
    // For batch and domain, the actual limits are stricter than the listed constraints.
    let told =
        |r: &Infeasibility| !matches!(r.constraint, ConstraintKind::Batch | ConstraintKind::Domain);
    if !proven || !none.reasons.iter().all(told) {
        return;
    }
    let summed = |choices: &Choices| {
        let sum: TotalShare = choices.share.iter().copied().sum();
        constraints.rv.is_none_or(|rv| rv == sum)
    };
    let found = all.iter().find(|(choices, value)| {
        summed(choices)
            && !is_outside(frame, choices)
            && frame.broken(choices, value, true).is_none()
    });
    if let Some((choices, _)) = found {
        let truth = format!("{} keeps the constraints", settings(frame, choices));
        j.contradiction("infeasible", "no plan", truth);
    }
}

/// The best value that a reason names must be reachable: at least one plan reaches it if all other constraints are
/// ignored.
fn best(reason: &Infeasibility, frame: &Frame<'_>, all: &[(Choices, Value)], j: &mut Judge) {
    let every: Vec<usize> = (0..frame.workload.tasks.len()).collect();
    let of_all = |of: &dyn Fn(&Choices, &Value) -> f64| -> Vec<f64> {
        all.iter().map(|(c, value)| of(c, value)).collect()
    };
    let values = match reason.constraint {
        ConstraintKind::StarvationFloor => of_all(&|_, value| {
            let relative = every.iter().map(|&i| value.rates[i] / value.solo[i]);
            relative.fold(f64::INFINITY, f64::min)
        }),
        ConstraintKind::Mismatch => of_all(&|c, value| frame.mismatch(c, value, &every)),
        ConstraintKind::Memory => of_all(&|c, _| frame.memory(c, &every).iter().sum()),
        ConstraintKind::Rv | ConstraintKind::Batch | ConstraintKind::Domain => {
            return j.unjudged("best", "would need a search of its own");
        }
    };
    // A floor is a lower limit; every other constraint is an upper limit.
    let reached = if reason.constraint == ConstraintKind::StarvationFloor {
        let most = values.into_iter().fold(f64::NEG_INFINITY, f64::max);
        (reason.best > most + FURTHER * most.abs()).then(|| format!("at most {most}"))
    } else {
        let least = values.into_iter().fold(f64::INFINITY, f64::min);
        (reason.best < least - FURTHER * least.abs()).then(|| format!("at least {least}"))
    };
    if let Some(reached) = reached {
        let truth = format!("{reached}, as of all plans");
        j.contradiction("best", reason.best, truth);
    }
}
