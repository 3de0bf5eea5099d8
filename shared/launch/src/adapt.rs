//! Between rounds: the model is corrected by what was measured, and the plan is solved anew.

use allocation::{Request, plan_workload};
use doc::{Model, Plan, TaskSummary, Timeline};
use overlap::{PlanRequest, order_plan};
use predict::Predictor;
use units::SamplesPerSec;

use crate::launch::Launch;

/// Repetitions of the correction; each squares what is left, as the predictor is close to
/// proportional to the solo times.
const REPETITIONS: usize = 8;
/// Corrections beyond this factor are taken for a fault of the round, not of the model: a
/// job that stood still, or counted in other units.
const LARGEST_FACTOR: f64 = 4.0;

/// Corrects the model of a launch by the throughput measured while all tasks computed, and solves
/// anew. `part` of each correction (on a logarithmic scale) is applied, so that one odd round
/// does not turn the plan over. `None`, with the reason, if there is nothing to correct by.
///
/// # Errors
/// In words, why the launch stays as it is.
pub(crate) fn adapted(
    launch: &Launch,
    measured: &[TaskSummary],
    part: f64,
) -> Result<(Launch, String), String> {
    let plan = &launch.plan;
    let model = plan
        .model
        .as_ref()
        .ok_or("the plan carries no model to correct")?;
    let rates: Vec<f64> = measured
        .iter()
        .map(|t| {
            t.rate_together()
                .map(SamplesPerSec::get)
                .filter(|r| *r > 0.0)
        })
        .collect::<Option<_>>()
        .ok_or("not all tasks computed at the same time, so there is nothing to compare")?;
    // The solver gives every task of the workload a share, also one that this plan leaves out.
    if plan.tasks.len() != model.workload.tasks.len() {
        return Err("the plan leaves out tasks of its workload".to_owned());
    }
    let model = corrected(launch, model, &rates, part)?;
    let predictor = Predictor::from_model(&model).map_err(|e| e.to_string())?;
    let request = Request::of_plan(plan).ok_or("the plan does not say what it maximises")?;
    let mut new = plan_workload(&predictor, &model.workload, &request, &[], None)
        .map_err(|e| e.to_string())?;
    if new.feasible().is_none() {
        return Err("with the corrected model no plan is feasible".to_owned());
    }
    new.provenance.clone_from(&plan.provenance);
    new.link = plan.link;
    new.model = Some(model);
    let what = changes(plan, &new, measured);
    let (plan, timeline) = ordered(launch, new, &predictor)?;
    let next =
        Launch::of(plan, timeline, launch.workload.clone()).map_err(|error| error.to_string())?;
    Ok((next, what))
}

/// The model with the solo steps of each task scaled so that the prediction for the plan under
/// way moves by `part` of the way to what was measured.
fn corrected(launch: &Launch, model: &Model, rates: &[f64], part: f64) -> Result<Model, String> {
    let mut model = model.clone();
    // They are from before: what made the correction necessary has changed them too.
    model.measured = Vec::new();
    let tasks: Vec<usize> = launch
        .assignments()
        .filter_map(|a| model.workload.task_index(&a.planned.id))
        .collect();
    let predicted = |model: &Model| -> Result<Vec<f64>, String> {
        let predictor = Predictor::from_model(model).map_err(|e| e.to_string())?;
        let all = launch.together(&predictor);
        all.filter(|all| all.len() == rates.len())
            .ok_or_else(|| "the plan and its model name different tasks".to_owned())
    };
    let before = predicted(&model)?;
    let target: Vec<f64> = before
        .iter()
        .zip(rates)
        .map(|(p, m)| {
            p * (m / p)
                .clamp(LARGEST_FACTOR.recip(), LARGEST_FACTOR)
                .powf(part)
        })
        .collect();
    for _ in 0..REPETITIONS {
        let now = predicted(&model)?;
        for (k, &index) in tasks.iter().enumerate() {
            let slower = now[k] / target[k];
            Predictor::scale_steps(&mut model, index, slower);
        }
    }
    Ok(model)
}

fn ordered(
    launch: &Launch,
    plan: Plan,
    predictor: &Predictor,
) -> Result<(Plan, Option<Timeline>), String> {
    let Some(followed) = &launch.timeline else {
        return Ok((plan, None));
    };
    let request = PlanRequest::default();
    let options = overlap::Options {
        single_order: followed.single_order,
        ..overlap::Options::default()
    };
    let timeline =
        order_plan(plan, Some(predictor), &request, &options).map_err(|error| error.to_string())?;
    Ok((timeline.plan.clone(), Some(timeline)))
}

/// What is different, for people.
fn changes(old: &Plan, new: &Plan, measured: &[TaskSummary]) -> String {
    let mut all = Vec::new();
    for (i, task) in old.tasks.iter().enumerate() {
        let Some(now) = new.task_index(&task.id).map(|k| new.given(k)) else {
            continue;
        };
        let before = old.given(i);
        if let (Some(p), Some(m)) = (before.throughput, measured[i].rate_together()) {
            all.push(format!(
                "{}: {:.1} samples/s of {:.1}",
                task.id,
                m.get(),
                p.mean.get()
            ));
        }
        if before.batch != now.batch
            && let (Some(a), Some(b)) = (before.batch, now.batch)
        {
            all.push(format!("{}: batch {a} to {b}", task.id));
        }
        if before.share != now.share
            && let (Some(a), Some(b)) = (before.share, now.share)
        {
            all.push(format!("{}: share {a} to {b}", task.id));
        }
    }
    all.join("; ")
}

#[cfg(test)]
mod tests;
