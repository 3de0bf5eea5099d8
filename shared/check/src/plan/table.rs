//! A plan with a table of rates in place of a model.

use doc::{ObjectiveKind, Plan};

use crate::judge::Judge;
use crate::rates::{everyone, table};

/// Throughput that is given beside a table must be that of the row with all tasks.
pub fn judge(plan: &Plan, j: &mut Judge) {
    let rows = table(plan);
    j.unjudged("rates", "a table is taken as it stands");
    objective(plan, j);
    let Some(together) = rows.get(&everyone(plan.tasks.len())) else {
        return;
    };
    for (i, task) in plan.tasks.iter().enumerate() {
        j.field("tasks", |j| {
            j.index(i, |j| {
                if let Some(claimed) = task.throughput {
                    j.field("throughput", |j| {
                        j.number("samples_per_s", claimed.mean.get(), together[i]);
                    });
                }
                if let (Some(claimed), Some(alone)) = (task.solo, rows.get(&(1 << i))) {
                    j.number("solo_samples_per_s", claimed.get(), alone[i]);
                }
            });
        });
    }
}

/// The objective is that of the throughput given.
fn objective(plan: &Plan, j: &mut Judge) {
    let Some(claimed) = plan.objective else {
        return;
    };
    let rate = |t: &doc::PlanTask| t.throughput.map(|e| e.mean.get());
    let relative = |t: &doc::PlanTask| Some(rate(t)? / t.solo?.get());
    let time = |t: &doc::PlanTask| Some(-t.samples?.as_f64() / rate(t)?);
    let least =
        |values: Option<Vec<f64>>| values.map(|v| v.into_iter().fold(f64::INFINITY, f64::min));
    let sum = |values: Option<Vec<f64>>| values.map(|v| v.into_iter().sum());
    let tasks = || plan.tasks.iter();
    let value: Option<f64> = match claimed.kind {
        ObjectiveKind::Raw => sum(tasks().map(rate).collect()),
        ObjectiveKind::Fairness => sum(tasks().map(relative).collect()),
        ObjectiveKind::MaxMin => least(tasks().map(relative).collect()),
        ObjectiveKind::Round => least(tasks().map(time).collect()),
        ObjectiveKind::Weighted => None,
    };
    match value {
        Some(value) => j.field("objective", |j| j.number("value", claimed.value, value)),
        None => j.unjudged("objective", "there is too little to recompute it from"),
    }
}
