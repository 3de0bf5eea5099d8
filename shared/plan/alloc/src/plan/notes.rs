//! Notes for users, in addition to the plan.

use doc::{BatchPolicy, ConstraintKind, Infeasible, Model, ObjectiveKind, Plan, Workload};

use units::Bytes;

use crate::plan::request::Request;
use crate::problem::round::Round;

/// Notes if the measurements were made for a different kind of plan than the requested one.
pub fn measurements(model: &Model, request: &Request) -> impl Iterator<Item = String> {
    let sizes = measured_sizes(model, request);
    aim(model, request).into_iter().chain(sizes)
}

/// A note if the measurements were made for another objective.
fn aim(model: &Model, request: &Request) -> Option<String> {
    let aim = model.aim?;
    (aim.objective != request.objective).then(|| {
        format!(
            "the co-runs were chosen for the objective {}, the plan is for {}: profile with \
             --objective {1} for a better one",
            doc::name_of(&aim.objective),
            doc::name_of(&request.objective)
        )
    })
}

/// A note if the plan chooses batch sizes, but co-runs were measured at the reference sizes only.
fn measured_sizes(model: &Model, request: &Request) -> Option<String> {
    let tasks = &model.workload.tasks;
    let chosen = request.limits.policy != BatchPolicy::Reference;
    let several = tasks.iter().any(|t| t.batch_sizes.len() > 1);
    let together = || model.measured.iter().filter(|c| c.tasks.len() > 1);
    let reference = |m: &doc::Measured| {
        let task = tasks.iter().find(|t| t.id == m.id);
        task.is_some_and(|t| t.reference() == m.batch)
    };
    let kept = together().all(|c| c.tasks.iter().all(reference));
    (chosen && several && kept && together().next().is_some()).then(|| {
        "co-runs were measured at the reference batch sizes only, so rates at other sizes are less certain: profile \
         with --batch free, too"
            .to_owned()
    })
}

/// If batch sizes stay at the reference because the value of a sample at other sizes is unknown: the speed that
/// other sizes would gain.
#[must_use]
pub fn sizes(plan: &Plan) -> Option<String> {
    let found = plan.feasible()?;
    let workload = plan.workload()?;
    let unknown = |t: &doc::Task| t.efficiency.is_none() && t.batch_sizes.len() > 1;
    let kept = found.constraints.batch == BatchPolicy::Reference;
    if !kept || !workload.tasks.iter().any(unknown) {
        return None;
    }
    let size = |t: &doc::Task| format!("{} {}", t.id, t.reference());
    let sizes: Vec<String> = workload.tasks.iter().map(size).collect();
    let own = found.objective.value;
    let open = found.unconstrained_objective;
    // A time is stored as a negative number, so a value closer to 0 is a shorter time.
    let change = open.map(|open| match found.objective.kind {
        ObjectiveKind::Round => 100.0 * (1.0 - open / own),
        _ => 100.0 * (open / own - 1.0),
    });
    let gain = change.map_or_else(String::new, |change| {
        let what = match found.objective.kind {
            ObjectiveKind::Round => "shorten the round",
            _ => "raise the objective",
        };
        format!("; the best of all sizes would {what} by {change:.1} %")
    });
    Some(format!(
        "batch sizes stay at the reference ({}){gain}, but what larger batches cost in progress is unknown: declare it in the workload (`efficiency`), or profile and choose by speed, with --batch free for both",
        sizes.join(", ")
    ))
}

/// The distance of a plan from the measurements, and the model's error on held-out configurations.
#[must_use]
pub fn prediction(plan: &Plan) -> Option<String> {
    let told = plan.feasible()?.prediction?;
    let kind = told.kind.words();
    Some(match told.error_percent {
        Some(error) => format!(
            "the plan has {kind}: for such co-runs the model's mean error was {error:.1} %, over {} held-out throughputs",
            told.cases
        ),
        None => format!(
            "the plan has {kind}: there were too few measurements to estimate the model's error for such co-runs"
        ),
    })
}

/// A note if a round is planned by compute alone although its transfers take time.
#[must_use]
pub fn transfers(workload: &Workload) -> Option<String> {
    let link = workload.link?;
    let moves = |t: &doc::Task| {
        let bytes = t.update_bytes.unwrap_or_default();
        bytes.down.transfer_seconds(link.down) + bytes.up.transfer_seconds(link.up) > 0.0
    };
    let volumes = workload.tasks.iter().all(|t| t.samples.is_some());
    let reason = Round::of_workload(workload).err()?;
    (volumes && workload.tasks.iter().any(moves))
        .then(|| format!("the times of the plan include compute only, no transfers: {reason}"))
}

/// The constraints that make the problem infeasible, and what would make it feasible, one line each. `id` is the
/// name of the workload.
#[must_use]
pub fn infeasible(id: Option<&str>, none: &Infeasible) -> Vec<String> {
    let mut lines = vec![format!(
        "no plan of {} is feasible",
        id.unwrap_or("the workload")
    )];
    for reason in &none.reasons {
        if reason.constraint == ConstraintKind::Domain {
            // The domain constraint has no value to suggest.
            lines.push(reason.advice.clone());
            continue;
        }
        let name = doc::name_of(&reason.constraint);
        let (asked, had) = (reason.limit, reason.best);
        let what = match reason.constraint {
            ConstraintKind::Memory => memory(had, asked),
            _ => format!("{asked} is requested, {had} is possible"),
        };
        lines.push(format!("{name}: {what}; {}", reason.advice));
    }
    lines
}

/// The minimum needs of the tasks and the capacity, in bytes if both would print the same with a larger unit.
fn memory(needed: f64, there: f64) -> String {
    let shown = |bytes: f64| Bytes::new(bytes as u64).map(|b| b.to_string()).ok();
    match (shown(needed), shown(there)) {
        (Some(needs), Some(has)) if needs != has => format!("needs {needs}, the device has {has}"),
        _ => format!("needs {needed} bytes, the device has {there} bytes"),
    }
}
