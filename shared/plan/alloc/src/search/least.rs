//! The tightest bound under which a plan is feasible.

use doc::Proof;
use units::Bytes;
use units::corun::Throughput;

use crate::error::AllocError;
use crate::problem::Problem;
use crate::problem::domain::beyond;
use crate::search::answer::{SearchOptions, Solution};
use crate::search::best::{search, search_instance};
use crate::search::instance::{Goal, Instance, Quantity};
use crate::search::methods::budget::brief;
use crate::search::methods::combine::{combinations, least_mismatch};
use crate::tolerance::TOLERANCE;

/// Bisection steps for the least feasible bound, used if no search proves it and its possible values cannot be
/// listed, because it depends on rates. Each step is a search or two; 12 steps leave 1/4096 of the interval. With 30
/// steps, an earlier value, bisection took most of the time of an infeasible answer.
const HALVINGS: u32 = 12;
/// Relative tolerance within which a bound found by search is not tightened further. With a tolerance of 1/4096,
/// twelve futile searches in a row took 5 seconds for 5 tasks.
const CLOSE: f64 = 0.03;
/// Maximum number of combinations of batch sizes whose mismatch or memory is listed, which makes the least feasible
/// bound exact. 8 tasks with 4 batch sizes have this many, which takes a few milliseconds. If there are more, the
/// interval is bisected.
const LISTED: usize = 1 << 16;

/// The least mismatch with which the problem has a solution, whatever its own bound on it; `None` if nothing is
/// feasible.
pub(crate) fn least_feasible_mismatch<C: Throughput + ?Sized>(
    rates: &C,
    problem: &Problem,
    options: &SearchOptions,
) -> Result<Option<f64>, AllocError> {
    let mut open = problem.clone();
    open.limits.mismatch = None;
    least(rates, &open, Quantity::Mismatch, &brief(rates, options))
}

/// The best choice, if one is found.
pub(crate) fn first<C: Throughput + ?Sized>(
    rates: &C,
    problem: &Problem,
    options: &SearchOptions,
) -> Result<Option<Solution>, AllocError> {
    Ok(search(rates, problem, options)?.0.into_iter().next())
}

/// Minimum of a quantity over the choices that meet the constraints of `problem`, which must not bound the quantity
/// itself; `None` if no choice meets them. With the result as a bound, the problem has a solution.
pub(crate) fn least<C: Throughput + ?Sized>(
    rates: &C,
    problem: &Problem,
    quantity: Quantity,
    options: &SearchOptions,
) -> Result<Option<f64>, AllocError> {
    let mut inst = Instance::new(rates, problem)?;
    let known = match quantity {
        Quantity::Mismatch => least_mismatch(&inst),
        Quantity::Memory => Some(inst.rest_memory()[0]),
    };
    // If the batch sizes with the least quantity have feasible shares, their value is the answer.
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
    if let Some(listed) = listed(&inst, quantity) {
        // A choice within a bound is also within any larger one, so feasibility is monotone and can be bisected.
        let at = |bound: f64| listed.partition_point(|v| *v < bound);
        let mut from = at(low * (1.0 + TOLERANCE) + f64::MIN_POSITIVE);
        let mut to = at(high);
        while from < to {
            let middle = usize::midpoint(from, to);
            match kept(rates, problem, quantity, listed[middle], options)? {
                Some(bound) => (high, to) = (bound, at(bound).min(middle)),
                None => from = middle + 1,
            }
        }
        return Ok(Some(high));
    }
    for _ in 0..HALVINGS {
        if high - low <= CLOSE * high {
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

/// Values of the quantity for every combination of batch sizes within the other constraints, ascending; `None` if the
/// quantity depends on rates or there are too many combinations.
fn listed<C: Throughput + ?Sized>(inst: &Instance<'_, C>, quantity: Quantity) -> Option<Vec<f64>> {
    let all = combinations(inst, LISTED)?;
    let cell = |i: usize, batch: &[u8]| i * inst.width + usize::from(batch[i]);
    let load = inst.load.as_deref();
    let value = |batch: Vec<u8>| match quantity {
        Quantity::Memory => Some((0..inst.n).map(|i| inst.memory[cell(i, &batch)]).sum()),
        Quantity::Mismatch => load.map(|load| {
            let pairs = (0..inst.n).flat_map(|i| (0..i).map(move |k| (i, k)));
            let of = |i: usize| load[cell(i, &batch)];
            pairs
                .map(|(i, k)| inst.pair_mismatch(i, of(i), k, of(k)))
                .sum::<f64>()
        }),
    };
    let mut values: Vec<f64> = all.into_iter().map(value).collect::<Option<_>>()?;
    values.sort_by(f64::total_cmp);
    // Sums of the same terms in another order differ by rounding; they count as one value.
    values.dedup_by(|b, a| *b - *a <= TOLERANCE * a.abs());
    Some(values)
}

/// Searches for a choice within `bound`. Returns its value if that is itself feasible as a bound, otherwise `bound`;
/// `None` if there is no such choice.
fn kept<C: Throughput + ?Sized>(
    rates: &C,
    problem: &Problem,
    quantity: Quantity,
    bound: f64,
    options: &SearchOptions,
) -> Result<Option<f64>, AllocError> {
    let mut bounded = problem.clone();
    let mut within = |bound: f64| {
        match quantity {
            Quantity::Mismatch => bounded.limits.mismatch = Some(bound),
            // A bound that `Bytes` cannot represent limits nothing, because every task's memory is below it.
            Quantity::Memory => bounded.limits.memory = Bytes::new(bound.ceil() as u64).ok(),
        }
        let found = first(rates, &bounded, options)?;
        // A plan outside the measured domain is refused, so a bound that only such a plan meets is no use as advice.
        let found = found.filter(|s| beyond(rates, &s.settings) == 0);
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
