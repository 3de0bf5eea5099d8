//! How many points a search may evaluate, from the measured cost of a point and the time allowed.

use units::corun::Throughput;

use crate::answer::{Effort, SearchOptions};
use crate::instance::Instance;

/// Points of a search whose every point is predicted, times the square of the number of tasks, as
/// which a prediction of a blend costs: 7 microseconds of 3 tasks, 13 of 4, 21 of 5. All 216,000
/// choices of 3 tasks with 3 batch sizes at a step of 5 % are enumerated in less than 2 seconds;
/// those of 4 batch sizes, 512,000, took 4 to 6 seconds, and those of 4 tasks, up to a million, 11.
pub(crate) const ENUMERATED: u64 = 9 * 216_000;
/// The same of a local search, which runs on one processor. It ends by itself after about 3,000 points
/// of 5 tasks where constraints are easily met; where none can be it used to look at a million.
pub(crate) const CLIMBED: u64 = 1_000_000;
/// Up to this many tasks an answer is expected at once; beyond, within a minute, and a climb has
/// more choices to look at.
const FEW_TASKS: usize = 8;
/// How much more a local search of many tasks may do; there a round itself costs that much more. With a third of
/// it the best max-min of 16 simulated tasks was 3 % lower.
const MANY: u64 = 12;

/// Points, at most `most`, of a search of which `work` is afforded.
pub(crate) fn affordable_points(tasks: usize, work: u64, most: u64) -> u64 {
    most.min(work / (tasks as u64).pow(2).max(1)).max(1)
}

/// Points of a search for the shortest round: each is as many predictions as there are tasks, as
/// one after another ends. 20,000 of 5 tasks take about a second on a blend; two tasks at a step
/// of 5 % have 3,600 and are proven, and a local search of 5 tasks ends by itself before.
const ROUND_POINTS: u64 = 20_000;
/// The same where each is played in its best order but nearly all are excluded by a bound first: of 3 tasks
/// of 3 batch sizes at a step of 5 % all 216,000 take a second or two, of 4 of one size all 160,000.
const BOUNDED_POINTS: u64 = 250_000;
/// The same where choices are ranked by heuristic orders. A search of 8 tasks ends by itself after about
/// 9,000; of 13 tasks and more what is afforded is less.
const ORDERED_POINTS: u64 = 12_000;
/// The same times the square of the number of tasks: most neighbours of a choice are told from it by one
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

/// Points, at most `most`, of a local search; where interference adds up, also of a proof.
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

/// Points, at most `most` for the plan, of a search for what is only compared with it: a quarter, so that the
/// few schemes beside a plan take together about as long as the plan, and no proof of a round.
pub(crate) fn compared_points<C: Throughput + ?Sized>(inst: &Instance<'_, C>, most: u64) -> u64 {
    if inst.orders_roughly() {
        search_points(inst, most).div_ceil(4)
    } else if inst.is_round() {
        most.div_ceil(4).min(ROUND_POINTS)
    } else if inst.n > FEW_TASKS {
        // Here a climb may use all that it may; with fewer tasks it mostly ends before.
        search_points(inst, most).div_ceil(4)
    } else {
        most.div_ceil(4)
    }
}

/// Points of each search. It is about whether anything is feasible, which the first ascents of a
/// search decide; 200,000 took ten times as long and found no more.
const POINTS: u64 = 20_000;
/// The same, times the square of the number of tasks, if each point is predicted: 1,600 for 5 tasks,
/// so that all the searches for one bound take at most a second, and 4,400 for 3 tasks. With 90,000
/// the property tests of the advice find no better bounds, and 4 tasks took 4 seconds.
const PREDICTED: u64 = 40_000;

/// The options of searches for whether anything is feasible at all.
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
