use doc::{ConstraintKind, Infeasibility, ObjectiveKind};
use units::{Batch, TotalShare};

use units::corun::Throughput;

use crate::error::AllocError;
use crate::problem::{Problem, Task};
use crate::search::answer::{SearchOptions, Solution};
use crate::search::instance::{Instance, Quantity, allowed_batches};
use crate::search::least::{first, least};
use crate::search::methods::budget::brief;

/// Finds the constraints that make the problem infeasible: each one whose relaxation to the reported value is
/// enough to make the problem feasible. If no constraint is enough alone, reports every constraint with its best
/// value without the others.
pub(crate) fn explain_infeasible<C: Throughput + ?Sized>(
    rates: &C,
    problem: &Problem,
    options: &SearchOptions,
) -> Result<Vec<Infeasibility>, AllocError> {
    let inst = Instance::new(rates, problem)?;
    if inst.sums().is_empty() {
        return Ok(vec![impossible_rv(&inst)]);
    }
    if inst.batches.iter().any(Vec::is_empty) {
        return Ok(vec![no_common_batch()]);
    }
    let options = brief(rates, options);
    let active: Vec<ConstraintKind> = CONSTRAINTS
        .into_iter()
        .filter(|&c| problem.is_limited(c))
        .collect();
    let mut found = Vec::new();
    for &c in &active {
        if let Some(best) = best_alone(c, rates, problem, &options)? {
            found.push(report(c, problem, best, "alone is enough"));
        }
    }
    if found.is_empty() {
        for &c in &active {
            let mut only = problem.clone();
            for &other in active.iter().filter(|&&o| o != c) {
                only.drop_limit(other);
            }
            if let Some(best) = best_alone(c, rates, &only, &options)? {
                let along = "is needed, and other constraints must be relaxed too";
                found.push(report(c, problem, best, along));
            }
        }
    }
    Ok(found)
}

/// In the order of the report.
const CONSTRAINTS: [ConstraintKind; 5] = [
    ConstraintKind::StarvationFloor,
    ConstraintKind::Mismatch,
    ConstraintKind::Memory,
    ConstraintKind::Rv,
    ConstraintKind::Batch,
];

/// The tightest value of this constraint with which all others can be met; `None` if there is none.
fn best_alone<C: Throughput + ?Sized>(
    kind: ConstraintKind,
    rates: &C,
    problem: &Problem,
    options: &SearchOptions,
) -> Result<Option<f64>, AllocError> {
    let mut relaxed = problem.clone();
    relaxed.drop_limit(kind);
    match kind {
        ConstraintKind::Mismatch => return least(rates, &relaxed, Quantity::Mismatch, options),
        ConstraintKind::Memory => return least(rates, &relaxed, Quantity::Memory, options),
        ConstraintKind::StarvationFloor => relaxed.objective = ObjectiveKind::MaxMin,
        ConstraintKind::Rv | ConstraintKind::Batch | ConstraintKind::Domain => {}
    }
    let plan = first(rates, &relaxed, options)?;
    Ok(plan.map(|plan| match kind {
        ConstraintKind::StarvationFloor => plan.least,
        ConstraintKind::Rv => total(&plan).percent(),
        _ => 1.0,
    }))
}

fn report(kind: ConstraintKind, problem: &Problem, best: f64, along: &str) -> Infeasibility {
    let l = &problem.limits;
    let (limit, advice) = match kind {
        ConstraintKind::StarvationFloor => (l.floor, format!("a floor of at most {best}")),
        ConstraintKind::Mismatch => (
            l.mismatch.unwrap_or(0.0),
            format!("a mismatch bound of at least {best}"),
        ),
        ConstraintKind::Memory => (
            l.memory.map_or(0.0, |m| m.get() as f64),
            format!("memory of at least {best} bytes"),
        ),
        ConstraintKind::Rv => (
            l.rv.map_or(0.0, TotalShare::percent),
            format!("a total share of {best} %"),
        ),
        ConstraintKind::Batch => (
            0.0,
            "a free choice of batch sizes (--batch free)".to_owned(),
        ),
        ConstraintKind::Domain => (0.0, "predictions beyond the profile (--outside)".to_owned()),
    };
    Infeasibility {
        constraint: kind,
        limit,
        best,
        advice: format!("{advice} {along}"),
    }
}

/// A largest set of tasks that fits into memory, each task at its batch size with the smallest need, and the total
/// need of the set. The smallest tasks are taken first, so no other set of as many tasks needs less.
pub(crate) fn fitting(problem: &Problem) -> (Vec<usize>, f64) {
    let least = |(task, sizes): (&Task, Vec<Batch>)| {
        let needs = sizes
            .into_iter()
            .map(|b| task.memory.map_or(0.0, |m| m.at(b)));
        needs.fold(f64::INFINITY, f64::min)
    };
    let sizes = allowed_batches(problem);
    let needs: Vec<f64> = problem.tasks.iter().zip(sizes).map(least).collect();
    let mut order: Vec<usize> = (0..needs.len()).collect();
    order.sort_by(|&a, &b| needs[a].total_cmp(&needs[b]));
    let most = problem
        .limits
        .memory
        .map_or(f64::INFINITY, |m| m.get() as f64);
    let (mut fit, mut sum) = (Vec::new(), 0.0);
    for i in order {
        if sum + needs[i] > most {
            break;
        }
        sum += needs[i];
        fit.push(i);
    }
    fit.sort_unstable();
    (fit, sum)
}

fn total(plan: &Solution) -> TotalShare {
    plan.settings.iter().map(|s| s.share).sum()
}

fn impossible_rv<C: Throughput + ?Sized>(inst: &Instance<'_, C>) -> Infeasibility {
    let limits = &inst.problem.limits;
    let step = limits.step.hundredths();
    let asked = limits.rv.map_or(0, TotalShare::hundredths);
    let n = inst.n as u32;
    let units = (f64::from(asked) / f64::from(step)).round() as u32;
    let nearest = TotalShare::from_hundredths(units.clamp(n, n * u32::from(inst.levels)) * step);
    Infeasibility {
        constraint: ConstraintKind::Rv,
        limit: TotalShare::from_hundredths(asked).percent(),
        best: nearest.percent(),
        advice: format!(
            "the shares of {n} tasks are multiples of {} and sum to {} to {}: ask for {nearest}",
            limits.step,
            TotalShare::from_hundredths(n * step),
            TotalShare::from_hundredths(n * u32::from(inst.levels) * step),
        ),
    }
}

fn no_common_batch() -> Infeasibility {
    Infeasibility {
        constraint: ConstraintKind::Batch,
        limit: 1.0,
        best: 0.0,
        advice: "the tasks have no batch size in common: give them one, or --batch free".to_owned(),
    }
}
