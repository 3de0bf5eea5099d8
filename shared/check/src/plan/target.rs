//! When a plan says that its tasks reach their targets.

use doc::{Feasible, Scheme};
use units::Seconds;

use super::choices::Choices;
use super::frame::Frame;
use super::progress::efficiency;
use crate::judge::Judge;

/// Judges when a plan says that its tasks reach their targets.
pub fn judge(plan: &Feasible, frame: &Frame<'_>, chosen: &Choices, j: &mut Judge) {
    let Some(claimed) = &plan.target else {
        if frame.is_to_target() && plan.objective.value.is_finite() {
            j.lie("target", "nothing", "when the targets are reached");
        }
        return;
    };
    if !frame.is_to_target() {
        let kind = doc::name_of(&frame.kind);
        return j.lie("target", "times", format!("none of the objective {kind}"));
    }
    j.field("target", |j| {
        let together = claimed.together.get();
        j.number("together_s", together, -plan.objective.value);
        interval(claimed, frame, chosen, j);
        let serial = plan.baselines.iter().find(|b| b.name == Scheme::Temporal);
        let alone = claimed.one_after_another.get();
        if let Some(serial) = serial {
            j.number("one_after_another_s", alone, -serial.objective);
        }
        j.same("share", claimed.share, together < alone);
        if let Some(fastest) = &claimed.fastest_samples {
            j.field("fastest_samples", |j| {
                let own = Choices::of_point(&fastest.tasks, frame.workload);
                let Some(own) = own else {
                    return j.lie("tasks", "these tasks", "every task of the workload once");
                };
                let value = frame.evaluate(&own);
                if let Some(fault) = frame.broken(&own, &value, true) {
                    j.lie("tasks", "within the constraints", fault);
                }
                let every: Vec<usize> = (0..own.batch.len()).collect();
                let truth = frame.objective(&value, &every);
                frame.judge_objective("seconds", -fastest.seconds.get(), &own, truth, j);
            });
        }
        tasks(claimed, plan, frame, chosen, j);
    });
}

fn interval(claimed: &doc::Target, frame: &Frame<'_>, chosen: &Choices, j: &mut Judge) {
    let together = claimed.together.get();
    let (low, high) = (claimed.together_low.get(), claimed.together_high);
    let high = high.map(Seconds::get);
    if frame.round.is_some() {
        if low > together {
            j.lie("together_low_s", low, "at most together_s");
        }
        if let Some(high) = high.filter(|high| *high < together) {
            j.lie("together_high_s", high, "at least together_s");
        }
        return j.unjudged(
            "together_low_s",
            "depends on the order, which mt-overlap gives",
        );
    }
    let at = |errors: f64| {
        let mut times = vec![0.0; chosen.batch.len()];
        for gpu in chosen.gpus() {
            let tasks = chosen.on(gpu);
            let own = frame.computed_times(chosen, &tasks, errors)?;
            for i in tasks {
                times[i] = own[i];
            }
        }
        Some(frame.joined(&times))
    };
    // Half width of a 95 % interval in standard errors.
    let least = at(1.96).unwrap_or(together).min(together);
    j.number("together_low_s", low, least);
    let most = at(-1.96).map(|high| high.max(together));
    j.optional_number("together_high_s", high, most);
}

fn tasks(
    claimed: &doc::Target,
    plan: &Feasible,
    frame: &Frame<'_>,
    chosen: &Choices,
    j: &mut Judge,
) {
    if claimed.tasks.len() != chosen.batch.len() {
        j.lie("tasks", claimed.tasks.len(), chosen.batch.len());
    }
    let played = frame.played_times(chosen);
    let value = frame.evaluate(chosen);
    let serial = plan.baselines.iter().find(|b| b.name == Scheme::Temporal);
    for (i, task) in frame.workload.tasks.iter().enumerate() {
        let Some(at) = claimed.tasks.iter().position(|t| t.id == task.id) else {
            j.lie("tasks", format!("nothing of {}", task.id), "its target");
            continue;
        };
        let one = &claimed.tasks[at];
        let (batch, seconds) = (chosen.batch[i], one.seconds.get());
        j.field("tasks", |j| {
            j.index(at, |j| {
                j.number("efficiency", one.efficiency, efficiency(task, batch));
                j.number("rounds", one.rounds, frame.rounds(i, batch));
                match &played {
                    Some(played) => played[i].judge("seconds", seconds, j),
                    None => j.number("seconds", seconds, value.last_end[i]),
                }
                let own = serial.and_then(|b| b.tasks.iter().find(|c| c.id == task.id));
                if let Some(own) = own {
                    j.same("alone_batch", one.alone_batch, own.batch);
                }
            });
        });
    }
    // The times of the tasks, each within what it may be, make the one of the plan.
    let mut times = vec![0.0; chosen.batch.len()];
    for one in &claimed.tasks {
        if let Some(i) = frame.workload.task_index(&one.id) {
            times[i] = one.seconds.get();
        }
    }
    j.number("together_s", claimed.together.get(), frame.joined(&times));
}
