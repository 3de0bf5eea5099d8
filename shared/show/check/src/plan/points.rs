//! Checks fronts, alternatives and marginal changes.

use doc::{Chosen, Feasible, ParetoPoint};

use super::choices::{Choices, Value};
use super::frame::Frame;
use crate::judge::Judge;

/// Judges the points of both fronts and the alternatives.
pub fn fronts(plan: &Feasible, frame: &Frame<'_>, value: &Value, j: &mut Judge) {
    let every: Vec<usize> = (0..value.rates.len()).collect();
    let best = if frame.round_of_objective().is_some() {
        plan.objective.value
    } else {
        frame.objective(value, &every)
    };
    j.field("pareto", |j| {
        points(&plan.pareto, frame, false, j);
        undominated(&plan.pareto, |p| (-p.mismatch, p.objective), j);
    });
    j.field("pareto_fairness", |j| {
        points(&plan.pareto_fairness, frame, true, j);
        let axes = |p: &ParetoPoint| (p.total_samples_per_s, p.fairness);
        undominated(&plan.pareto_fairness, axes, j);
    });
    j.field("alternatives", |j| {
        points(&plan.alternatives, frame, true, j);
        // If a measured co-run was chosen as the plan, the model's best may have a better objective; it is then
        // listed here.
        let candidates = plan.candidates.as_ref();
        let measured = candidates.is_some_and(|c| c.chosen == Chosen::Measured);
        let mut before = if measured { f64::INFINITY } else { best };
        for (i, p) in plan.alternatives.iter().enumerate() {
            if p.objective > before + 1e-9 * p.objective.abs() {
                let truth = format!("at most {before}, what stands before it");
                j.index(i, |j| j.contradiction("objective", p.objective, truth));
            }
            before = p.objective;
        }
    });
}

fn points(claimed: &[ParetoPoint], frame: &Frame<'_>, with_mismatch: bool, j: &mut Judge) {
    for (i, point) in claimed.iter().enumerate() {
        j.index(i, |j| {
            let Some(choices) = Choices::of_point(&point.tasks, frame.workload) else {
                return j.contradiction("tasks", "these tasks", "every task of the workload once");
            };
            let every: Vec<usize> = (0..choices.batch.len()).collect();
            let value = frame.evaluate(&choices);
            let (raw, fair) = Frame::totals(&value, &every);
            let objective = frame.objective(&value, &every);
            frame.judge_objective("objective", point.objective, &choices, objective, j);
            j.number_of(
                "mismatch",
                point.mismatch,
                frame.mismatch(&choices, &value, &every),
                1.0,
            );
            j.number("total_samples_per_s", point.total_samples_per_s, raw);
            j.number("fairness", point.fairness, fair);
            not_above_count(point.fairness, every.len(), j);
            if let Some(fault) = frame.broken(&choices, &value, with_mismatch) {
                j.contradiction("tasks", "kept constraints", fault);
            }
        });
    }
}

/// Checks that `sum P_i / S_i` over `n` tasks is at most `n`: no task is faster than alone on the whole device.
pub fn not_above_count(fairness: f64, n: usize, j: &mut Judge) {
    let most = n as f64;
    if fairness > most * (1.0 + 1e-9) {
        j.contradiction(
            "fairness",
            fairness,
            format!("at most {most}, one for each task"),
        );
    }
}

/// No point may be at least as good as another in both respects (larger is better).
fn undominated(claimed: &[ParetoPoint], axes: impl Fn(&ParetoPoint) -> (f64, f64), j: &mut Judge) {
    for (i, p) in claimed.iter().enumerate() {
        let (x, y) = axes(p);
        let dominating = claimed.iter().enumerate().position(|(k, q)| {
            let (u, v) = axes(q);
            k != i && u >= x && v >= y
        });
        if let Some(k) = dominating {
            j.index(i, |j| {
                j.contradiction("", "on the front", format!("point {k} is as good in both"))
            });
        }
    }
}

/// Judges the effects of changing one share.
pub fn explanation(
    plan: &Feasible,
    frame: &Frame<'_>,
    chosen: &Choices,
    value: &Value,
    j: &mut Judge,
) {
    every_change(plan, frame, chosen, j);
    for (at, claimed) in plan.explanation.iter().enumerate() {
        let task = frame.workload.task_index(&claimed.id);
        j.field("explanation", |j| {
            j.index(at, |j| {
                let Some(task) = task else {
                    return j.contradiction("id", &claimed.id, "a task of the plan");
                };
                let tasks = chosen.on(chosen.gpu[task]);
                let mut moved = chosen.clone();
                moved.share[task] = claimed.share;
                let other = frame.evaluate(&moved);
                let before = frame.objective(value, &tasks);
                let change = frame.objective(&other, &tasks) - before;
                if frame.round_of_objective().is_some() {
                    j.unjudged("objective_change", "the best order would need a search");
                } else {
                    let said = claimed.objective_change;
                    j.number_of("objective_change", said, change, before.abs());
                }
                for &i in &tasks {
                    let id = &frame.workload.tasks[i].id;
                    let change = other.rates[i] - value.rates[i];
                    j.field("samples_per_s_change", |j| {
                        match claimed.samples_per_s_change.get(id) {
                            Some(&c) => j.number_of(id.as_str(), c, change, value.rates[i]),
                            None => j.contradiction(id.as_str(), "nothing", change),
                        }
                    });
                }
            });
        });
    }
}

/// Checks that every possible change is listed: each task with a slightly smaller and a slightly larger share, by
/// the same step, as long as the share stays above 0 and at most 100 %, in the order of the workload.
fn every_change(plan: &Feasible, frame: &Frame<'_>, chosen: &Choices, j: &mut Judge) {
    let told: Vec<(&units::TaskId, u32)> = plan
        .explanation
        .iter()
        .map(|change| (&change.id, change.share.hundredths()))
        .collect();
    let Some((id, share)) = told.first() else {
        return;
    };
    let tasks = &frame.workload.tasks;
    let Some(first) = frame.workload.task_index(id) else {
        return;
    };
    let step = share.abs_diff(chosen.share[first].hundredths());
    let mut truth = Vec::new();
    for (task, share) in tasks.iter().zip(&chosen.share) {
        let now = share.hundredths();
        let less = now.checked_sub(step).filter(|less| *less > 0);
        let more = Some(now + step).filter(|more| *more <= units::Share::FULL.hundredths());
        let changes = less.into_iter().chain(more);
        truth.extend(changes.map(|share| (&task.id, share)));
    }
    if told != truth {
        let truth = format!(
            "{} changes by {} % in order",
            truth.len(),
            f64::from(step) / 100.0
        );
        j.contradiction("explanation", format!("{} changes", told.len()), truth);
    }
}
