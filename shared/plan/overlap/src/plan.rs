pub mod renew;
pub mod variation;

use doc::{
    Answer, DeviceKind, Duplex, PhaseKind, Plan, Proof, RatesKind, Search, Timeline, UpdateBytes,
    Workload,
};
use predict::Predictor;
use units::{Samples, Seconds, Share, TaskId};

use crate::error::{LONGEST_ROUND_S, PlanError, missing};
use crate::plan::renew::renewed;
use crate::plan::variation::{Variation, planned_batches};
use crate::{
    AllActive, FixedRates, Instance, Link, ModelRates, Order, OrderOptions, OverlapError, Rates,
    RoundTask, Schedules, Set, SolvedRound, TableRates, solve,
};

/// Inputs for ordering a plan.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PlanRequest {
    /// Which rates to use; `None`: the plan's table if it has one, otherwise its model.
    pub rates: Option<RatesKind>,
    /// How transfers share the link, overriding the plan.
    pub duplex: Option<Duplex>,
    /// Percent by which batch sizes may differ from the plan's. `None`: [`crate::BATCH_PERCENT`] if the plan has a
    /// model and left batch sizes free, otherwise 0.
    pub batch_percent: Option<f64>,
    /// Workload of another round, whose volumes, transfers and link replace the plan's.
    pub workload: Option<Workload>,
}

/// Orders the round of a plan. `predictor` is that of the plan's model, if it has one.
pub fn order_plan(
    mut plan: Plan,
    predictor: Option<&Predictor>,
    request: &PlanRequest,
    options: &OrderOptions,
) -> Result<Timeline, PlanError> {
    if let Answer::Infeasible(_) = plan.answer {
        return Err(PlanError::Infeasible);
    }
    let variation = Variation::of(&plan, request.batch_percent);
    if let Some(now) = &request.workload {
        plan = renewed(plan, now)?;
    }
    if let Some(duplex) = request.duplex {
        let link = plan.known_link();
        // The timeline states the link that it assumes.
        plan.link = link.map(|l| doc::Link { duplex, ..l });
    }
    let kind = request.rates.unwrap_or(if plan.rates.is_empty() {
        RatesKind::Model
    } else {
        RatesKind::Table
    });
    let instance = plan_instance(&plan, request.duplex)?;
    let varies = request.batch_percent.is_some_and(|p| p > 0.0);
    if varies && plan.model.is_none() {
        return Err(PlanError::NoRates {
            wanted: "model to predict rates at other batch sizes with",
            advice: "leave out --batch-delta, or make the plan with mt-solve",
        });
    }
    let rates: Box<dyn Rates + '_> = if varies && kind == RatesKind::Fixed {
        let everyone = (0..plan.tasks.len()).collect::<Vec<_>>();
        Box::new(AllActive {
            inner: model(&plan, predictor)?,
            everyone: set_of(&everyone),
        })
    } else {
        rates(&plan, predictor, kind)?
    };
    let mut options = options.clone();
    options.batches = variation.batches(&plan, kind)?;
    let outcome = solve(&instance, rates.as_ref(), &options).map_err(|e| explain(e, &plan))?;
    timeline(plan, kind, options.single_order, &outcome)
}

fn explain(error: OverlapError, plan: &Plan) -> PlanError {
    let name = |i: &usize| plan.tasks[*i].id.clone();
    match error {
        OverlapError::MissingRates { active } => {
            let names: Vec<String> = active.iter().map(|i| name(i).to_string()).collect();
            PlanError::MissingRow(names.join(", "))
        }
        OverlapError::BadRate { task, value, .. } => PlanError::BadRate {
            task: name(&task),
            value,
        },
        other => PlanError::Other(other),
    }
}

fn no_samples(task: &TaskId) -> PlanError {
    PlanError::Missing {
        task: task.clone(),
        what: "samples",
        advice: "say how many it trains on in a round",
    }
}

/// Times of transfer and work of every task of a plan, on a link of the given duplex or otherwise the plan's own.
/// Missing fields of the plan are taken from its workload.
///
/// # Errors
/// [`PlanError`] names the task that lacks its samples.
pub fn plan_instance(plan: &Plan, duplex: Option<Duplex>) -> Result<Instance, PlanError> {
    let workload = plan.workload();
    let link = plan.link.or(workload.and_then(|w| w.link));
    let mut jobs = Vec::with_capacity(plan.tasks.len());
    for task in &plan.tasks {
        let source = workload.and_then(|w| w.task_index(&task.id).map(|i| &w.tasks[i]));
        let samples = task
            .samples
            .or(source.and_then(|t| t.samples))
            .ok_or_else(|| no_samples(&task.id))?;
        let bytes = task
            .update_bytes
            .or(source.and_then(|t| t.update_bytes))
            .unwrap_or_default();
        jobs.push(round_task(samples, bytes, link));
    }
    let link = kind_of(duplex.or(link.map(|l| l.duplex)));
    Instance::new(jobs, link).map_err(PlanError::Other)
}

fn round_task(samples: Samples, bytes: UpdateBytes, link: Option<doc::Link>) -> RoundTask {
    RoundTask {
        download_s: link.map_or(0.0, |l| bytes.down.transfer_seconds(l.down)),
        work: samples.as_f64(),
        upload_s: link.map_or(0.0, |l| bytes.up.transfer_seconds(l.up)),
    }
}

/// Times of transfer and work of every task of a workload on its link.
///
/// # Errors
/// [`PlanError`] names the task that lacks its samples, or says that there are more tasks than a round can have.
pub fn workload_instance(workload: &Workload) -> Result<Instance, PlanError> {
    let link = workload.link;
    let job = |task: &doc::Task| {
        let samples = task.samples.ok_or_else(|| no_samples(&task.id))?;
        let bytes = task.update_bytes.unwrap_or_default();
        Ok(round_task(samples, bytes, link))
    };
    let jobs: Result<Vec<RoundTask>, PlanError> = workload.tasks.iter().map(job).collect();
    Instance::new(jobs?, kind_of(link.map(|l| l.duplex))).map_err(PlanError::Other)
}

fn kind_of(duplex: Option<Duplex>) -> Link {
    match duplex.unwrap_or_default() {
        Duplex::Full => Link::Full,
        Duplex::Half => Link::Half,
        Duplex::Shared => Link::Shared,
    }
}

fn rates<'p>(
    plan: &Plan,
    predictor: Option<&'p Predictor>,
    kind: RatesKind,
) -> Result<Box<dyn Rates + 'p>, PlanError> {
    match kind {
        RatesKind::Table => Ok(Box::new(table(plan)?)),
        RatesKind::Model => Ok(Box::new(model(plan, predictor)?)),
        RatesKind::Fixed => Ok(Box::new(fixed(plan, predictor)?)),
    }
}

fn table(plan: &Plan) -> Result<TableRates, PlanError> {
    if plan.rates.is_empty() {
        return Err(PlanError::NoRates {
            wanted: "table of rates",
            advice: "add `rates`, or compute with --rates model",
        });
    }
    let mut table = TableRates::new();
    for row in &plan.rates {
        let mut rates = vec![0.0; plan.tasks.len()];
        for (&i, rate) in row.active.iter().zip(&row.rates) {
            rates[i] = rate.get();
        }
        table.insert(set_of(&row.active), rates);
    }
    Ok(table)
}

fn set_of(tasks: &[usize]) -> Set {
    tasks.iter().fold(0, |set, &i| set | 1 << i)
}

fn model<'p>(
    plan: &Plan,
    predictor: Option<&'p Predictor>,
) -> Result<ModelRates<'p, Predictor>, PlanError> {
    let (Some(predictor), Some(model)) = (predictor, &plan.model) else {
        return Err(PlanError::NoRates {
            wanted: "model to predict rates with",
            advice: "make the plan with mt-solve, or add a table of `rates`",
        });
    };
    let mut shares: Vec<Share> = Vec::new();
    let mut tasks = Vec::new();
    for (i, task) in plan.tasks.iter().enumerate() {
        let share = plan.given(i).share;
        shares.push(share.ok_or_else(|| missing(task, "share_percent", "a model needs it"))?);
        tasks.push(
            model
                .workload
                .task_index(&task.id)
                .ok_or_else(|| missing(task, "place in the model", "fit one that has it"))?,
        );
    }
    let gpus: Vec<u32> = plan.tasks.iter().map(|t| t.gpu.unwrap_or(0)).collect();
    let rates = ModelRates::new(predictor, tasks, shares, &gpus);
    Ok(match model.workload.device.kind {
        DeviceKind::Cpu => rates.that_divide(),
        _ => rates,
    })
}

/// The rates with all tasks active: as the plan predicts them, otherwise by its table or model.
fn fixed(plan: &Plan, predictor: Option<&Predictor>) -> Result<FixedRates, PlanError> {
    let planned: Option<Vec<f64>> = (0..plan.tasks.len())
        .map(|i| plan.given(i).throughput.map(|e| e.mean.get()))
        .collect();
    if let Some(rates) = planned {
        return Ok(FixedRates(rates));
    }
    let n = plan.tasks.len();
    let everyone: Vec<usize> = (0..n).collect();
    if !plan.rates.is_empty() {
        let all = plan.rates.iter().find(|row| row.active == everyone);
        let names = || plan.tasks.iter().map(|t| t.id.to_string());
        let row =
            all.ok_or_else(|| PlanError::MissingRow(names().collect::<Vec<_>>().join(", ")))?;
        return Ok(FixedRates(row.rates.iter().map(|r| r.get()).collect()));
    }
    let source = model(plan, predictor)?;
    let batches = planned_batches(plan)?;
    let mut rates = vec![0.0; n];
    source
        .rates(set_of(&everyone), &batches, &mut rates)
        .map_err(|e| explain(e, plan))?;
    Ok(FixedRates(rates))
}

fn timeline(
    plan: Plan,
    kind: RatesKind,
    single_order: bool,
    outcome: &SolvedRound,
) -> Result<Timeline, PlanError> {
    let seconds = |s: f64| match Seconds::new(s) {
        Ok(time) if s <= LONGEST_ROUND_S => Ok(time),
        _ => Err(PlanError::TooLong(s)),
    };
    let proof = if outcome.proven() {
        Proof::Bounded
    } else {
        Proof::NotProven
    };
    let of_kind = |kind: PhaseKind| outcome.schedule.order_of(kind);
    // A shared link has no order except that of the phases.
    let orders = match outcome.order {
        Order::Together => (of_kind(PhaseKind::Download), of_kind(PhaseKind::Upload)),
        ref order => (order.downloads(), order.uploads()),
    };
    let batches = (0..plan.tasks.len())
        .map(|i| outcome.batches.get(i).copied().or(plan.given(i).batch))
        .collect();
    let phases: Result<Vec<doc::Phase>, PlanError> = outcome
        .schedule
        .phases
        .iter()
        .map(|p| {
            Ok(doc::Phase {
                task: p.task,
                kind: p.kind,
                start: seconds(p.start_s)?,
                end: seconds(p.end_s)?,
            })
        })
        .collect();
    Ok(Timeline {
        id: plan.id.clone(),
        rates: kind,
        single_order,
        download_order: orders.0,
        upload_order: orders.1,
        holds: outcome.holds.clone(),
        batches,
        phases: phases?,
        makespan: seconds(outcome.schedule.makespan_s)?,
        lower_bound: seconds(outcome.lower_bound_s)?,
        gap: outcome.gap(),
        proven: outcome.proven(),
        proven_among: outcome.proven().then_some(match outcome.certificate.class {
            Schedules::NeverWaiting => doc::ScheduleClass::NeverWaiting,
            Schedules::Waiting => doc::ScheduleClass::Waiting,
            Schedules::Alternating => doc::ScheduleClass::Alternating,
            Schedules::Any => doc::ScheduleClass::Any,
        }),
        overlap_off: seconds(outcome.overlap_off_s)?,
        search: Search {
            points: outcome.points,
            proof,
            bound: Some(outcome.lower_bound_s),
            seconds: None,
        },
        plan,
        provenance: Vec::new(),
    })
}
