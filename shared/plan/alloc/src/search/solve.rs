use doc::ObjectiveKind;
use units::corun::Throughput;

use crate::error::AllocError;
use crate::problem::Problem;
use crate::search::answer::{Effort, SearchOptions, SearchOutcome, Solution};
use crate::search::best::search;
use crate::search::infeasible::explain_infeasible;
use crate::search::instance::Instance;
use crate::search::methods::exhaustive::refuse_exact;
use crate::search::tie::break_tie;

/// Finds the best batch sizes and shares, and says whether they are proven.
///
/// For a predictor with additive interference ([`Throughput::interference`]) it uses branch and bound, for any other
/// it predicts every point. Problems that are too large for `max_points` get only a local search.
pub fn solve<C: Throughput + ?Sized>(
    rates: &C,
    problem: &Problem,
    options: &SearchOptions,
) -> Result<SearchOutcome, AllocError> {
    if options.effort == Effort::Exact
        && let Some(refusal) = refuse_exact(&Instance::new(rates, problem)?)
    {
        return Err(refusal);
    }
    let (mut solutions, report) = search(rates, problem, options)?;
    let ties = problem.is_progress() && !problem.is_timed();
    if ties
        || matches!(
            problem.objective,
            ObjectiveKind::MaxMin | ObjectiveKind::Fairness
        )
    {
        fastest_of_equals(rates, problem, &mut solutions)?;
    }
    let infeasible = if solutions.is_empty() && options.reasons {
        explain_infeasible(rates, problem, options)?
    } else {
        Vec::new()
    };
    Ok(SearchOutcome {
        solutions,
        report,
        infeasible,
    })
}

/// Among choices as good as the best, takes the one with the highest throughput.
fn fastest_of_equals<C: Throughput + ?Sized>(
    rates: &C,
    problem: &Problem,
    solutions: &mut [Solution],
) -> Result<(), AllocError> {
    let inst = Instance::new(rates, problem)?;
    let Some((best, others)) = solutions.split_first_mut() else {
        return Ok(());
    };
    let Some(mut point) = inst.point_of(&best.settings) else {
        return Ok(());
    };
    break_tie(&inst, &mut point);
    let found = std::mem::replace(best, inst.solution(&point));
    // If the new point was a runner-up, the two change places.
    if let Some(same) = others.iter_mut().find(|s| s.settings == best.settings) {
        *same = found;
    }
    Ok(())
}
