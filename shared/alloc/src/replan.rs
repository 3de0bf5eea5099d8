//! Another plan for a device that is late: the batch sizes and shares of its shortest round.

use doc::{ObjectiveKind, Plan, RatesKind, Timeline};
use overlap::{Options, PlanRequest, order_plan};
use predict::Predictor;

use crate::pipeline::plan_workload;
use crate::request::Request;

/// The round of a plan's device if it is planned anew for the shortest round, under what the plan
/// was constrained by. None where that is no question: its rates are not those of a model, it does
/// not say what it was asked to be, it leaves out tasks of the model, or nothing is feasible; and of a plan
/// for progress, which the batch sizes of the shortest round would undo.
///
/// # Errors
/// In words, why there is no such plan though it may be asked for.
pub fn replan(
    plan: &Plan,
    predictor: Option<&Predictor>,
    request: &PlanRequest,
    options: &Options,
) -> Result<Option<Timeline>, String> {
    let modelled = match request.rates {
        Some(kind) => kind == RatesKind::Model,
        None => plan.rates.is_empty(),
    };
    let (Some(predictor), Some(model)) = (predictor, plan.model.as_ref().filter(|_| modelled))
    else {
        return Ok(None);
    };
    let whole = plan.tasks.len() == model.workload.tasks.len();
    let progress = |asked: &Request| {
        let kind = asked.objective;
        matches!(kind, ObjectiveKind::Progress | ObjectiveKind::ProgressLast)
    };
    let asked = Request::of_plan(plan).filter(|asked| whole && !progress(asked));
    let Some(asked) = asked else {
        return Ok(None);
    };
    let mut model = model.clone();
    if let Some(now) = &request.workload {
        let renewed = model.workload.renew(now);
        renewed.map_err(|error| format!("--workload: {error}"))?;
    }
    if let (Some(link), Some(duplex)) = (&mut model.workload.link, request.duplex) {
        link.duplex = duplex;
    }
    let asked = Request {
        objective: ObjectiveKind::Round,
        ..asked
    };
    let found = plan_workload(predictor, &model.workload, &asked, &model.measured, None);
    let mut found = found.map_err(|error| error.to_string())?;
    if found.feasible().is_none() {
        return Ok(None);
    }
    found.model = Some(model);
    let request = PlanRequest {
        workload: None,
        ..request.clone()
    };
    let timeline = order_plan(found, Some(predictor), &request, options);
    timeline.map(Some).map_err(|error| error.to_string())
}
