//! Plans several models in sequence.

use std::collections::BTreeMap;
use std::sync::Arc;

use doc::{Answer, Decision, Model, Plan, Workload};
use predict::{PredictError, Predictor};
use units::corun::Setting;

use crate::error::AllocError;
use crate::plan::pipeline::plan_workload;
use crate::plan::pose::cap;
use crate::plan::request::Request;
use crate::plan::write::refused;
use crate::rates::{KnownRates, Remembered};

/// Plans models one after another. A model with the same parameters as the previous one needs no new predictor, and no
/// prediction is made twice; one that differs only in its name needs no new search. So planning a federation of
/// identical devices takes no longer than reading it.
#[derive(Debug, Default)]
pub struct Planner {
    last: Option<Solved>,
}

#[derive(Debug)]
struct Solved {
    model: Model,
    request: Request,
    predictor: Predictor,
    /// Its predictions, kept from the second model with this predictor on, because most predictors plan one model only
    /// and keeping predictions takes time.
    known: Option<Arc<KnownRates>>,
    /// The plan of the model, without the model itself.
    plan: Plan,
}

/// Why a model could not be planned. An infeasible problem is not an error, but a plan without a choice.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PlannerError {
    /// The model is not a valid predictor.
    #[error(transparent)]
    Model(#[from] PredictError),
    /// The problem cannot be solved at all.
    #[error(transparent)]
    Problem(#[from] AllocError),
}

impl Planner {
    /// The plan of a model, which contains the model. `previous` is the plan of the previous round, for damping, and
    /// the same for all models.
    ///
    /// # Errors
    /// [`PlannerError`] for a model that predicts nothing, or an invalid problem.
    pub fn plan(
        &mut self,
        mut model: Model,
        request: &Request,
        previous: Option<&Plan>,
    ) -> Result<Plan, PlannerError> {
        if let Some(reason) = request.max_batch.and_then(|most| cap(&mut model, most)) {
            let mut plan = refused(&model.workload, &request.limits, reason);
            plan.provenance.clone_from(&model.provenance);
            plan.model = Some(model);
            return Ok(plan);
        }
        let same = self.last.take().filter(|last| {
            last.model.predictor == model.predictor
                && same_tasks(&last.model.workload, &model.workload)
        });
        let solved = match same {
            Some(last)
                if same_problem(&last.model.workload, &model.workload)
                    && last.model.measured == model.measured
                    && last.request == *request =>
            {
                Solved {
                    plan: Plan {
                        id: model.workload.id.clone(),
                        ..last.plan
                    },
                    model,
                    ..last
                }
            }
            other => {
                let (predictor, known) = match other {
                    Some(last) => (last.predictor, Some(last.known.unwrap_or_default())),
                    None => (Predictor::from_model(&model)?, None),
                };
                let workload = &model.workload;
                let measured = &model.measured;
                let plan = match &known {
                    Some(known) => {
                        let rates = Remembered::with(&predictor, Arc::clone(known));
                        plan_workload(&rates, workload, request, measured, previous)
                    }
                    None => plan_workload(&predictor, workload, request, measured, previous),
                };
                Solved {
                    plan: plan?,
                    request: request.clone(),
                    predictor,
                    known,
                    model,
                }
            }
        };
        let mut plan = solved.plan.clone();
        tell_error(&mut plan, &solved.predictor, |task| task);
        plan.provenance.clone_from(&solved.model.provenance);
        plan.model = Some(solved.model.clone());
        self.last = Some(solved);
        Ok(plan)
    }

    /// Messages about parts of the last plan without measurements nearby.
    #[must_use]
    pub fn outside(&self, plan: &Plan) -> Vec<String> {
        let Some(solved) = &self.last else {
            return Vec::new();
        };
        let name = |i: usize| plan.tasks.get(i).map_or("", |t| t.id.as_str()).to_owned();
        let co_runs = co_runs(plan, |task| task);
        let outside = co_runs.iter().flat_map(|s| solved.predictor.outside(s));
        outside.map(|o| o.reason(name)).collect()
    }
}

/// The co-run on each GPU of a plan; empty if there is no solution. `place` maps a task's position in the plan to that
/// in the model.
pub(crate) fn co_runs(plan: &Plan, place: impl Fn(usize) -> usize) -> Vec<Vec<Setting>> {
    let decisions = plan.feasible().map_or(&[][..], |found| &found.decisions);
    let mut gpus: BTreeMap<u32, Vec<Setting>> = BTreeMap::new();
    for (i, &Decision { batch, share, .. }) in decisions.iter().enumerate() {
        let on = gpus.entry(plan.tasks[i].gpu.unwrap_or(0)).or_default();
        let task = place(i);
        on.push(Setting { task, batch, share });
    }
    gpus.into_values().collect()
}

/// Writes the model's error for this kind of plan into the plan.
pub(crate) fn tell_error(plan: &mut Plan, predictor: &Predictor, place: impl Fn(usize) -> usize) {
    let error = predictor.prediction_error(&co_runs(plan, place));
    if let Answer::Feasible(found) = &mut plan.answer {
        found.prediction = error;
    }
}

/// Whether two workloads differ at most in name and origin, which do not affect a plan. The link does: a round
/// includes transfers.
fn same_problem(a: &Workload, b: &Workload) -> bool {
    a.device == b.device && a.tasks == b.tasks && a.link == b.link
}

/// Whether a predictor of one workload can be used for the other.
fn same_tasks(a: &Workload, b: &Workload) -> bool {
    let key = |w: &Workload| -> Vec<_> {
        let of = |t: &doc::Task| (t.id.clone(), t.batch_sizes.clone());
        w.tasks.iter().map(of).collect()
    };
    key(a) == key(b)
}
