//! Plans for a subset of a model's tasks.

use doc::{Answer, DeviceKind, Model, Plan, RateRow};
use overlap::{ModelRates, Rates};
use predict::Predictor;
use units::{Batch, SamplesPerSec, Share};

use crate::plan::pipeline::plan_workload;
use crate::plan::planner::{PlannerError, co_runs, tell_error};
use crate::plan::pose::cap;
use crate::plan::request::Request;
use crate::plan::write::refused;
use crate::rates::Subset;

/// Maximum number of tasks of such a plan. Its table has a row for every non-empty set of its tasks, 1,023 rows for
/// 10 tasks.
const MOST: usize = 10;

/// Why there is no plan for some of a model's tasks.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum OnlyError {
    /// The model has no such tasks.
    #[error("--only {unknown}: the model has the tasks {known}")]
    Unknown {
        /// Requested tasks that it does not have.
        unknown: String,
        /// Tasks that it has.
        known: String,
    },
    /// The table of rates would be too long.
    #[error("--only with {0} tasks: give at most {MOST}, or none for a plan of all")]
    TooMany(usize),
    /// Planning the subset failed.
    #[error(transparent)]
    Planner(#[from] PlannerError),
}

/// The plan of the tasks `only` of a model, in the model's order, as if no others existed; the influence of the
/// others is not included. Instead of the model, which covers all tasks, the plan carries the workload of these tasks
/// and the model's predictions for every subset of them. Also returns messages about predictions that have no
/// measurements nearby. Measured co-runs include all tasks, so none of them can be the plan.
///
/// # Errors
/// [`OnlyError`] for a task that the model does not have, for too many of them, and as [`crate::Planner::plan`].
pub fn plan_only(
    mut model: Model,
    only: &[String],
    request: &Request,
    previous: Option<&Plan>,
) -> Result<(Plan, Vec<String>), OnlyError> {
    let members = members(&model, only)?;
    let mut workload = model.workload.clone();
    workload.tasks = members
        .iter()
        .map(|&i| model.workload.tasks[i].clone())
        .collect();
    let capped = request.max_batch.and_then(|most| {
        let mut part = model.clone();
        part.workload = workload.clone();
        let refusal = cap(&mut part, most);
        workload = part.workload;
        refusal
    });
    let (mut plan, outside) = match capped {
        Some(reason) => (refused(&workload, &request.limits, reason), Vec::new()),
        None => {
            let predictor = Predictor::from_model(&model).map_err(PlannerError::from)?;
            let part = Subset::new(&predictor, &members);
            let solved = plan_workload(&part, &workload, request, &[], previous);
            let mut plan = solved.map_err(PlannerError::from)?;
            let places: Vec<usize> = plan
                .tasks
                .iter()
                .filter_map(|t| model.workload.task_index(&t.id))
                .collect();
            tell_error(&mut plan, &predictor, |i| places[i]);
            let name = |i: usize| model.workload.tasks[i].id.to_string();
            let co_runs = co_runs(&plan, |i| places[i]);
            let outside = co_runs
                .iter()
                .flat_map(|s| predictor.outside(s))
                .map(|o| o.reason(name))
                .collect();
            plan.rates = rates(&plan, &predictor, &model, places);
            (plan, outside)
        }
    };
    plan.provenance = std::mem::take(&mut model.provenance);
    plan.workload = Some(workload);
    Ok((plan, outside))
}

/// Positions of the requested tasks in the model, ascending.
fn members(model: &Model, only: &[String]) -> Result<Vec<usize>, OnlyError> {
    let tasks = &model.workload.tasks;
    let has = |id: &&String| tasks.iter().any(|t| t.id.as_str() == id.as_str());
    let unknown: Vec<&str> = only
        .iter()
        .filter(|id| !has(id))
        .map(String::as_str)
        .collect();
    if !unknown.is_empty() {
        let known: Vec<&str> = tasks.iter().map(|t| t.id.as_str()).collect();
        return Err(OnlyError::Unknown {
            unknown: unknown.join(","),
            known: known.join(", "),
        });
    }
    let wanted = |i: &usize| only.iter().any(|id| id == tasks[*i].id.as_str());
    let members: Vec<usize> = (0..tasks.len()).filter(wanted).collect();
    if members.len() > MOST {
        return Err(OnlyError::TooMany(members.len()));
    }
    Ok(members)
}

/// Batch sizes and shares of a plan; empty if there is none.
fn settings(plan: &Plan) -> Vec<(Batch, Share)> {
    match &plan.answer {
        Answer::Feasible(found) => found.decisions.iter().map(|d| (d.batch, d.share)).collect(),
        Answer::Infeasible(_) | Answer::ByHand(_) => Vec::new(),
    }
}

/// Predictions for every set of the plan's tasks; `places` are their positions in the model. A set with a predicted
/// rate of 0 has no row.
fn rates(plan: &Plan, predictor: &Predictor, model: &Model, places: Vec<usize>) -> Vec<RateRow> {
    let (batches, shares): (Vec<Batch>, Vec<Share>) = settings(plan).into_iter().unzip();
    let gpus: Vec<u32> = plan.tasks.iter().map(|t| t.gpu.unwrap_or(0)).collect();
    let n = batches.len();
    let sharing = ModelRates::new(predictor, places, shares, &gpus);
    let rates = match model.workload.device.kind {
        DeviceKind::Cpu => sharing.that_divide(),
        _ => sharing,
    };
    let row = |set: u64| {
        let active: Vec<usize> = (0..n).filter(|i| set >> i & 1 == 1).collect();
        let mut all = vec![0.0; n];
        rates.rates(set, &batches, &mut all).ok()?;
        let rate = |&i: &usize| SamplesPerSec::new(all[i]).ok().filter(|r| r.get() > 0.0);
        let rates = active.iter().map(rate).collect::<Option<_>>()?;
        Some(RateRow { active, rates })
    };
    (1..1_u64 << n).filter_map(row).collect()
}
