//! The least bound under which anything is feasible, and choices that keep bounds which a search
//! of something else misses.

use doc::{ConstraintKind, ObjectiveKind, Proof};
use units::{Bytes, TotalShare};

use crate::exhaustive::least_mismatch;
use crate::infeasible::{drop_from, is_active};
use crate::instance::{Goal, Instance, Quantity};
use crate::solve::{Effort, Options, Solution, affordable_points, search, search_instance};
use crate::{AllocError, Problem, Throughput};

/// Halvings of an interval when the least feasible bound is sought and no search proves it. Each
/// is a search or two; 12 leave 1/4096 of the interval. 30, as there once were, took most of the
/// time of an infeasible answer.
const HALVINGS: u32 = 12;
/// Points of each search. It is about whether anything is feasible, which the first ascents of a
/// search decide; 200,000 took ten times as long and found no more.
const POINTS: u64 = 20_000;
/// The same, times the square of the number of tasks, where each point is predicted: of 5 tasks
/// 3,600, so that all the searches for one bound take 2 seconds at most, of 3 tasks 10,000.
const PREDICTED: u64 = 90_000;

/// The options of searches for whether anything is feasible at all.
pub(crate) fn brief<C: Throughput + ?Sized>(rates: &C, options: &Options) -> Options {
    let points = match rates.interference() {
        Some(_) => POINTS,
        None => affordable_points(rates.task_count(), PREDICTED, POINTS),
    };
    Options {
        top: 1,
        effort: match options.effort {
            Effort::Exact => Effort::Auto,
            effort => effort,
        },
        max_points: options.max_points.min(points),
        reasons: false,
        ..options.clone()
    }
}

/// The best choice, if one is found.
pub(crate) fn first<C: Throughput + ?Sized>(
    rates: &C,
    problem: &Problem,
    options: &Options,
) -> Result<Option<Solution>, AllocError> {
    Ok(search(rates, problem, options)?.0.into_iter().next())
}

/// Least value of a quantity among the choices that keep all constraints but that on the quantity
/// itself, which `problem` has not; `None` where none does. A problem with that bound finds a choice.
pub(crate) fn least<C: Throughput + ?Sized>(
    rates: &C,
    problem: &Problem,
    quantity: Quantity,
    options: &Options,
) -> Result<Option<f64>, AllocError> {
    let mut inst = Instance::new(rates, problem)?;
    let known = match quantity {
        Quantity::Mismatch => least_mismatch(&inst),
        Quantity::Memory => Some(inst.rest_memory()[0]),
    };
    // Where shares can be found for the batch sizes that need least, that is the answer.
    if let Some(low) = known.filter(|l| l.is_finite())
        && let Some(bound) = kept(rates, problem, quantity, low, options)?
    {
        return Ok(Some(bound));
    }
    inst.goal = Goal::Least(quantity);
    let (found, report) = search_instance(&inst, options);
    let Some(found) = found.first() else {
        return Ok(None);
    };
    let mut high = -found.objective;
    if report.proof != Proof::NotProven {
        return Ok(Some(high));
    }
    let mut low = known.unwrap_or(0.0);
    for _ in 0..HALVINGS {
        if high - low <= 1e-9 * high {
            break;
        }
        let middle = 0.5 * (low + high);
        match kept(rates, problem, quantity, middle, options)? {
            Some(bound) => high = bound,
            None => low = middle,
        }
    }
    Ok(Some(high))
}

/// Where a choice within `bound` is found, what it reaches if that is found again when asked for
/// literally, else `bound`.
fn kept<C: Throughput + ?Sized>(
    rates: &C,
    problem: &Problem,
    quantity: Quantity,
    bound: f64,
    options: &Options,
) -> Result<Option<f64>, AllocError> {
    let mut bounded = problem.clone();
    let mut within = |bound: f64| {
        match quantity {
            Quantity::Mismatch => bounded.limits.mismatch = Some(bound),
            // Above what can be counted nothing is limited; a task's memory is below that.
            Quantity::Memory => bounded.limits.memory = Bytes::new(bound.ceil() as u64).ok(),
        }
        let found = first(rates, &bounded, options)?;
        Ok::<_, AllocError>(found.map(|s| match quantity {
            Quantity::Mismatch => s.mismatch,
            Quantity::Memory => memory(&bounded, &s).ceil(),
        }))
    };
    let bound = match quantity {
        Quantity::Mismatch => bound,
        Quantity::Memory => bound.ceil(),
    };
    let Some(reached) = within(bound)? else {
        return Ok(None);
    };
    let again = reached < bound && within(reached)?.is_some();
    Ok(Some(if again { reached } else { bound }))
}

fn memory(problem: &Problem, plan: &Solution) -> f64 {
    let needs = problem.tasks.iter().zip(&plan.settings);
    needs
        .map(|(t, s)| t.memory.map_or(0.0, |m| m.at(s.batch)))
        .sum()
}

/// A choice that keeps the constraints of a problem whose own search found none and proved
/// nothing: what searches find that are for a constraint alone, without it, or that are shorter.
/// It is what an explanation names as reachable, so that whoever follows it is not refused again.
pub(crate) fn witness<C: Throughput + ?Sized>(
    inst: &Instance<'_, C>,
    options: &Options,
) -> Option<Solution> {
    let brief = brief(inst.rates, options);
    let problem = inst.problem;
    let keeps = |s: &Solution| {
        let point = inst.point_of(&s.settings)?;
        let total: TotalShare = s.settings.iter().map(|s| s.share).sum();
        let summed = problem.limits.rv.is_none_or(|rv| rv == total);
        (summed && inst.look(&point).1.violation == 0.0).then(|| s.clone())
    };
    for kind in [
        ConstraintKind::Mismatch,
        ConstraintKind::StarvationFloor,
        ConstraintKind::Rv,
    ] {
        if !is_active(kind, problem) {
            continue;
        }
        let mut relaxed = problem.clone();
        drop_from(kind, &mut relaxed);
        let goal = match kind {
            ConstraintKind::Mismatch => Goal::Least(Quantity::Mismatch),
            ConstraintKind::StarvationFloor => Goal::Objective(ObjectiveKind::MaxMin),
            _ => inst.goal,
        };
        let Ok(mut other) = Instance::new(inst.rates, &relaxed) else {
            continue;
        };
        other.goal = goal;
        let found = search_instance(&other, &brief).0;
        if let Some(found) = found.first().and_then(keeps) {
            return Some(found);
        }
    }
    None
}
