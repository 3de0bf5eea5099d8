//! Maximum number of points of a search, from the measured cost of a point and the allowed time.

use units::corun::Throughput;

use crate::search::answer::{Effort, SearchOptions};
use crate::search::instance::Instance;

/// Budget of an enumeration that predicts every point: points times the square of the number of tasks, because
/// the cost of a prediction by a blend grows this way: 7 microseconds for 3 tasks, 13 for 4, 21 for 5. All
/// 216,000 choices of 3 tasks with 3 batch sizes at a step of 5 % are enumerated in less than 2 seconds; the
/// 512,000 choices with 4 batch sizes took 4 to 6 seconds, and up to a million choices of 4 tasks took 11.
pub(crate) const ENUMERATED: u64 = 9 * 216_000;
/// The same budget for a local search, which runs on one processor. For 5 tasks it ends by itself after about
/// 3,000 points if constraints are easily met; if they cannot be met, it evaluated a million without this limit.
pub(crate) const CLIMBED: u64 = 1_000_000;
/// Up to this many tasks, an answer is expected at once. With more, it is expected within a minute, and a climb
/// has more choices to evaluate.
const FEW_TASKS: usize = 8;
/// Factor on the budget of a local search with many tasks; a round with many tasks costs about that much more.
/// With a third of this factor, the best max-min of 16 simulated tasks was 3 % lower.
const MANY: u64 = 12;

/// Number of points, at most `most`, that the budget `work` (points times the square of `tasks`) allows.
pub(crate) fn affordable_points(tasks: usize, work: u64, most: u64) -> u64 {
    most.min(work / (tasks as u64).pow(2).max(1)).max(1)
}

/// Points of a search for the shortest round. Each point takes as many predictions as there
/// are tasks, because the tasks end one after another. 20,000 of 5 tasks take about a second on a blend; two
/// tasks at a step of 5 % have 3,600 and are proven, and a local search of 5 tasks ends by itself before.
const ROUND_POINTS: u64 = 20_000;
/// The same if each choice is simulated in its best order, but a bound excludes nearly all choices before: at a
/// step of 5 %, all 216,000 choices of 3 tasks with 3 batch sizes take a second or two, and so do all 160,000 of
/// 4 tasks with one batch size.
const BOUNDED_POINTS: u64 = 250_000;
/// The same if choices are ranked by heuristic orders. A search of 8 tasks ends by itself after about 9,000;
/// from 13 tasks on, [`ORDERED`] allows fewer.
const ORDERED_POINTS: u64 = 12_000;
/// The same, times the square of the number of tasks: most neighbours of a choice are rejected after one
/// prediction of all tasks.
const ORDERED: u64 = 2_000_000;
pub(crate) fn round_points<C: Throughput + ?Sized>(inst: &Instance<'_, C>) -> u64 {
    if inst.orders_roughly() {
        ORDERED_POINTS
    } else if inst.bounds_quickly() {
        BOUNDED_POINTS
    } else {
        ROUND_POINTS
    }
}

/// Points, at most `most`, of a local search and, if interference is additive, also of a proof.
pub(crate) fn search_points<C: Throughput + ?Sized>(inst: &Instance<'_, C>, most: u64) -> u64 {
    if inst.orders_roughly() {
        return affordable_points(inst.n, ORDERED, most).min(round_points(inst));
    }
    if inst.is_round() {
        return affordable_points(inst.n, CLIMBED, most).min(round_points(inst));
    }
    if inst.folds() && inst.rates.interference().is_some() {
        return most;
    }
    let work = if inst.n > FEW_TASKS { MANY } else { 1 } * CLIMBED;
    affordable_points(inst.n, work, most)
}

/// Points of a search whose result is only compared with the plan, which has `most` points: a quarter, so that
/// the few comparisons together take about as long as the plan; no proof of a round is attempted.
pub(crate) fn compared_points<C: Throughput + ?Sized>(inst: &Instance<'_, C>, most: u64) -> u64 {
    if inst.orders_roughly() {
        search_points(inst, most).div_ceil(4)
    } else if inst.is_round() {
        most.div_ceil(4).min(ROUND_POINTS)
    } else if inst.n > FEW_TASKS {
        // With many tasks, a climb may use its whole budget; with fewer, it mostly ends before.
        search_points(inst, most).div_ceil(4)
    } else {
        most.div_ceil(4)
    }
}

/// Points of each brief search ([`brief`]). It decides whether a choice is feasible, which the first ascents
/// show; 200,000 points took ten times as long and found no more.
const POINTS: u64 = 20_000;
/// The same, times the square of the number of tasks, if each point is predicted: 1,600 for 5 tasks,
/// so that all the searches for one bound take at most a second, and 4,400 for 3 tasks. With 90,000
/// the property tests of the advice find no better bounds, and 4 tasks took 4 seconds.
const PREDICTED: u64 = 40_000;

/// Options of a search that only decides whether a choice is feasible.
pub(crate) fn brief<C: Throughput + ?Sized>(rates: &C, options: &SearchOptions) -> SearchOptions {
    let points = match rates.interference() {
        Some(_) => POINTS,
        None => affordable_points(rates.task_count(), PREDICTED, POINTS),
    };
    SearchOptions {
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
