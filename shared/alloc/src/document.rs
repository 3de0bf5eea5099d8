//! From a workload to a problem, and from its solution to a plan.

mod write;

use corun::Setting;
use doc::{
    Answer, BatchPolicy, Candidates, ConstraintKind, Corun, Infeasibility, Infeasible,
    ObjectiveKind, ParetoPoint, Plan, PlanTask, Workload,
};
use units::{Batch, Samples, Weight};

use crate::changed::Remembered;
use crate::instance::Quantity;
use crate::least::{brief, least};
use crate::measured::{certified, choose};
use crate::partition::solve_partition;
use crate::penalty::{self, DomainPenalty};
use crate::solve::{Options, Report, Solution, solve};
use crate::{AllocError, Known, Limits, Problem, Round, Task, Throughput, damped_load};
pub(crate) use write::{INTERVAL, rate};
use write::{constraints, feasible, front_point, search_report, tasks};

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
    /// Largest batch size that a task may take.
    pub max_batch: Option<Batch>,
    /// Whether the mismatch has to be the least that is feasible, in place of a bound.
    pub least_mismatch: bool,
}

impl Request {
    /// The plan of the largest `objective` within limits and within what was measured.
    #[must_use]
    pub fn new(objective: ObjectiveKind, limits: Limits) -> Self {
        Self {
            objective,
            limits,
            options: Options::default(),
            mismatch_front: false,
            fairness_front: false,
            explain: false,
            outside: false,
            measured: true,
            damping: None,
            max_batch: None,
            least_mismatch: false,
        }
    }

    /// What a plan was asked to be; none of one that does not say what it maximises.
    #[must_use]
    pub fn of_plan(plan: &Plan) -> Option<Self> {
        let found = plan.feasible()?;
        let held = &found.constraints;
        let limits = Limits {
            step: held.share_step,
            rv: held.rv,
            floor: held.starvation_floor.unwrap_or(0.0),
            memory: held.memory,
            policy: held.batch,
            mismatch: held.mismatch,
            balance: held.balance,
            solo: held.solo,
        };
        Some(Self {
            // What asks again does not stop because a plan made for it earlier lies outside.
            outside: true,
            ..Self::new(found.objective.kind, limits)
        })
    }

    /// Whether choices are looked at for more than the plan.
    fn looks_again(&self) -> bool {
        let limits = &self.limits;
        let bounded = limits.mismatch.is_some() || limits.policy != BatchPolicy::Free;
        bounded || self.least_mismatch || self.mismatch_front || self.fairness_front
    }
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
    let known = Remembered::new(rates, request.looks_again());
    let penalised = DomainPenalty::new(&known, &problem, request.outside);
    if request.least_mismatch {
        if workload.device.gpus > 1 {
            return Err(AllocError::LeastOfSeveral);
        }
        let mut open = problem.clone();
        open.limits.mismatch = None;
        let options = brief(rates, &request.options);
        problem.limits.mismatch = least(&penalised, &open, Quantity::Mismatch, &options)?;
    }
    // Where a search beyond the domain follows, that one gives the reasons.
    let mut inside = request.clone();
    inside.options.reasons &= !penalised.is_active();
    let mut best = best_parts(&penalised, workload, &problem, &inside)?;
    if best.parts.is_empty() && penalised.is_active() {
        // Outside the domain a constraint fails for want of rates: what can be had without it?
        let open = DomainPenalty::new(&known, &problem, true);
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
    Ok(written(workload, tasks, answer))
}

/// The plan of a workload for which nothing needs to be searched, because `reason` forbids all.
pub(crate) fn refused(workload: &Workload, limits: &Limits, reason: Infeasibility) -> Plan {
    let none = Infeasible {
        reasons: vec![reason],
        constraints: Some(constraints(limits)),
        search: None,
    };
    written(workload, Vec::new(), Answer::Infeasible(none))
}

fn written(workload: &Workload, tasks: Vec<PlanTask>, answer: Answer) -> Plan {
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
