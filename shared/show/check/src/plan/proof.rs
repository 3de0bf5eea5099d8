//! Tests a claim of optimality against neighbouring plans, or against all plans if they are few.

use doc::Feasible;
use units::corun::Setting;
use units::{Share, TotalShare};

use super::choices::{Choices, Value};
use super::frame::Frame;
use crate::judge::Judge;

/// Relative improvement that cannot be rounding. A search sums in another order and meets constraints to 1e-9, so a
/// neighbour with a smaller advantage proves nothing.
const BETTER: f64 = 1e-6;

/// Up to this many plans, all are checked: that is two tasks with three batch sizes each in steps of 5 %, or three
/// tasks with one each in steps of 10 %. A GP of a hundred co-runs takes some tens of milliseconds for them.
const MOST_PLANS: usize = 4_000;

/// Checks a plan that is claimed to be the best. If there are few plans of its step, total and batch sizes, it is
/// compared with all of them. Otherwise it is compared with the plans that differ by one step in one share, or in
/// which one step moves from one share to another.
///
/// The second comparison is only a necessary condition, not another search: it needs about `n^2` predictions, while
/// the proof may have needed millions. It detects a plan that is the best only for one total share. Plans outside
/// the profiled domain are left out, because a search may leave them out too.
pub fn judge(plan: &Feasible, frame: &Frame<'_>, chosen: &Choices, value: &Value, j: &mut Judge) {
    let proven = plan.search.proof.is_proven();
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
        // For a round, use the time of a simple order: the best order is no slower.
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

/// All combinations of the workload's batch sizes and of shares that are multiples of the step, with the given total
/// of shares; `None` if there are more than [`MOST_PLANS`].
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
        let batch = choices.batch[i];
        let share = choices.share[i].percent();
        format!("{} {batch} at {share} %", t.id)
    });
    each.collect::<Vec<_>>().join(", ")
}

/// Choices that differ by one step in one share, or in which one step moves from one share to another. If the sum of
/// shares is fixed, only the latter.
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
