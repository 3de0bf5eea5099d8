//! Writes the result as a plan.

use doc::{
    Answer, Baseline, BatchPolicy, Choice, Constraints, Decision, Feasible, GpuPlan, Infeasibility,
    Infeasible, Marginal, Objective, ObjectiveKind, ParetoPoint, Plan, PlanTask, Search, Workload,
};
use units::corun::{Setting, Throughput};
use units::{Batch, Samples, Share};

use crate::error::AllocError;
use crate::judge::explain::marginals;
use crate::judge::schemes::Scheme;
use crate::judge::target::target;
use crate::judge::verdict::verdict;
use crate::plan::request::Request;
use crate::problem::domain::{DomainPenalty, beyond};
use crate::problem::{Limits, Problem};
use crate::quantities::{estimate, rate};
use crate::rates::Subset;
use crate::search::answer::Part;
use crate::search::answer::{Report, SearchOptions, Solution};
use crate::search::best::roughly;
use crate::search::front::{Front, fairness_front, mismatch_front};

/// The change of share that `--explain` tries.
const EXPLAINED_CHANGE: Share = Share::from_hundredths(500);
/// The plan of a workload that needs no search, because `reason` rules out every choice.
pub(crate) fn refused(workload: &Workload, limits: &Limits, reason: Infeasibility) -> Plan {
    let none = Infeasible {
        reasons: vec![reason],
        constraints: Some(constraints(limits)),
        search: None,
    };
    written(workload, Vec::new(), Answer::Infeasible(none))
}

pub(super) fn written(workload: &Workload, tasks: Vec<PlanTask>, answer: Answer) -> Plan {
    Plan {
        id: workload.id.clone(),
        link: workload.link,
        tasks,
        answer,
        rates: Vec::new(),
        model: None,
        workload: None,
        provenance: Vec::new(),
    }
}

/// The result and its comparisons, without alternatives. Searches use the first rates, which may have a penalty;
/// everything else uses the second, which have none.
pub(super) fn feasible<C: Throughput + ?Sized, R: Throughput + ?Sized>(
    penalised: &DomainPenalty<'_, C>,
    rates: &R,
    workload: &Workload,
    problem: &Problem,
    request: &Request,
    parts: &[Part],
    search: Search,
) -> Result<Feasible, AllocError> {
    let one = workload.device.gpus == 1;
    let front = |wanted: bool, fairness: bool| {
        if !(one && wanted) {
            return Ok(Vec::new());
        }
        let options = &request.options;
        let mut front = match fairness {
            true => fairness_front(penalised, problem, options)?,
            false => mismatch_front(penalised, problem, options)?,
        };
        if !request.outside {
            // A choice outside the domain has results at penalised rates, which are no predictions, so drop it.
            front.points.retain(|s| beyond(rates, &s.settings) == 0);
        }
        Ok(front_points(workload, &front))
    };
    let mut explanation = Vec::new();
    for p in parts.iter().filter(|_| request.explain) {
        explanation.extend(explain(rates, workload, p)?);
    }
    explanation.sort_by_key(|change: &Marginal| workload.task_index(&change.id));
    let kind = problem.objective;
    let known = workload.tasks.iter().all(|t| t.samples.is_some());
    let worst = parts.iter().map(|p| p.solution.mismatch);
    let gpus = workload.device.gpus as usize;
    let value = joined(kind, parts.iter().map(|p| p.solution.objective));
    let baselines = baselines(rates, workload, problem, parts)?;
    let fastest = fastest_samples(penalised, problem, &request.options, gpus)?;
    Ok(Feasible {
        decisions: decisions(rates, parts)?,
        rv: parts.iter().flat_map(shares).sum(),
        verdict: verdict(rates, workload, parts)?,
        prediction: None,
        objective: Objective { kind, value },
        constraints: constraints(&problem.limits),
        mismatch: known.then(|| worst.fold(0.0, f64::max)),
        // An unproven search may miss the choice that was found with constraints.
        unconstrained_objective: unconstrained(penalised, problem, &request.options, gpus)?
            .map(|open| open.max(value)),
        target: target(rates, workload, problem, parts, &baselines, fastest)?,
        baselines,
        pareto: front(request.mismatch_front, false)?,
        pareto_fairness: front(request.fairness_front, true)?,
        alternatives: Vec::new(),
        explanation,
        gpus: if one {
            Vec::new()
        } else {
            gpu_plans(workload, parts)
        },
        candidates: None,
        search,
    })
}

pub(super) fn constraints(limits: &Limits) -> Constraints {
    Constraints {
        share_step: limits.step,
        rv: limits.rv,
        starvation_floor: (limits.floor > 0.0).then_some(limits.floor),
        memory: limits.memory,
        batch: limits.policy,
        mismatch: limits.mismatch,
        balance: limits.balance,
        solo: limits.solo,
    }
}

pub(super) fn search_report(report: Report) -> Search {
    Search {
        points: report.points,
        proof: report.proof,
        bound: report.bound,
        seconds: None,
    }
}

/// Sorts rows by the task's position in the workload.
fn in_order<T>(rows: impl Iterator<Item = (usize, T)>) -> Vec<T> {
    let mut rows: Vec<(usize, T)> = rows.collect();
    rows.sort_by_key(|(task, _)| *task);
    rows.into_iter().map(|(_, row)| row).collect()
}

pub(super) fn tasks(
    workload: &Workload,
    parts: &[Part],
    loads: Option<&[Option<Samples>]>,
) -> Vec<PlanTask> {
    let several = workload.device.gpus > 1;
    let row = |gpu: usize, i: usize| {
        let task = &workload.tasks[i];
        PlanTask {
            id: task.id.clone(),
            gpu: several.then_some(gpu as u32),
            samples: task.samples,
            load: loads.and_then(|l| l[i]),
            update_bytes: task.update_bytes,
        }
    };
    let row = &row;
    let rows = parts.iter().enumerate();
    in_order(rows.flat_map(|(gpu, p)| p.members.iter().map(move |&i| (i, row(gpu, i)))))
}

fn decisions<C: Throughput + ?Sized>(
    rates: &C,
    parts: &[Part],
) -> Result<Vec<Decision>, AllocError> {
    let mut rows = Vec::new();
    for p in parts {
        let errors = std_errors(rates, p);
        let subset = Subset::new(rates, &p.members);
        for (k, &i) in p.members.iter().enumerate() {
            let Setting { batch, share, .. } = p.solution.settings[k];
            let decision = Decision {
                batch,
                share,
                throughput: estimate(p.solution.rates[k], errors[k])?,
                solo: rate(p.problem.solo(&subset, k, batch))?,
            };
            rows.push((i, decision));
        }
    }
    Ok(in_order(rows.into_iter()))
}

fn shares(part: &Part) -> impl Iterator<Item = Share> {
    part.solution.settings.iter().map(|s| s.share)
}

fn gpu_plans(workload: &Workload, parts: &[Part]) -> Vec<GpuPlan> {
    let plan = |(gpu, p): (usize, &Part)| GpuPlan {
        gpu: gpu as u32,
        tasks: p
            .members
            .iter()
            .map(|&i| workload.tasks[i].id.clone())
            .collect(),
        rv: shares(p).sum(),
        total_samples_per_s: p.solution.raw,
        fairness: p.solution.fairness,
        objective: p.solution.objective,
    };
    parts.iter().enumerate().map(plan).collect()
}

/// The objective over several GPUs.
fn joined(kind: ObjectiveKind, values: impl Iterator<Item = f64>) -> f64 {
    match kind {
        ObjectiveKind::MaxMin | ObjectiveKind::Round | ObjectiveKind::ProgressLast => {
            values.fold(f64::INFINITY, f64::min)
        }
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

/// Every scheme at the batch sizes of the plan or, for progress, at its own best ones. With several GPUs, each GPU
/// keeps its tasks.
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
            let got = scheme.at_its_best(&subset, &p.problem, &batches)?;
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

/// The objective without a mismatch bound and with free batch sizes; `None` if the plan has neither limit, or with
/// several GPUs.
fn unconstrained<C: Throughput + ?Sized>(
    rates: &C,
    problem: &Problem,
    options: &SearchOptions,
    gpus: usize,
) -> Result<Option<f64>, AllocError> {
    let l = &problem.limits;
    if gpus > 1 || (l.policy == BatchPolicy::Free && l.mismatch.is_none()) {
        return Ok(None);
    }
    let mut open = problem.clone();
    open.limits.alone = Some(l.policy);
    open.limits.policy = BatchPolicy::Free;
    open.limits.mismatch = None;
    let best = roughly(rates, &open, options)?;
    Ok(best.map(|s| s.objective))
}

/// The plan of the shortest round, regardless of the value of a sample, for comparison with a plan for progress.
fn fastest_samples<C: Throughput + ?Sized>(
    rates: &C,
    problem: &Problem,
    options: &SearchOptions,
    gpus: usize,
) -> Result<Option<Vec<Setting>>, AllocError> {
    if gpus > 1 || !problem.is_progress() || !problem.is_timed() {
        return Ok(None);
    }
    let mut by_samples = problem.clone();
    by_samples.objective = ObjectiveKind::Round;
    let best = roughly(rates, &by_samples, options)?;
    Ok(best.map(|s| s.settings))
}

fn explain<C: Throughput + ?Sized>(
    rates: &C,
    workload: &Workload,
    p: &Part,
) -> Result<Vec<Marginal>, AllocError> {
    let subset = Subset::new(rates, &p.members);
    let changes = marginals(&subset, &p.problem, &p.solution, EXPLAINED_CHANGE)?;
    let id = |i: usize| workload.tasks[i].id.clone();
    let each = changes.into_iter().map(|change| {
        let by_task = p.members.iter().zip(&change.rates);
        Marginal {
            id: id(p.members[change.task]),
            share: change.share,
            objective_change: change.objective,
            samples_per_s_change: by_task.map(|(&i, &r)| (id(i), r)).collect(),
        }
    });
    Ok(each.collect())
}

fn front_points(workload: &Workload, front: &Front) -> Vec<ParetoPoint> {
    front
        .points
        .iter()
        .map(|s| front_point(workload, s))
        .collect()
}

pub(super) fn front_point(workload: &Workload, s: &Solution) -> ParetoPoint {
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
