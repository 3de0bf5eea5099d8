use doc::{BatchPolicy, ConstraintKind, Infeasibility, ObjectiveKind};
use units::{Bytes, TotalShare};

use crate::exhaustive::least_mismatch;
use crate::instance::Instance;
use crate::solve::{Effort, Options, Solution, search};
use crate::{AllocError, Problem, Throughput};

/// Halvings of an interval when the least feasible bound is sought and is not known exactly. Each
/// is a search; 12 leave 1/4096 of the interval. 30, as there once were, took most of the time of
/// an infeasible answer.
const HALVINGS: u32 = 12;
/// Points of each search of an explanation. It is about whether anything is feasible, which the
/// first ascents of a search decide; 200,000 took ten times as long and found no more.
const POINTS: u64 = 20_000;

/// Says which constraints stand in the way: each one that, relaxed alone to the value named,
/// makes the problem feasible; where no single one does, each that cannot be met even alone, or
/// else all of them with what each could reach without the others.
pub(crate) fn explain_infeasible<C: Throughput + ?Sized>(
    rates: &C,
    problem: &Problem,
    options: &Options,
) -> Result<Vec<Infeasibility>, AllocError> {
    let inst = Instance::new(rates, problem)?;
    if inst.sums().is_empty() {
        return Ok(vec![impossible_rv(&inst)]);
    }
    if inst.batches.iter().any(Vec::is_empty) {
        return Ok(vec![no_common_batch()]);
    }
    let options = Options {
        top: 1,
        effort: match options.effort {
            Effort::Exact => Effort::Auto,
            effort => effort,
        },
        max_points: options.max_points.min(POINTS),
        ..options.clone()
    };
    let active: Vec<ConstraintKind> = CONSTRAINTS
        .into_iter()
        .filter(|&c| is_active(c, problem))
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
                drop_from(other, &mut only);
            }
            if let Some(best) = best_alone(c, rates, &only, &options)? {
                let along = "is needed, and other constraints must be relaxed too";
                found.push(report(c, problem, best, along));
            }
        }
    }
    Ok(found)
}

/// In the order in which they are told.
const CONSTRAINTS: [ConstraintKind; 5] = [
    ConstraintKind::StarvationFloor,
    ConstraintKind::Mismatch,
    ConstraintKind::Memory,
    ConstraintKind::Rv,
    ConstraintKind::Batch,
];

fn is_active(kind: ConstraintKind, problem: &Problem) -> bool {
    let l = &problem.limits;
    match kind {
        ConstraintKind::StarvationFloor => l.floor > 0.0,
        ConstraintKind::Mismatch => l.mismatch.is_some(),
        ConstraintKind::Memory => l.memory.is_some(),
        ConstraintKind::Rv => l.rv.is_some(),
        ConstraintKind::Batch => l.policy != BatchPolicy::Free,
        // Not a limit of the problem but of the rates: `DomainPenalty` sees to it.
        ConstraintKind::Domain => false,
    }
}

fn drop_from(kind: ConstraintKind, problem: &mut Problem) {
    let l = &mut problem.limits;
    match kind {
        ConstraintKind::StarvationFloor => l.floor = 0.0,
        ConstraintKind::Mismatch => l.mismatch = None,
        ConstraintKind::Memory => l.memory = None,
        ConstraintKind::Rv => l.rv = None,
        ConstraintKind::Batch => l.policy = BatchPolicy::Free,
        ConstraintKind::Domain => {}
    }
}

/// The best value of this constraint under which the others can be met; `None` if none is.
fn best_alone<C: Throughput + ?Sized>(
    kind: ConstraintKind,
    rates: &C,
    problem: &Problem,
    options: &Options,
) -> Result<Option<f64>, AllocError> {
    let mut relaxed = problem.clone();
    drop_from(kind, &mut relaxed);
    if kind == ConstraintKind::StarvationFloor {
        relaxed.objective = ObjectiveKind::MaxMin;
    }
    let Some(plan) = first(rates, &relaxed, options)? else {
        return Ok(None);
    };
    Ok(Some(match kind {
        ConstraintKind::StarvationFloor => plan.least,
        ConstraintKind::Rv => total(&plan).percent(),
        ConstraintKind::Batch => 1.0,
        ConstraintKind::Domain => 0.0,
        ConstraintKind::Mismatch => {
            let static_least = least_mismatch(&Instance::new(rates, &relaxed)?).unwrap_or(0.0);
            least_bound(static_least, plan.mismatch, |bound| {
                relaxed.limits.mismatch = Some(bound);
                Ok(first(rates, &relaxed, options)?.map(|p| p.mismatch))
            })?
        }
        ConstraintKind::Memory => least_bound(0.0, memory(&relaxed, &plan), |bound| {
            // Above what can be counted nothing is limited; a task's memory is below that.
            relaxed.limits.memory = Bytes::new(bound as u64).ok();
            Ok(first(rates, &relaxed, options)?.map(|p| memory(&relaxed, &p)))
        })?,
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

fn first<C: Throughput + ?Sized>(
    rates: &C,
    problem: &Problem,
    options: &Options,
) -> Result<Option<Solution>, AllocError> {
    Ok(search(rates, problem, options)?.0.into_iter().next())
}

/// Least bound under which `reach` finds something, at least `low`; it returns what was reached.
/// The lower end is tried first: where only the batch sizes decide it is the answer.
fn least_bound(
    mut low: f64,
    feasible: f64,
    mut reach: impl FnMut(f64) -> Result<Option<f64>, AllocError>,
) -> Result<f64, AllocError> {
    let mut high = feasible;
    if low > 0.0
        && let Some(reached) = reach(low)?
    {
        return Ok(reached.max(low));
    }
    for _ in 0..HALVINGS {
        if high - low <= 1e-9 * high {
            break;
        }
        let middle = 0.5 * (low + high);
        match reach(middle)? {
            Some(reached) => high = reached.min(middle),
            None => low = middle,
        }
    }
    Ok(high)
}

fn total(plan: &Solution) -> TotalShare {
    plan.settings.iter().map(|s| s.share).sum()
}

fn memory(problem: &Problem, plan: &Solution) -> f64 {
    problem
        .tasks
        .iter()
        .zip(&plan.settings)
        .map(|(t, s)| t.memory.map_or(0.0, |m| m.at(s.batch)))
        .sum()
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
