//! From a workload to a problem, and from its solution to a plan.

use std::collections::BTreeMap;

use corun::Setting;
use doc::{
    Baseline, BatchPolicy, Choice, Constraints, Estimate, GpuPlan, Infeasibility, Marginal,
    Objective, ObjectiveKind, ParetoPoint, Plan, PlanTask, Search, Workload,
};
use units::{Batch, Samples, SamplesPerSec, Share, TotalShare, Weight};

use crate::baseline::Scheme;
use crate::explain::marginals;
use crate::partition::solve_partition;
use crate::solve::{Options, Report, Solution, search, solve};
use crate::subset::Subset;
use crate::verdict::verdict;
use crate::{
    AllocError, Front, Limits, Problem, Task, Throughput, damped_load, fairness_front,
    mismatch_front,
};

/// How much more and less share `--explain` looks at.
const EXPLAINED_CHANGE: Share = Share::from_hundredths(500);
/// Half width of a 95 % interval in standard deviations.
pub(crate) const INTERVAL: f64 = 1.96;

/// What a plan is asked to be.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// What is maximised.
    pub objective: ObjectiveKind,
    /// What has to hold.
    pub limits: Limits,
    /// How to search; `top` counts the plan itself.
    pub options: Options,
    /// Trace the front of mismatch against objective.
    pub mismatch_front: bool,
    /// Trace the front of total throughput against fairness.
    pub fairness_front: bool,
    /// Say what a little more or less share would change.
    pub explain: bool,
    /// Weight of the previous load (0 to below 1), if the load is damped over rounds.
    pub damping: Option<f64>,
}

/// One GPU of a plan: its tasks, the problem of those, and the choice.
pub(crate) struct Part {
    pub(crate) members: Vec<usize>,
    pub(crate) problem: Problem,
    pub(crate) solution: Solution,
}

impl Problem {
    /// The problem of a workload. The work of a sample, for the balance `workload`, is what a
    /// sample adds to the solo step time (`gamma_1 (alpha f + beta m)` in FedMT's law).
    #[must_use]
    pub fn of_workload<C: Throughput + ?Sized>(
        rates: &C,
        workload: &Workload,
        objective: ObjectiveKind,
        limits: Limits,
    ) -> Problem {
        let one = Weight::new(1.0);
        let tasks = workload
            .tasks
            .iter()
            .enumerate()
            .filter_map(|(i, t)| {
                Some(Task {
                    batches: t.batch_sizes.clone(),
                    samples: t.samples,
                    weight: t.weight.or(one.as_ref().ok().copied())?,
                    memory: t.memory,
                    work_per_sample: work_per_sample(rates, i, &t.batch_sizes),
                })
            })
            .collect();
        Problem {
            tasks,
            objective,
            limits,
        }
    }
}

/// Slope of the solo step time over the batch size, or its mean where only one size is known.
fn work_per_sample<C: Throughput + ?Sized>(
    rates: &C,
    task: usize,
    batches: &[Batch],
) -> Option<f64> {
    let (&first, &last) = (batches.first()?, batches.last()?);
    let step = |b: Batch| b.as_f64() / rates.solo(task, b);
    let slope = (step(last) - step(first)) / (last.as_f64() - first.as_f64());
    let mean = 1.0 / rates.solo(task, last);
    Some(if first < last && slope > 0.0 {
        slope
    } else {
        mean
    })
}

/// Solves a workload and writes the answer as a plan, without its model and provenance. A plan
/// without tasks says in `infeasible` why there is none.
pub fn plan_workload<C: Throughput + ?Sized>(
    rates: &C,
    workload: &Workload,
    request: &Request,
    previous: Option<&Plan>,
) -> Result<Plan, AllocError> {
    let mut problem =
        Problem::of_workload(rates, workload, request.objective, request.limits.clone());
    let loads = request
        .damping
        .map(|lambda| damp(workload, &mut problem, previous, lambda));
    let mut plan = empty_plan(workload, &problem);
    let gpus = workload.device.gpus as usize;
    let (parts, report, infeasible) = if gpus == 1 {
        let outcome = solve(rates, &problem, &request.options)?;
        plan.alternatives = outcome
            .solutions
            .iter()
            .skip(1)
            .map(|s| front_point(workload, s))
            .collect();
        let members = (0..problem.tasks.len()).collect();
        let parts = part(&problem, members, outcome.solutions.into_iter().next());
        (parts, outcome.report, outcome.infeasible)
    } else {
        let found = solve_partition(rates, &problem, gpus, &request.options)?;
        let parts = found
            .groups
            .into_iter()
            .zip(found.solutions)
            .flat_map(|(members, s)| part(&problem, members, s))
            .collect();
        (parts, found.report, found.infeasible)
    };
    plan.search = Some(search_report(report));
    if parts.is_empty() {
        plan.infeasible = infeasible;
        return Ok(plan);
    }
    fill_tasks(&mut plan, rates, workload, &parts, loads.as_deref())?;
    plan.baselines = baselines(rates, workload, &problem, &parts)?;
    plan.verdict = verdict(rates, workload, &parts)?;
    plan.unconstrained_objective = unconstrained(rates, &problem, &request.options, gpus)?;
    if request.explain {
        for p in &parts {
            explain(&mut plan, rates, workload, p)?;
        }
    }
    if gpus == 1 && request.mismatch_front {
        let front = mismatch_front(rates, &problem, &request.options)?;
        plan.pareto = front_points(workload, &front);
    }
    if gpus == 1 && request.fairness_front {
        let front = fairness_front(rates, &problem, &request.options)?;
        plan.pareto_fairness = front_points(workload, &front);
    }
    Ok(plan)
}

fn part(problem: &Problem, members: Vec<usize>, solution: Option<Solution>) -> Vec<Part> {
    let made = solution.map(|solution| Part {
        problem: problem.restricted(&members),
        members,
        solution,
    });
    made.into_iter().collect()
}

/// Replaces the data volumes by damped ones and returns them.
fn damp(
    workload: &Workload,
    problem: &mut Problem,
    previous: Option<&Plan>,
    lambda: f64,
) -> Vec<Option<Samples>> {
    let before = |i: usize| {
        let plan = previous?;
        let task = &plan.tasks[plan.task_index(&workload.tasks[i].id)?];
        task.load.or(task.samples)
    };
    for (i, task) in problem.tasks.iter_mut().enumerate() {
        task.samples = task.samples.map(|now| damped_load(before(i), now, lambda));
    }
    problem.tasks.iter().map(|t| t.samples).collect()
}

fn empty_plan(workload: &Workload, problem: &Problem) -> Plan {
    let l = &problem.limits;
    Plan {
        id: workload.id.clone(),
        link: workload.link,
        tasks: Vec::new(),
        rates: Vec::new(),
        rv: None,
        verdict: None,
        objective: None,
        constraints: Some(Constraints {
            share_step_percent: l.step.percent(),
            rv_percent: l.rv.map(TotalShare::percent),
            starvation_floor: (l.floor > 0.0).then_some(l.floor),
            memory_bytes: l.memory.map(units::Bytes::get),
            batch: l.policy,
            mismatch: l.mismatch,
            balance: l.balance,
        }),
        mismatch: None,
        unconstrained_objective: None,
        baselines: Vec::new(),
        pareto: Vec::new(),
        pareto_fairness: Vec::new(),
        alternatives: Vec::new(),
        explanation: Vec::new(),
        gpus: Vec::new(),
        search: None,
        infeasible: Vec::<Infeasibility>::new(),
        model: None,
        workload: None,
        provenance: Vec::new(),
    }
}

fn search_report(report: Report) -> Search {
    Search {
        points: report.points,
        proof: report.proof,
        bound: report.bound,
        seconds: None,
    }
}

fn fill_tasks<C: Throughput + ?Sized>(
    plan: &mut Plan,
    rates: &C,
    workload: &Workload,
    parts: &[Part],
    loads: Option<&[Option<Samples>]>,
) -> Result<(), AllocError> {
    let several = workload.device.gpus > 1;
    let mut rows: Vec<(usize, PlanTask)> = Vec::new();
    let mut total = TotalShare::ZERO;
    for (gpu, p) in parts.iter().enumerate() {
        let share: TotalShare = p.solution.settings.iter().map(|s| s.share).sum();
        total = total + share;
        let errors = std_errors(rates, p);
        for (k, &i) in p.members.iter().enumerate() {
            let task = &workload.tasks[i];
            let chosen = p.solution.settings[k];
            rows.push((
                i,
                PlanTask {
                    id: task.id.clone(),
                    batch: Some(chosen.batch),
                    share: Some(chosen.share),
                    gpu: several.then_some(gpu as u32),
                    samples: task.samples,
                    load: loads.and_then(|l| l[i]),
                    update_bytes: task.update_bytes,
                    throughput: Some(estimate(p.solution.rates[k], errors[k])?),
                    solo: Some(rate(rates.solo(i, chosen.batch))?),
                },
            ));
        }
        if several {
            plan.gpus.push(GpuPlan {
                gpu: gpu as u32,
                tasks: p.members.iter().map(|&i| name(workload, i)).collect(),
                rv_percent: share.percent(),
                total_samples_per_s: p.solution.raw,
                fairness: p.solution.fairness,
                objective: p.solution.objective,
            });
        }
    }
    rows.sort_by_key(|(i, _)| *i);
    plan.tasks = rows.into_iter().map(|(_, row)| row).collect();
    plan.rv = Some(total);
    let kind = parts[0].problem.objective;
    plan.objective = Some(Objective {
        kind,
        value: joined(kind, parts.iter().map(|p| p.solution.objective)),
    });
    if workload.tasks.iter().all(|t| t.samples.is_some()) {
        let worst = parts.iter().map(|p| p.solution.mismatch);
        plan.mismatch = Some(worst.fold(0.0, f64::max));
    }
    Ok(())
}

fn name(workload: &Workload, i: usize) -> String {
    workload.tasks[i].id.as_str().to_owned()
}

/// The objective over several GPUs.
fn joined(kind: ObjectiveKind, values: impl Iterator<Item = f64>) -> f64 {
    match kind {
        ObjectiveKind::MaxMin | ObjectiveKind::Round => values.fold(f64::INFINITY, f64::min),
        _ => values.sum(),
    }
}

fn std_errors<C: Throughput + ?Sized>(rates: &C, p: &Part) -> Vec<f64> {
    let whole = |(&task, s): (&usize, &Setting)| Setting { task, ..*s };
    let active: Vec<Setting> = p
        .members
        .iter()
        .zip(&p.solution.settings)
        .map(whole)
        .collect();
    rates.std_errors(&active)
}

pub(crate) fn rate(value: f64) -> Result<SamplesPerSec, AllocError> {
    SamplesPerSec::new(value).map_err(|error| AllocError::Prediction {
        what: error.to_string(),
    })
}

fn estimate(mean: f64, std_error: f64) -> Result<Estimate, AllocError> {
    Ok(Estimate {
        mean: rate(mean)?,
        low: rate((mean - INTERVAL * std_error).max(0.0))?,
        high: rate(mean + INTERVAL * std_error)?,
    })
}

/// Every scheme at the batch sizes of the plan; on several GPUs, on the same tasks of each.
fn baselines<C: Throughput + ?Sized>(
    rates: &C,
    workload: &Workload,
    problem: &Problem,
    parts: &[Part],
) -> Result<Vec<Baseline>, AllocError> {
    let mut all = Vec::new();
    for scheme in Scheme::ALL {
        let mut results = Vec::new();
        let mut choices: Vec<(usize, Choice)> = Vec::new();
        for p in parts {
            let batches: Vec<Batch> = p.solution.settings.iter().map(|s| s.batch).collect();
            let subset = Subset::new(rates, &p.members);
            let got = scheme.predict(&subset, &p.problem, &batches)?;
            for (&i, s) in p.members.iter().zip(&got.settings) {
                let choice = Choice {
                    id: workload.tasks[i].id.clone(),
                    batch: s.batch,
                    share: s.share,
                };
                choices.push((i, choice));
            }
            results.push(got);
        }
        choices.sort_by_key(|(i, _)| *i);
        all.push(Baseline {
            name: scheme.in_document(),
            total_samples_per_s: results.iter().map(|r| r.raw).sum(),
            fairness: results.iter().map(|r| r.fairness).sum(),
            objective: joined(problem.objective, results.iter().map(|r| r.objective)),
            feasible: results.iter().all(|r| r.feasible),
            tasks: choices.into_iter().map(|(_, c)| c).collect(),
        });
    }
    Ok(all)
}

/// The theoretical maximum with free batch sizes, where they are not free.
fn unconstrained<C: Throughput + ?Sized>(
    rates: &C,
    problem: &Problem,
    options: &Options,
    gpus: usize,
) -> Result<Option<f64>, AllocError> {
    let l = &problem.limits;
    if gpus > 1 || (l.policy == BatchPolicy::Free && l.mismatch.is_none()) {
        return Ok(None);
    }
    let mut open = problem.clone();
    open.limits.policy = BatchPolicy::Free;
    open.limits.mismatch = None;
    let options = Options {
        top: 1,
        ..options.clone()
    };
    let (best, _) = search(rates, &open, &options)?;
    Ok(best.first().map(|s| s.objective))
}

fn explain<C: Throughput + ?Sized>(
    plan: &mut Plan,
    rates: &C,
    workload: &Workload,
    p: &Part,
) -> Result<(), AllocError> {
    let subset = Subset::new(rates, &p.members);
    for change in marginals(&subset, &p.problem, &p.solution, EXPLAINED_CHANGE)? {
        let by_name: BTreeMap<String, f64> = p
            .members
            .iter()
            .zip(&change.rates)
            .map(|(&i, &r)| (name(workload, i), r))
            .collect();
        plan.explanation.push(Marginal {
            id: name(workload, p.members[change.task]),
            share_percent: change.share.percent(),
            objective_change: change.objective,
            samples_per_s_change: by_name,
        });
    }
    Ok(())
}

fn front_points(workload: &Workload, front: &Front) -> Vec<ParetoPoint> {
    front
        .points
        .iter()
        .map(|s| front_point(workload, s))
        .collect()
}

fn front_point(workload: &Workload, s: &Solution) -> ParetoPoint {
    let choice = |(t, s): (&doc::Task, &Setting)| Choice {
        id: t.id.clone(),
        batch: s.batch,
        share: s.share,
    };
    ParetoPoint {
        objective: s.objective,
        mismatch: s.mismatch,
        total_samples_per_s: s.raw,
        fairness: s.fairness,
        tasks: workload.tasks.iter().zip(&s.settings).map(choice).collect(),
    }
}
