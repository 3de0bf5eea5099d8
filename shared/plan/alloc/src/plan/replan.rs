//! Replans a late device.

use doc::{Model, ObjectiveKind, Plan, RatesKind, Timeline, Workload};
use overlap::{OrderOptions, PlanRequest, Replanned, order_plan, shorten};
use predict::Predictor;
use units::Samples;

use crate::plan::federation::{Way, Worth};
use crate::plan::pipeline::plan_workload;
use crate::plan::planner::tell_error;
use crate::plan::request::Request;

/// Plans a device again for the shortest round under the plan's constraints. `None` if that is impossible: the
/// rates do not come from a model, the plan does not state its request or leaves out tasks of the model, or nothing
/// is feasible. Also `None` for a plan for progress; use [`ways`], which are compared by their worth.
///
/// # Errors
/// The reason, as a message, why there is no such plan although it was requested.
pub fn replan(
    plan: &Plan,
    predictor: Option<&Predictor>,
    request: &PlanRequest,
    options: &OrderOptions,
) -> Result<Option<Timeline>, String> {
    let Some(asker) = Asker::of(plan, predictor, request, options)? else {
        return Ok(None);
    };
    if asker.asked.objective.is_progress() {
        return Ok(None);
    }
    asker.timeline(ObjectiveKind::Round, 1.0)
}

/// Options under a deadline for a late device with a plan for progress, each with its value. The first is its plan
/// with fewer samples. The others have other batch sizes and shares, and fewer samples if they are still late.
///
/// The others come from four plans. The first two are planned for the number of samples that the current plan has
/// time for: one is the best for the plan's objective, the other for the other way to combine the tasks' times
/// (mean or last). (With fewer samples and the same transfers, compute matters less, so larger batches are
/// cheaper.) The third is the best for the objective with all samples. The fourth is the shortest round, which has
/// time for the most samples, but these have the lowest worth.
///
/// # Errors
/// The reason, as a message, why there is no such plan although it was requested.
pub fn ways(
    plan: &Plan,
    worth: &Worth,
    predictor: Option<&Predictor>,
    request: &PlanRequest,
    options: &OrderOptions,
    deadline_s: f64,
) -> Result<Vec<Way>, String> {
    // The search for the order must not vary batch sizes to save time, because that changes the worth of samples.
    let mut request = PlanRequest {
        batch_percent: Some(0.0),
        ..request.clone()
    };
    let less = shorten(plan, predictor, &request, options, deadline_s)
        .map_err(|error| error.to_string())?;
    let own: Vec<_> = (0..plan.tasks.len()).map(|i| plan.given(i).batch).collect();
    let mut found = vec![worth.way(None, &own, Some(less), deadline_s)];
    let Some(asker) = Asker::of(plan, predictor, &request, options)? else {
        return Ok(found);
    };
    let kind = asker.asked.objective;
    let other = match kind {
        ObjectiveKind::Progress => ObjectiveKind::ProgressLast,
        _ => ObjectiveKind::Progress,
    };
    let part = if less.part > 0.0 { less.part } else { 1.0 };
    let wanted = [
        (kind, part),
        (other, part),
        (kind, 1.0),
        (ObjectiveKind::Round, 1.0),
    ];
    // The plan already has the data volumes and the link of this round.
    request.workload = None;
    for (kind, part) in wanted {
        let Some(timeline) = asker.timeline(kind, part)? else {
            continue;
        };
        let replanned = Replanned::of(&timeline);
        let known = |way: &Way| {
            let way = way.replanned.as_ref();
            way.is_some_and(|r| r.settings == replanned.settings)
        };
        if found.iter().any(known) {
            continue;
        }
        let less = (timeline.makespan.get() > deadline_s)
            .then(|| shorten(&timeline.plan, predictor, &request, options, deadline_s))
            .transpose()
            .map_err(|error| error.to_string())?;
        found.push(worth.way(Some(replanned), &timeline.batches, less, deadline_s));
    }
    Ok(found)
}

/// Plans a device again, from its plan and this round's request.
struct Asker<'a> {
    predictor: &'a Predictor,
    /// The model of the plan with the volumes of this round.
    model: Model,
    asked: Request,
    request: PlanRequest,
    options: &'a OrderOptions,
}

impl<'a> Asker<'a> {
    fn of(
        plan: &Plan,
        predictor: Option<&'a Predictor>,
        request: &PlanRequest,
        options: &'a OrderOptions,
    ) -> Result<Option<Self>, String> {
        let modelled = match request.rates {
            Some(kind) => kind == RatesKind::Model,
            None => plan.rates.is_empty(),
        };
        let (Some(predictor), Some(model)) = (predictor, plan.model.as_ref().filter(|_| modelled))
        else {
            return Ok(None);
        };
        let whole = plan.tasks.len() == model.workload.tasks.len();
        let Some(asked) = Request::of_plan(plan).filter(|_| whole) else {
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
        Ok(Some(Self {
            predictor,
            model,
            asked,
            request: PlanRequest {
                workload: None,
                ..request.clone()
            },
            options,
        }))
    }

    /// The round with all samples, at the choice that is best for the fraction `part` of the samples; `None` if
    /// nothing is feasible.
    fn timeline(&self, objective: ObjectiveKind, part: f64) -> Result<Option<Timeline>, String> {
        let asked = Request {
            objective,
            ..self.asked.clone()
        };
        let workload = &self.model.workload;
        let measured = &self.model.measured;
        let fewer = with_part(workload, part);
        let mut found = plan_workload(self.predictor, &fewer, &asked, measured, None)
            .map_err(|error| error.to_string())?;
        if found.feasible().is_none() {
            return Ok(None);
        }
        tell_error(&mut found, self.predictor, |task| task);
        for (task, whole) in found.tasks.iter_mut().zip(&workload.tasks) {
            task.samples = whole.samples;
        }
        found.model = Some(self.model.clone());
        let timeline = order_plan(found, Some(self.predictor), &self.request, self.options);
        timeline.map(Some).map_err(|error| error.to_string())
    }
}

/// The workload with the fraction `part` of each task's samples, at least one.
fn with_part(workload: &Workload, part: f64) -> Workload {
    let mut fewer = workload.clone();
    for task in &mut fewer.tasks {
        let less = |s: Samples| Samples::new((s.as_f64() * part).max(1.0) as u64).ok();
        task.samples = task.samples.and_then(less);
    }
    fewer
}
