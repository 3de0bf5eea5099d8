//! From a workload to a problem, and from its solution to a plan.

use corun::Setting;
use doc::{
    Answer, Baseline, BatchPolicy, Candidates, Choice, ConstraintKind, Constraints, Corun,
    Decision, Estimate, Feasible, GpuPlan, Infeasibility, Infeasible, Marginal, Objective,
    ObjectiveKind, ParetoPoint, Plan, PlanTask, Search, Workload,
};
use units::{Batch, Samples, SamplesPerSec, Share, Weight};

use crate::baseline::Scheme;
use crate::explain::marginals;
use crate::measured::{certified, choose};
use crate::partition::solve_partition;
use crate::penalty::{self, DomainPenalty};
use crate::solve::{Options, Report, Solution, search, solve};
use crate::subset::Subset;
use crate::verdict::verdict;
use crate::{
    AllocError, Front, Known, Limits, Problem, Round, Task, Throughput, damped_load,
    fairness_front, mismatch_front,
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
    /// Whether a plan may lie outside what was measured ([`Throughput::covers`]).
    pub outside: bool,
    /// Whether a measured co-run may be the plan.
    pub measured: bool,
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
            // `notes::transfers` says why there is none.
            round: Round::of_workload(workload).ok(),
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

/// Solves a workload and writes the answer as a plan, without its model and provenance. On one
/// GPU a co-run of `measured` is the plan where it is no worse than the best by the rates, as far
/// as those are sure.
pub fn plan_workload<C: Throughput + ?Sized>(
    rates: &C,
    workload: &Workload,
    request: &Request,
    measured: &[Corun],
    previous: Option<&Plan>,
) -> Result<Plan, AllocError> {
    let mut problem =
        Problem::of_workload(rates, workload, request.objective, request.limits.clone());
    let loads = request
        .damping
        .map(|lambda| damp(workload, &mut problem, previous, lambda));
    let penalised = DomainPenalty::new(rates, &problem, request.outside);
    let mut best = best_parts(&penalised, workload, &problem, request)?;
    if best.parts.is_empty() && penalised.is_active() {
        // Outside the domain a constraint fails for want of rates: what can be had without it?
        let open = DomainPenalty::new(rates, &problem, true);
        best = best_parts(&open, workload, &problem, request)?;
    }
    if !request.outside
        && let Some(reason) = beyond(rates, workload, &best.parts)
    {
        (best.parts, best.reasons) = (Vec::new(), vec![reason]);
    }
    let measured = if request.measured { measured } else { &[] };
    let candidates = best.or_measured(rates, workload, &problem, measured, request.options.top);
    let Best {
        parts,
        alternatives,
        report,
        reasons,
    } = best;
    let search = search_report(report);
    // A plan that says neither what to run nor what prevents it is none.
    if parts.is_empty() && request.options.reasons && reasons.is_empty() {
        return Err(AllocError::Unexplained);
    }
    let (tasks, answer) = if parts.is_empty() {
        let none = Infeasible {
            reasons,
            constraints: Some(constraints(&problem.limits)),
            search: Some(search),
        };
        (Vec::new(), Answer::Infeasible(none))
    } else {
        let mut found = feasible(&penalised, workload, &problem, request, &parts, search)?;
        found.alternatives = alternatives;
        found.candidates = candidates;
        let tasks = tasks(workload, &parts, loads.as_deref());
        (tasks, Answer::Feasible(Box::new(found)))
    };
    Ok(Plan {
        id: workload.id.clone(),
        link: workload.link,
        tasks,
        answer,
        rates: Vec::new(),
        model: None,
        workload: None,
        provenance: Vec::new(),
    })
}

/// What a search found.
struct Best {
    parts: Vec<Part>,
    /// The runners-up of a single GPU.
    alternatives: Vec<ParetoPoint>,
    report: Report,
    /// Why nothing is feasible.
    reasons: Vec<Infeasibility>,
}

impl Best {
    /// Puts a measured co-run in place of what was found, if there is one that is no worse.
    fn or_measured<C: Throughput + ?Sized>(
        &mut self,
        rates: &C,
        workload: &Workload,
        problem: &Problem,
        measured: &[Corun],
        top: usize,
    ) -> Option<Candidates> {
        if workload.device.gpus > 1 {
            return None;
        }
        let known = Known::of_model(measured, workload);
        let predicted = self.parts.first().map(|p| &p.solution);
        let chosen = choose(rates, workload, problem, &known, predicted)?;
        if let Some(solution) = chosen.measured {
            self.report = certified(self.report, predicted, &solution);
            self.reasons = Vec::new();
            self.runners_up(workload, &solution, top);
            let members = (0..problem.tasks.len()).collect();
            self.parts = part(problem, members, Some(solution));
        }
        Some(chosen.candidates)
    }

    /// Beside a measured plan the best by the model is a runner-up.
    fn runners_up(&mut self, workload: &Workload, plan: &Solution, top: usize) {
        let best = self.parts.first().map(|p| &p.solution);
        if let Some(best) = best.filter(|b| b.settings != plan.settings) {
            let own = front_point(workload, plan).tasks;
            self.alternatives.retain(|p| p.tasks != own);
            self.alternatives.insert(0, front_point(workload, best));
            self.alternatives.truncate(top.saturating_sub(1));
        }
    }
}

/// The best choice on each GPU.
fn best_parts<C: Throughput + ?Sized>(
    rates: &DomainPenalty<'_, C>,
    workload: &Workload,
    problem: &Problem,
    request: &Request,
) -> Result<Best, AllocError> {
    let gpus = workload.device.gpus as usize;
    if gpus > 1 {
        let found = solve_partition(rates, problem, gpus, &request.options)?;
        let groups = found.groups.into_iter().zip(found.solutions);
        return Ok(Best {
            parts: groups
                .flat_map(|(members, s)| part(problem, members, s))
                .collect(),
            alternatives: Vec::new(),
            report: found.report,
            reasons: found.infeasible,
        });
    }
    let outcome = solve(rates, problem, &request.options)?;
    let others = outcome.solutions.iter().skip(1);
    let inside = |s: &&Solution| request.outside || penalty::beyond(rates, &s.settings) == 0;
    let others = others.filter(inside);
    let members = (0..problem.tasks.len()).collect();
    Ok(Best {
        alternatives: others.map(|s| front_point(workload, s)).collect(),
        parts: part(problem, members, outcome.solutions.into_iter().next()),
        report: outcome.report,
        reasons: outcome.infeasible,
    })
}

/// Why a choice is refused that lies outside what was measured: nothing inside is feasible.
fn beyond<C: Throughput + ?Sized>(
    rates: &C,
    workload: &Workload,
    parts: &[Part],
) -> Option<Infeasibility> {
    let whole = |p: &Part| -> Vec<Setting> {
        let settings = p.members.iter().zip(&p.solution.settings);
        settings.map(|(&task, s)| Setting { task, ..*s }).collect()
    };
    let outside: usize = parts
        .iter()
        .map(|p| penalty::beyond(rates, &whole(p)))
        .sum();
    let text = |s: Setting| {
        let id = workload.tasks[s.task].id.as_str();
        format!("{id} {} at {}", s.batch, s.share)
    };
    let nearest: Vec<String> = parts.iter().flat_map(whole).map(text).collect();
    (outside > 0).then(|| Infeasibility {
        constraint: ConstraintKind::Domain,
        limit: 0.0,
        best: outside as f64,
        advice: format!(
            "no feasible plan lies within what was profiled; the best beyond it is {}: profile \
             co-runs of as many tasks at such shares and batch sizes, or allow predictions beyond \
             them with --outside",
            nearest.join(", ")
        ),
    })
}

/// What was found, and what it is compared with; without alternatives.
fn feasible<C: Throughput + ?Sized>(
    penalised: &DomainPenalty<'_, C>,
    workload: &Workload,
    problem: &Problem,
    request: &Request,
    parts: &[Part],
    search: Search,
) -> Result<Feasible, AllocError> {
    let rates = penalised.inner();
    let one = workload.device.gpus == 1;
    let front = |wanted: bool, fairness: bool| {
        if !(one && wanted) {
            return Ok(Vec::new());
        }
        let options = &request.options;
        let front = match fairness {
            true => fairness_front(penalised, problem, options)?,
            false => mismatch_front(penalised, problem, options)?,
        };
        Ok(front_points(workload, &front))
    };
    let mut explanation = Vec::new();
    for p in parts.iter().filter(|_| request.explain) {
        explanation.extend(explain(rates, workload, p)?);
    }
    let kind = problem.objective;
    let known = workload.tasks.iter().all(|t| t.samples.is_some());
    let worst = parts.iter().map(|p| p.solution.mismatch);
    let gpus = workload.device.gpus as usize;
    let value = joined(kind, parts.iter().map(|p| p.solution.objective));
    Ok(Feasible {
        decisions: decisions(rates, parts)?,
        rv: parts.iter().flat_map(shares).sum(),
        verdict: verdict(rates, workload, parts)?,
        objective: Objective { kind, value },
        constraints: constraints(&problem.limits),
        mismatch: known.then(|| worst.fold(0.0, f64::max)),
        // A search that proves nothing may stay below what the constraints leave.
        unconstrained_objective: unconstrained(penalised, problem, &request.options, gpus)?
            .map(|open| open.max(value)),
        baselines: baselines(rates, workload, problem, parts)?,
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

fn constraints(limits: &Limits) -> Constraints {
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

fn search_report(report: Report) -> Search {
    Search {
        points: report.points,
        proof: report.proof,
        bound: report.bound,
        seconds: None,
    }
}

/// In the order of the workload's tasks.
fn in_order<T>(rows: impl Iterator<Item = (usize, T)>) -> Vec<T> {
    let mut rows: Vec<(usize, T)> = rows.collect();
    rows.sort_by_key(|(task, _)| *task);
    rows.into_iter().map(|(_, row)| row).collect()
}

fn tasks(workload: &Workload, parts: &[Part], loads: Option<&[Option<Samples>]>) -> Vec<PlanTask> {
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
