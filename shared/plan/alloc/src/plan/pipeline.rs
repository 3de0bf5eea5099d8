//! From a workload to a problem, and from its solution to a plan.

use doc::{
    Answer, Candidate, Candidates, ConstraintKind, Corun, Infeasibility, Infeasible, ParetoPoint,
    Plan, Workload,
};
use units::Bytes;
use units::corun::{Setting, Throughput};

use crate::error::AllocError;
use crate::judge::measured::{MeasuredConfig, certified, choose, partly_measured};
use crate::plan::pose::{damp, pose};
use crate::plan::request::Request;
use crate::plan::write::{constraints, feasible, front_point, search_report, tasks, written};
use crate::problem::Problem;
use crate::problem::domain::{self, DomainPenalty};
use crate::rates::Remembered;
use crate::search::answer::Part;
use crate::search::answer::{Report, Solution};
use crate::search::infeasible::fitting;
use crate::search::least::least_feasible_mismatch;
use crate::search::partition::solve_partition;
use crate::search::solve::solve;

/// The plan of a workload, without its model and provenance:
///
/// 1. *pose* the problem of the workload and the request;
/// 2. *seek* the best choice by `rates`, or the reason why there is none;
/// 3. *stay in the domain*: refuse a choice outside the measured domain, unless allowed;
/// 4. *prefer what was measured*: on one GPU, a co-run of `measured` is the plan, unless the best choice by
///    `rates` is better by more than the usual overestimate;
/// 5. *compare* it with simpler schemes, and *write* both.
///
/// # Errors
/// [`AllocError`] for an invalid problem. If nothing is feasible, that is a valid result.
pub fn plan_workload<C: Throughput + ?Sized>(
    rates: &C,
    workload: &Workload,
    request: &Request,
    measured: &[Corun],
    previous: Option<&Plan>,
) -> Result<Plan, AllocError> {
    let known = Remembered::new(rates, request.looks_again());
    let mut problem = pose(rates, workload, request);
    let loads = request
        .damping
        .map(|lambda| damp(workload, &mut problem, previous, lambda));
    let penalised = DomainPenalty::new(&known, &problem, request.outside);
    if request.least_mismatch {
        problem.limits.mismatch = bound_mismatch(&penalised, workload, &problem, request)?;
    }
    let mut best = Best::seek(&known, &penalised, workload, &problem, request)?;
    if !request.outside {
        best.stay_in_domain(rates, workload);
    }
    let measured = if request.measured { measured } else { &[] };
    let top = request.options.top;
    // The plan and its rivals are ordered thoroughly, some of them repeatedly, so their predictions are kept.
    let judged = Remembered::new(&known, problem.is_ordered());
    let candidates = best.prefer_measured(&judged, workload, &problem, measured, top);
    let search = search_report(best.report);
    if best.parts.is_empty() {
        tell_what_fits(workload, &problem, &mut best.reasons);
        // A plan that says neither what to run nor what prevents it is useless.
        if request.options.reasons && best.reasons.is_empty() {
            return Err(AllocError::Unexplained);
        }
        let none = Infeasible {
            reasons: best.reasons,
            constraints: Some(constraints(&problem.limits)),
            search: Some(search),
        };
        return Ok(written(workload, Vec::new(), Answer::Infeasible(none)));
    }
    let parts = &best.parts;
    let mut found = feasible(
        &penalised, &judged, workload, &problem, request, parts, search,
    )?;
    found.alternatives = best.alternatives;
    found.candidates = candidates;
    let tasks = tasks(workload, parts, loads.as_deref());
    let answer = Answer::Feasible(Box::new(found));
    Ok(written(workload, tasks, answer))
}

/// The least feasible mismatch; `None` if no plan is feasible.
fn bound_mismatch<C: Throughput + ?Sized>(
    rates: &DomainPenalty<'_, C>,
    workload: &Workload,
    problem: &Problem,
    request: &Request,
) -> Result<Option<f64>, AllocError> {
    if workload.device.gpus > 1 {
        return Err(AllocError::LeastOfSeveral);
    }
    least_feasible_mismatch(rates, problem, &request.options)
}

/// Result of a search.
struct Best {
    parts: Vec<Part>,
    /// The runners-up; empty with several GPUs.
    alternatives: Vec<ParetoPoint>,
    report: Report,
    /// Why nothing is feasible.
    reasons: Vec<Infeasibility>,
}

impl Best {
    /// The best choice inside the domain; if there is none, the best one anywhere.
    fn seek<C: Throughput + ?Sized>(
        rates: &C,
        penalised: &DomainPenalty<'_, C>,
        workload: &Workload,
        problem: &Problem,
        request: &Request,
    ) -> Result<Self, AllocError> {
        // If a search outside the domain follows, it gives the reasons.
        let mut inside = request.clone();
        inside.options.reasons &= !penalised.is_active();
        let best = best_parts(penalised, workload, problem, &inside)?;
        if !best.parts.is_empty() || !penalised.is_active() {
            return Ok(best);
        }
        // Outside the domain a constraint fails because rates are missing; find out what is possible without it.
        let open = DomainPenalty::new(rates, problem, true);
        best_parts(&open, workload, problem, request)
    }

    /// Refuses a choice outside the measured domain.
    fn stay_in_domain<C: Throughput + ?Sized>(&mut self, rates: &C, workload: &Workload) {
        if let Some(reason) = beyond(rates, workload, &self.parts) {
            (self.parts, self.reasons) = (Vec::new(), vec![reason]);
        }
    }

    /// Replaces the found choice by the best measured co-run, unless the found one is better by more than the
    /// usual overestimate ([`choose`], [`partly_measured`]).
    fn prefer_measured<C: Throughput + ?Sized>(
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
        let known = MeasuredConfig::of_model(measured, workload);
        let predicted = self.parts.first().map(|p| &p.solution);
        let Some(chosen) = choose(rates, workload, problem, &known, predicted) else {
            let better = predicted.and_then(|best| partly_measured(rates, problem, &known, best));
            if let Some(solution) = better {
                self.replace(workload, problem, solution, None, top);
                // What the model finds better than the plan would look like the better plan.
                let plan = self.parts.first().map(|p| p.solution.objective);
                self.alternatives.retain(|p| Some(p.objective) <= plan);
            }
            return None;
        };
        if let Some(solution) = chosen.measured {
            let measured = Some(&chosen.candidates.measured);
            self.replace(workload, problem, solution, measured, top);
        }
        Some(chosen.candidates)
    }

    /// Makes a measured co-run the plan; `measured` is its value at measured rates, if these are complete.
    fn replace(
        &mut self,
        workload: &Workload,
        problem: &Problem,
        plan: Solution,
        measured: Option<&Candidate>,
        top: usize,
    ) {
        let best = self.parts.first().map(|p| &p.solution);
        self.report = certified(self.report, best, &plan, measured);
        self.reasons = Vec::new();
        self.runners_up(workload, &plan, top);
        let members = (0..problem.tasks.len()).collect();
        self.parts = Part::of(problem, members, Some(plan)).into_iter().collect();
    }

    /// If the plan is a measured co-run, the model's best is a runner-up.
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

/// Adds to an infeasible memory constraint which tasks would fit without the others.
fn tell_what_fits(workload: &Workload, problem: &Problem, reasons: &mut [Infeasibility]) {
    // With several GPUs, a reason does not say to which GPU it applies.
    let one = workload.device.gpus == 1;
    let memory = |r: &&mut Infeasibility| one && r.constraint == ConstraintKind::Memory;
    let Some(reason) = reasons.iter_mut().find(memory) else {
        return;
    };
    let (fit, need) = fitting(problem);
    let named = |wanted: bool| -> Vec<&str> {
        let tasks = workload
            .tasks
            .iter()
            .enumerate()
            .filter(|(i, _)| fit.contains(i) == wanted);
        tasks.map(|(_, t)| t.id.as_str()).collect()
    };
    let (kept, left) = (named(true), named(false));
    let Ok(need) = Bytes::new(need.ceil() as u64) else {
        return;
    };
    if kept.is_empty() {
        reason.advice += "; not even one task fits";
    } else if !left.is_empty() {
        let (kept, left) = (kept.join(", "), left.join(", "));
        reason.advice += &format!("; without {left} the others fit ({kept}: {need})");
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
                .filter_map(|(members, s)| Part::of(problem, members, s))
                .collect(),
            alternatives: Vec::new(),
            report: found.report,
            reasons: found.infeasible,
        });
    }
    let outcome = solve(rates, problem, &request.options)?;
    let others = outcome.solutions.iter().skip(1);
    let inside = |s: &&Solution| request.outside || domain::beyond(rates, &s.settings) == 0;
    let others = others.filter(inside);
    let members = (0..problem.tasks.len()).collect();
    Ok(Best {
        alternatives: others.map(|s| front_point(workload, s)).collect(),
        parts: Part::of(problem, members, outcome.solutions.into_iter().next())
            .into_iter()
            .collect(),
        report: outcome.report,
        reasons: outcome.infeasible,
    })
}

/// Why a choice outside the measured domain is refused: nothing inside is feasible.
fn beyond<C: Throughput + ?Sized>(
    rates: &C,
    workload: &Workload,
    parts: &[Part],
) -> Option<Infeasibility> {
    let whole = |p: &Part| -> Vec<Setting> {
        let settings = p.members.iter().zip(&p.solution.settings);
        settings.map(|(&task, s)| Setting { task, ..*s }).collect()
    };
    let outside: usize = parts.iter().map(|p| domain::beyond(rates, &whole(p))).sum();
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
