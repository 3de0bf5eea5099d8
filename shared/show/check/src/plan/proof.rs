//! Tests a claim of optimality with the plan's neighbours.

use doc::{Feasible, Proof};
use units::corun::Setting;
use units::{Share, TotalShare};

use super::choices::{Choices, Value};
use super::frame::Frame;
use crate::judge::Judge;

/// Improvement that exceeds rounding. A search adds up in another order, and meets constraints to 1e-9, so a
/// neighbour with a smaller advantage proves nothing.
const BETTER: f64 = 1e-6;

/// Up to this many plans, all are checked: two tasks of three batch sizes in steps of 5 %, or three of one in steps
/// of 10 %. A GP of a hundred co-runs takes some tens of milliseconds for them.
const MOST_PLANS: usize = 4_000;

/// A plan that is claimed to be the best is compared with every plan of its step, total and batch sizes if these are
/// few. Otherwise with those that differ by one step in one share, or by moving one step between two.
///
/// The latter is a necessary condition, not a second search: it needs about `n^2` predictions, while the proof may
/// have needed millions. It detects a plan that is the best only for one total share. Plans outside the profiled
/// domain are left out, because a search may leave them out.
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
    let total = plan.constraints.rv.map(TotalShare::percent);
    // Already refused: skip the exhaustive pass.
    let all = j
        .lies
        .is_empty()
        .then(|| all_plans(frame, step, total, chosen));
    let others = all
        .flatten()
        .unwrap_or_else(|| neighbours(chosen, step, total.is_some()));
    for other in others {
        if is_outside(frame, &other) {
            continue;
        }
        let worth = frame.evaluate(&other);
        // For rounds: an upper bound from a simple order.
        let objective = match round.and_then(|_| frame.played(&other)) {
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
            return j.contradiction("search.proof", claimed, truth);
        }
    }
}

/// Every batch size of the workload with every share of a step, with the given total of shares; `None` if there are
/// more than [`MOST_PLANS`].
pub fn all_plans(
    frame: &Frame<'_>,
    step: u32,
    total: Option<f64>,
    chosen: &Choices,
) -> Option<Vec<Choices>> {
    let full = Share::FULL.hundredths();
    let shares: Vec<Share> = (1..=full / step.max(1))
        .map(|k| Share::from_hundredths(k * step))
        .collect();
    let mut all = vec![Choices {
        batch: Vec::new(),
        share: Vec::new(),
        gpu: chosen.gpu.clone(),
    }];
    for task in &frame.workload.tasks {
        let settings = task.batch_sizes.len() * shares.len();
        if all.len().saturating_mul(settings) > MOST_PLANS {
            return None;
        }
        let mut longer = Vec::with_capacity(all.len() * settings);
        for plan in &all {
            for &batch in &task.batch_sizes {
                for &share in &shares {
                    let mut next = plan.clone();
                    next.batch.push(batch);
                    next.share.push(share);
                    longer.push(next);
                }
            }
        }
        all = longer;
    }
    let sum = |plan: &Choices| plan.share.iter().map(|s| s.percent()).sum::<f64>();
    all.retain(|plan| total.is_none_or(|total| (sum(plan) - total).abs() < 1e-6));
    Some(all)
}

pub fn is_outside(frame: &Frame<'_>, choices: &Choices) -> bool {
    let active: Vec<Setting> = (0..choices.batch.len())
        .map(|task| Setting {
            task,
            batch: choices.batch[task],
            share: choices.share[task],
        })
        .collect();
    !frame.predictor.outside(&active).is_empty()
}

pub fn settings(frame: &Frame<'_>, choices: &Choices) -> String {
    let tasks = frame.workload.tasks.iter().enumerate();
    let each = tasks.map(|(i, t)| {
        let (batch, share) = (choices.batch[i], choices.share[i].percent());
        format!("{} {batch} at {share} %", t.id)
    });
    each.collect::<Vec<_>>().join(", ")
}

/// Choices that differ by one step in one share, or by moving one step between two; only the latter if the sum is
/// given.
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
