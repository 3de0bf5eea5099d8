//! Checks a plan: its predictions must match its model, its constraints must hold, and the objective, the baselines
//! and the fronts must follow from the predictions.

mod baselines;
mod candidates;
mod choices;
mod figures;
mod frame;
mod infeasible;
mod interval;
mod points;
mod progress;
mod proof;
mod round;
mod table;
mod target;
mod verdict;

use doc::{Answer, Feasible, Infeasible, Model, Plan, Search, Workload};
use predict::Predictor;

use crate::judge::Judge;
use crate::{model, workload};
use choices::Choices;
use frame::Frame;

/// Judges a plan by the model and workload that it carries.
pub fn judge(plan: &Plan, j: &mut Judge) {
    if let Some(model) = &plan.model {
        j.field("model", |j| model::judge(model, j));
    }
    if let Some(carried) = &plan.workload {
        j.field("workload", |j| workload::judge(carried, j));
    }
    if let Some(carried) = plan.workload() {
        of_workload(plan, carried, j);
    }
    match &plan.answer {
        Answer::Infeasible(none) => infeasible(plan, none, j),
        Answer::Feasible(found) => {
            shares(plan, Some(found.rv), j);
            throughput(plan, Some(found), j);
            searched(&found.search, j);
        }
        Answer::ByHand(by_hand) => {
            shares(plan, by_hand.rv, j);
            throughput(plan, None, j);
        }
    }
}

/// Judges the reasons why nothing is feasible, which follow from the model.
fn infeasible(plan: &Plan, none: &Infeasible, j: &mut Judge) {
    match plan.model.as_ref().map(|m| (m, Predictor::from_model(m))) {
        Some((_, Err(error))) => j.contradiction("model.predictor", "a predictor", error),
        Some((model, Ok(predictor))) if predictor.task_count() == model.workload.tasks.len() => {
            infeasible::judge(plan, none, model, &predictor, j);
        }
        Some((model, Ok(predictor))) => tasks_of_model(model, &predictor, j),
        None => unfounded(j),
    }
    if let Some(search) = &none.search {
        searched(search, j);
    }
}

/// Judges everything that follows from the plan's model or from its table of rates.
fn throughput(plan: &Plan, found: Option<&Feasible>, j: &mut Judge) {
    match &plan.model {
        Some(model) => match Predictor::from_model(model) {
            Err(error) => j.contradiction("model.predictor", "a predictor", error),
            Ok(predictor) => predicted(plan, found, model, &predictor, j),
        },
        None if !plan.rates.is_empty() => table::judge(plan, j),
        None => unfounded(j),
    }
}

fn unfounded(j: &mut Judge) {
    j.unjudged(
        "tasks",
        "neither a model nor a table of rates to recompute from",
    );
}

fn searched(search: &Search, j: &mut Judge) {
    j.field("search", |j| {
        j.unjudged("points", "counts the steps of a search");
        if search.seconds.is_some() {
            j.unjudged("seconds", "how long a search took cannot be repeated");
        }
    });
}

/// Judges the fields that a plan repeats from its workload.
fn of_workload(plan: &Plan, workload: &Workload, j: &mut Judge) {
    // A hand-written plan takes missing fields from its workload; tasks that it omits do not run.
    let by_hand = matches!(plan.answer, Answer::ByHand(_));
    let repeats = |name: &str, claimed: Option<String>, truth: Option<String>, j: &mut Judge| {
        if claimed.is_some() || !by_hand {
            j.same_option(name, claimed, truth);
        }
    };
    repeats("id", plan.id.clone(), workload.id.clone(), j);
    // The order of transfers may change how they share the link, but not the speed of the link.
    let speed = |l: Option<doc::Link>| l.map(|l| format!("{} down, {} up", l.down, l.up));
    repeats("link", speed(plan.link), speed(workload.link), j);
    let found = matches!(plan.answer, Answer::Feasible(_));
    if found && plan.tasks.len() != workload.tasks.len() {
        j.contradiction("tasks", plan.tasks.len(), workload.tasks.len());
    }
    for (i, task) in plan.tasks.iter().enumerate() {
        let Some(known) = workload.task_index(&task.id).map(|i| &workload.tasks[i]) else {
            continue;
        };
        j.field("tasks", |j| {
            j.index(i, |j| {
                let count = |s: Option<units::Samples>| s.map(|s| s.get().to_string());
                // The plan alone may give volumes, for one round.
                if known.samples.is_some() {
                    repeats("samples", count(task.samples), count(known.samples), j);
                }
                let bytes = |b: Option<doc::UpdateBytes>| {
                    b.map(|b| format!("{} down, {} up", b.down.get(), b.up.get()))
                };
                let claimed = bytes(task.update_bytes);
                let truth = bytes(known.update_bytes);
                repeats("update_bytes", claimed, truth, j);
                // A hand-written plan may have any batch size, for example a plan for some tasks of a timeline.
                if let Some(batch) = plan.given(i).batch
                    && !by_hand
                    && !known.batch_sizes.contains(&batch)
                {
                    j.contradiction("batch", batch, "one of the workload's batch sizes");
                }
                if task.load.is_some() {
                    j.unjudged("load_samples", "depends on the plan of the round before");
                }
            });
        });
    }
}

/// `R_v` is the sum of the shares.
fn shares(plan: &Plan, rv: Option<units::TotalShare>, j: &mut Judge) {
    let tasks = 0..plan.tasks.len();
    let shares: Option<Vec<units::Share>> = tasks.map(|i| plan.given(i).share).collect();
    let sum = shares.map(|s| s.into_iter().sum::<units::TotalShare>().percent());
    if let Some(claimed) = rv {
        match sum {
            Some(sum) => j.same("rv_percent", claimed.percent(), sum),
            None => j.contradiction(
                "rv_percent",
                claimed.percent(),
                "nothing: a task has no share",
            ),
        }
    }
}

/// Reports a predictor whose number of tasks differs from that of its workload.
fn tasks_of_model(model: &Model, predictor: &Predictor, j: &mut Judge) {
    let claimed = predictor.task_count();
    let truth = model.workload.tasks.len();
    j.contradiction(
        "model.predictor",
        format!("{claimed} tasks"),
        format!("{truth}"),
    );
}

/// Judges everything that follows from the predictions of the model.
fn predicted(
    plan: &Plan,
    found: Option<&Feasible>,
    model: &Model,
    predictor: &Predictor,
    j: &mut Judge,
) {
    let workload = &model.workload;
    if predictor.task_count() != workload.tasks.len() {
        return tasks_of_model(model, predictor, j);
    }
    let frame = Frame::new(plan, workload, predictor);
    let Some(choices) = Choices::of_plan(plan, workload) else {
        if found.is_none() && plan.tasks.len() < workload.tasks.len() {
            return figures::some_tasks(plan, &frame, j);
        }
        return j.contradiction(
            "tasks",
            "tasks without batch size or share",
            "both: there is a model",
        );
    };
    let value = frame.evaluate(&choices);
    figures::tasks(plan, &frame, &choices, &value, j);
    let Some(found) = found else {
        return j.unjudged(
            "verdict",
            "the plan is written by hand and does not say whether sharing is worth it",
        );
    };
    figures::prediction(found, &frame, &choices, j);
    figures::totals(found, &frame, &choices, &value, j);
    let held = candidates::held(found, model, &choices, &value);
    figures::constraints(found, &frame, &choices, &held, j);
    candidates::judge(found, model, &frame, &choices, j);
    figures::gpus(found, &frame, &choices, &value, j);
    verdict::judge(found, &frame, &choices, &value, j);
    target::judge(found, &frame, &choices, j);
    baselines::judge(found, &frame, &choices, j);
    proof::judge(found, &frame, &choices, &value, j);
    points::fronts(found, &frame, &value, j);
    points::explanation(found, &frame, &choices, &value, j);
}
