//! Checks a plan with a table of rates instead of a model.

use doc::{Decision, Feasible, ObjectiveKind, Plan};

use super::baselines::share_of;
use super::points;
use crate::judge::Judge;
use crate::rates::{everyone, table};

/// Checks that the throughput of each task equals that in the table's row with all tasks.
pub fn judge(plan: &Plan, j: &mut Judge) {
    let rows = table(plan);
    j.unjudged("rates", "the rates of a table cannot be checked");
    if let Some(found) = plan.feasible() {
        objective(plan, found, j);
        baselines(plan, found, j);
    }
    let Some(together) = rows.get(&everyone(plan.tasks.len())) else {
        return;
    };
    for i in 0..plan.tasks.len() {
        let given = plan.given(i);
        j.field("tasks", |j| {
            j.index(i, |j| {
                if let Some(claimed) = given.throughput {
                    j.field("throughput", |j| {
                        let mean = claimed.mean.get();
                        j.number("samples_per_s", mean, together[i]);
                        // The table does not give the width of the interval, which must contain the mean.
                        let (low, high) = (claimed.low.get(), claimed.high.get());
                        if low > together[i] {
                            j.contradiction(
                                "low_samples_per_s",
                                low,
                                format!("at most {}", together[i]),
                            );
                        }
                        if high < together[i] {
                            j.contradiction(
                                "high_samples_per_s",
                                high,
                                format!("at least {}", together[i]),
                            );
                        }
                    });
                }
                if let (Some(claimed), Some(alone)) = (given.solo, rows.get(&(1 << i))) {
                    let (claimed, alone) = (claimed.get(), alone[i]);
                    // A search compares with the task alone on the whole device at its best batch size; the row has
                    // the task's own share and batch size, so it may be lower. A hand-written plan has only the
                    // row.
                    if plan.feasible().is_none() || claimed < alone {
                        j.number("solo_samples_per_s", claimed, alone);
                    }
                }
            });
        });
    }
}

/// Checks that the objective follows from the given throughput.
fn objective(plan: &Plan, found: &Feasible, j: &mut Judge) {
    let rate = |d: &Decision| d.throughput.mean.get();
    let relative = |d: &Decision| rate(d) / d.solo.get();
    let rates = || found.decisions.iter().map(rate);
    let relatives = || found.decisions.iter().map(relative);
    let times = plan
        .tasks
        .iter()
        .zip(rates())
        .map(|(task, rate)| Some(-task.samples?.as_f64() / rate));
    let least = |values: Vec<f64>| values.into_iter().fold(f64::INFINITY, f64::min);
    let value: Option<f64> = match found.objective.kind {
        ObjectiveKind::Raw => Some(rates().sum()),
        ObjectiveKind::Fairness => Some(relatives().sum()),
        ObjectiveKind::MaxMin => Some(least(relatives().collect())),
        // With transfers, or if the others speed up when a task ends, the length of a round is not work divided by
        // one rate.
        ObjectiveKind::Round if plan.rates.len() > 1 => None,
        ObjectiveKind::Round => times.collect::<Option<_>>().map(least),
        // A plan with a table has no workload, and so no weights or value of samples.
        ObjectiveKind::Weighted | ObjectiveKind::Progress | ObjectiveKind::ProgressLast => None,
    };
    let claimed = found.objective.value;
    let timed = plan.tasks.iter().all(|task| task.samples.is_some());
    let kind = found.objective.kind;
    let to_target = kind.is_progress() && timed;
    if to_target && found.target.is_none() {
        j.contradiction("target", "nothing", "when the targets are reached");
    }
    if (kind == ObjectiveKind::Round || to_target) && claimed > 0.0 {
        let truth = "at most 0: seconds count against it";
        j.field("objective", |j| j.contradiction("value", claimed, truth));
    }
    match value {
        Some(value) => j.field("objective", |j| j.number("value", claimed, value)),
        None => j.unjudged("objective", "there is too little to recompute it from"),
    }
}

/// Checks what needs no row of the table: each scheme appears once, with its shares and the plan's batch sizes.
fn baselines(plan: &Plan, found: &Feasible, j: &mut Judge) {
    let chosen: Vec<_> = plan.tasks.iter().zip(&found.decisions).collect();
    for (at, claimed) in found.baselines.iter().enumerate() {
        let repeated = found.baselines[..at].iter().any(|b| b.name == claimed.name);
        j.field("baselines", |j| {
            j.index(at, |j| {
                if repeated {
                    j.contradiction("name", claimed.name.name(), "each scheme once");
                }
                if found.objective.kind == ObjectiveKind::Raw {
                    j.number("objective", claimed.objective, claimed.total_samples_per_s);
                }
                points::not_above_count(claimed.fairness, plan.tasks.len(), j);
                let share = share_of(claimed.name, plan.tasks.len());
                if claimed.tasks.len() != plan.tasks.len() {
                    j.contradiction("tasks", claimed.tasks.len(), plan.tasks.len());
                }
                for (task, decision) in &chosen {
                    let Some(own) = claimed.tasks.iter().position(|c| c.id == task.id) else {
                        j.contradiction(
                            "tasks",
                            format!("nothing of {}", task.id),
                            "every task once",
                        );
                        continue;
                    };
                    j.field("tasks", |j| {
                        j.index(own, |j| {
                            let own = &claimed.tasks[own];
                            j.same("batch", own.batch, decision.batch);
                            j.same("share_percent", own.share.percent(), share.percent());
                        });
                    });
                }
            });
        });
    }
}
