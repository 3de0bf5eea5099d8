//! A claim that no plan is better is put to the test with the plan's neighbours.

use corun::Setting;
use doc::{Feasible, Proof};
use units::Share;

use super::choices::{Choices, Frame, Value};
use crate::judge::Judge;

/// Improvement that is more than rounding. A search compares sums in another order, and meets
/// constraints to 1e-9; a neighbour better by less proves nothing.
const BETTER: f64 = 1e-6;

/// A plan that is proven to be the best cannot be improved by moving the share of one task a
/// step, or by exchanging a step between two tasks.
///
/// This is a necessary condition, not a second search: it needs some `n^2` predictions where the
/// proof may have needed millions. It catches a plan of one total share that is passed off as the
/// best of all. Batch sizes stay, as a search may have been given fewer of them than the workload
/// has. Neighbours outside what was profiled are left out, as a search may do.
pub fn judge(plan: &Feasible, frame: &Frame<'_>, chosen: &Choices, value: &Value, j: &mut Judge) {
    let proven = plan.search.proof != Proof::NotProven;
    if !proven || chosen.gpus().len() != 1 {
        return;
    }
    let every: Vec<usize> = (0..chosen.batch.len()).collect();
    let round = frame.round_of_objective();
    let reached = match round {
        Some(_) => plan.objective.value,
        None => frame.objective(value, &every),
    };
    let step = plan.constraints.share_step.hundredths();
    for other in neighbours(chosen, step, plan.constraints.rv.is_some()) {
        if is_outside(frame, &other) {
            continue;
        }
        let worth = frame.evaluate(&other);
        // Of a round, what a simple order reaches.
        let objective = match round.and_then(|r| r.together(frame, &other)) {
            Some(range) => -range.high,
            None => frame.objective(&worth, &every),
        };
        let better = objective > reached + BETTER * reached.abs();
        if better && frame.broken(&other, &worth, true).is_none() {
            let claimed = doc::name_of(&plan.search.proof);
            let truth = format!(
                "not proven: {} is better, {objective} against {reached}",
                settings(frame, &other)
            );
            return j.lie("search.proof", claimed, truth);
        }
    }
}

fn is_outside(frame: &Frame<'_>, choices: &Choices) -> bool {
    let active: Vec<Setting> = (0..choices.batch.len())
        .map(|task| Setting {
            task,
            batch: choices.batch[task],
            share: choices.share[task],
        })
        .collect();
    !frame.predictor.outside(&active).is_empty()
}

fn settings(frame: &Frame<'_>, choices: &Choices) -> String {
    let tasks = frame.workload.tasks.iter().enumerate();
    let each = tasks.map(|(i, t)| {
        let (batch, share) = (choices.batch[i], choices.share[i].percent());
        format!("{} {batch} at {share} %", t.id)
    });
    each.collect::<Vec<_>>().join(", ")
}

/// Choices that differ in one step of one share, or in one step between two, which is all where
/// the sum is given.
fn neighbours(chosen: &Choices, step: u32, fixed_sum: bool) -> Vec<Choices> {
    let n = chosen.batch.len();
    let moved = |i: usize, up: bool| -> Option<Share> {
        let now = chosen.share[i].hundredths();
        let then = if up {
            now.checked_add(step)?
        } else {
            now.checked_sub(step)?
        };
        let valid = then > 0 && then <= Share::FULL.hundredths();
        valid.then(|| Share::from_hundredths(then))
    };
    let mut all = Vec::new();
    for i in 0..n {
        let Some(more) = moved(i, true) else {
            continue;
        };
        let mut other = chosen.clone();
        other.share[i] = more;
        if !fixed_sum {
            all.push(other.clone());
        }
        for k in (0..n).filter(|&k| k != i) {
            if let Some(less) = moved(k, false) {
                let mut exchanged = other.clone();
                exchanged.share[k] = less;
                all.push(exchanged);
            }
        }
    }
    for i in (0..n).filter(|_| !fixed_sum) {
        if let Some(less) = moved(i, false) {
            let mut other = chosen.clone();
            other.share[i] = less;
            all.push(other);
        }
    }
    all
}
