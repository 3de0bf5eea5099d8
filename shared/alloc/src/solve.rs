use doc::{Infeasibility, ObjectiveKind, Proof};

use crate::additive::Additive;
use crate::ascent::{Ascent, Tries};
use crate::bounded::branch_and_bound;
use crate::changed::Remembered;
use crate::exhaustive::{combinations, no_combination, share_points, sweep};
use crate::infeasible::explain_infeasible;
use crate::instance::{Instance, Point};
use crate::least::witness;
use crate::shortlist::Shortlist;
use crate::tie::break_tie;
use crate::{AllocError, Problem, Setting, Throughput};

/// How to search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Effort {
    /// Exactly where `max_points` allows it, else by local search.
    #[default]
    Auto,
    /// Exactly, however long it takes.
    Exact,
    /// By local search only.
    Local,
}

/// Settings of a search. The same options give the same result, to the byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// How to search.
    pub effort: Effort,
    /// Points (or nodes of the branch and bound) that `Auto` spends on a proof, and most points
    /// of the local search.
    pub max_points: u64,
    /// Starts of the local search: a quarter anywhere, the others near the best so far.
    pub starts: u32,
    /// How many of the best solutions to return, at least 1.
    pub top: usize,
    /// Seed of the random starts.
    pub seed: u64,
    /// Work out why nothing is feasible, which takes several searches more.
    pub reasons: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            effort: Effort::Auto,
            max_points: 1_000_000,
            starts: 16,
            top: 1,
            seed: 0,
            reasons: true,
        }
    }
}

/// A choice for every task and what it reaches under the predictor.
#[derive(Debug, Clone, PartialEq)]
pub struct Solution {
    /// Batch size and share of each task.
    pub settings: Vec<Setting>,
    /// `P_i`, samples per second.
    pub rates: Vec<f64>,
    /// Value of the objective; larger is better.
    pub objective: f64,
    /// Mismatch in the sense of the problem's balance (FedMT eq. 6).
    pub mismatch: f64,
    /// `sum P_i`.
    pub raw: f64,
    /// `sum P_i / S_i`.
    pub fairness: f64,
    /// `min P_i / S_i`.
    pub least: f64,
}

/// How a result was found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Report {
    /// Points, or nodes of the branch and bound, looked at.
    pub points: u64,
    /// Whether the result is proven to be best under the predictor.
    pub proof: Proof,
    /// No choice can be better than this, where a bound is known.
    pub bound: Option<f64>,
}

/// The answer to a problem.
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub struct Outcome {
    /// The best choices, best first; empty if none is feasible.
    pub solutions: Vec<Solution>,
    /// How they were found.
    pub report: Report,
    /// Why none is feasible, if that was asked for.
    pub infeasible: Vec<Infeasibility>,
}

/// Finds the best batch sizes and shares, and says whether they are proven to be.
///
/// A predictor with additive interference ([`Throughput::interference`]) is searched by branch and
/// bound, any other by predicting every point; what is too large for `max_points` by local
/// search alone.
pub fn solve<C: Throughput + ?Sized>(
    rates: &C,
    problem: &Problem,
    options: &Options,
) -> Result<Outcome, AllocError> {
    let (mut solutions, report) = search(rates, problem, options)?;
    if matches!(
        problem.objective,
        ObjectiveKind::MaxMin | ObjectiveKind::Fairness
    ) {
        fastest_of_equals(rates, problem, &mut solutions)?;
    }
    let infeasible = if solutions.is_empty() && options.reasons {
        explain_infeasible(rates, problem, options)?
    } else {
        Vec::new()
    };
    Ok(Outcome {
        solutions,
        report,
        infeasible,
    })
}

/// Puts in place of the best choice the one of the highest throughput among those as good.
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
    let found = std::mem::replace(best, solution(&inst, &point));
    // What it moved to may have been a runner-up: the two change places.
    if let Some(same) = others.iter_mut().find(|s| s.settings == best.settings) {
        *same = found;
    }
    Ok(())
}

/// [`solve`] without the explanation, and without a choice among equals.
pub(crate) fn search<C: Throughput + ?Sized>(
    rates: &C,
    problem: &Problem,
    options: &Options,
) -> Result<(Vec<Solution>, Report), AllocError> {
    let known = Remembered::new(rates, problem.is_ordered());
    let inst = Instance::new(&known, problem)?;
    Ok(search_instance(&inst, options))
}

pub(crate) fn search_instance<C: Throughput + ?Sized>(
    inst: &Instance<'_, C>,
    options: &Options,
) -> (Vec<Solution>, Report) {
    // Choices that are ranked by heuristic orders are ordered with care once they are few.
    let heuristic = inst.orders_roughly();
    let settled = if heuristic { SETTLED } else { 1 };
    let mut list = Shortlist::new(options.top.max(settled));
    if no_combination(inst) {
        let report = Report {
            points: 0,
            proof: Proof::Enumerated,
            bound: None,
        };
        return (Vec::new(), report);
    }
    let mut report = run(inst, &mut list, options);
    if list.best().is_none()
        && report.proof == Proof::NotProven
        && let Some(found) = witness(inst, options)
        && let Some(point) = inst.point_of(&found.settings)
    {
        list.offer(inst.look(&point).1.value, &point);
        // From there on the local search has a feasible point to climb from.
        let local = Options {
            effort: Effort::Local,
            ..options.clone()
        };
        report.points += run(inst, &mut list, &local).points;
    }
    let points = list.into_points();
    let mut solutions: Vec<Solution> = points.iter().map(|p| solution(inst, p)).collect();
    if heuristic {
        for s in &mut solutions {
            s.objective = inst.settled_value(&s.settings);
        }
        solutions.sort_by(|a, b| b.objective.total_cmp(&a.objective));
        solutions.truncate(options.top.max(1));
    }
    (solutions, report)
}

fn run<C: Throughput + ?Sized>(
    inst: &Instance<'_, C>,
    list: &mut Shortlist,
    options: &Options,
) -> Report {
    match Additive::new(inst) {
        Some(mut law) => search_additive(inst, &mut law, list, options),
        None => search_any(inst, list, options),
    }
}

fn search_additive<'a, 'b, C: Throughput + ?Sized>(
    inst: &'a Instance<'b, C>,
    law: &mut Additive<'a, 'b, C>,
    list: &mut Shortlist,
    options: &Options,
) -> Report {
    let tries = Tries {
        starts: if options.effort == Effort::Local {
            options.starts
        } else {
            options.starts.div_ceil(4)
        },
        points: options.max_points,
        seed: options.seed,
    };
    let points = Ascent::new(inst, Some(law), list).run(tries);
    let most = match options.effort {
        Effort::Local => {
            return Report {
                points,
                proof: Proof::NotProven,
                bound: None,
            };
        }
        Effort::Auto => options.max_points,
        Effort::Exact => u64::MAX,
    };
    let end = branch_and_bound(law, list, most);
    if !end.complete && options.starts > tries.starts {
        let rest = Tries {
            starts: options.starts - tries.starts,
            seed: options.seed.wrapping_add(1),
            ..tries
        };
        let more = Ascent::new(inst, Some(law), list).run(rest);
        return Report {
            points: points + end.points + more,
            proof: Proof::NotProven,
            bound: Some(end.bound),
        };
    }
    Report {
        points: points + end.points,
        proof: if end.complete {
            Proof::Bounded
        } else {
            Proof::NotProven
        },
        bound: Some(end.bound).filter(|b| b.is_finite()),
    }
}

fn search_any<C: Throughput + ?Sized>(
    inst: &Instance<'_, C>,
    list: &mut Shortlist,
    options: &Options,
) -> Report {
    if let Some((combinations, points)) = enumerable(inst, options) {
        let mut known = Shortlist::new(options.top);
        if inst.orders_exactly() {
            Ascent::new(inst, None, &mut known).run(Tries {
                starts: SCOUTS,
                points,
                seed: options.seed,
            });
        }
        let lists = sweep(
            inst,
            &combinations,
            || known.clone(),
            |list, _| list.cutoff(),
            |list, point, judged| {
                if judged.violation == 0.0 {
                    list.offer(judged.value, point);
                }
            },
        );
        for part in lists {
            list.merge(part);
        }
        if inst.orders_roughly() {
            // All choices were ranked, but not by their best orders.
            return Report {
                points,
                proof: Proof::NotProven,
                bound: Some(-least_round(inst)),
            };
        }
        return Report {
            points,
            proof: Proof::Enumerated,
            bound: list.best().map(|b| b.0),
        };
    }
    let points = Ascent::new(inst, None, list).run(Tries {
        starts: options.starts,
        points: search_points(inst, options.max_points),
        seed: options.seed,
    });
    let bound = match inst.is_round() {
        true => Some(-least_round(inst)),
        false => inst.folds().then(|| most_alone(inst)),
    };
    Report {
        points,
        proof: Proof::NotProven,
        bound,
    }
}

/// No choice is worth more than every task alone at the best of its solo rates, on the same
/// condition as [`least_round`]. Loose, but what there is without a law.
fn most_alone<C: Throughput + ?Sized>(inst: &Instance<'_, C>) -> f64 {
    let fold = inst.fold();
    (0..inst.n).fold(fold.start(), |all, i| {
        let gain = |(b, &batch): (usize, &units::Batch)| inst.gain(i, b, inst.rates.solo(i, batch));
        let gains = inst.batches[i].iter().enumerate().map(gain);
        fold.join(all, gains.fold(f64::NEG_INFINITY, f64::max))
    })
}

/// Points, at most `most`, of a local search; where interference adds up, also of a proof.
pub(crate) fn search_points<C: Throughput + ?Sized>(inst: &Instance<'_, C>, most: u64) -> u64 {
    if inst.is_round() {
        return affordable_points(inst.n, CLIMBED, most).min(round_points(inst));
    }
    if inst.folds() && inst.rates.interference().is_some() {
        return most;
    }
    let work = if inst.n > FEW_TASKS { MANY } else { 1 } * CLIMBED;
    affordable_points(inst.n, work, most)
}

/// No round is shorter than its longest task at the best of its solo rates, if no task runs
/// faster for having others beside it, which no predictor of this project says.
fn least_round<C: Throughput + ?Sized>(inst: &Instance<'_, C>) -> f64 {
    let best = |i: usize| {
        let rates = inst.batches[i].iter().map(|&b| inst.rates.solo(i, b));
        rates.fold(0.0, f64::max)
    };
    let solo: Vec<f64> = (0..inst.n).map(best).collect();
    match &inst.problem.round {
        Some(round) => round.at_least(&solo),
        None => (0..inst.n)
            .map(|i| inst.data[i] / solo[i])
            .fold(0.0, f64::max),
    }
}

/// Points of a search whose every point is predicted, times the square of the number of tasks, as
/// which a prediction of a blend costs: 7 microseconds of 3 tasks, 13 of 4, 21 of 5. All 216,000
/// choices of 3 tasks of 3 batch sizes at a step of 5 % are enumerated in less than 2 seconds; those
/// of 4 batch sizes, 512,000, took 4 to 6, and of 4 tasks, with up to a million, 11.
const ENUMERATED: u64 = 9 * 216_000;
/// The same of a local search, which runs on one processor. It ends by itself after some 3,000
/// points of 5 tasks where constraints are easily met; where none can be it used to look at a million.
pub(crate) const CLIMBED: u64 = 1_000_000;
/// Up to this many tasks an answer is expected at once; beyond, within a minute, and a climb has
/// more choices to look at.
const FEW_TASKS: usize = 8;
/// How much more a local search of many tasks may do; a round costs that much more by itself.
const MANY: u64 = 12;

/// Points, at most `most`, of a search of which `work` is afforded.
pub(crate) fn affordable_points(tasks: usize, work: u64, most: u64) -> u64 {
    most.min(work / (tasks as u64).pow(2).max(1)).max(1)
}

/// Points of a search for the shortest round: each is as many predictions as there are tasks, as
/// one after another ends. 20,000 of 5 tasks take about a second on a blend; two tasks at a step
/// of 5 % have 3,600 and are proven, and a local search of 5 tasks ends by itself before.
const ROUND_POINTS: u64 = 20_000;
/// The same where choices are ranked by heuristic orders. Of 12 mixes of 4 to 8 tasks rounds of 1,500,
/// 3,000 and 6,000 points of a local search were within 1.1 % of each other and the longest search
/// not the best more often than another, at 0.2 to 0.7 seconds of 6 and 8 tasks.
const ORDERED_POINTS: u64 = 6_000;
/// Starts of a local search before all choices are ordered exactly: a choice that is seen to be worse than
/// the best of them takes a tenth of the time. One from equal shares at half the largest sum, one
/// from the largest, two from near the best of these.
const SCOUTS: u32 = 4;
/// Choices of the ranking by heuristic orders that are ordered with care. With 24 the same mixes had
/// rounds shorter by 0.03 % on average and by 0.2 % at most, in half as much time again.
const SETTLED: usize = 6;

fn round_points<C: Throughput + ?Sized>(inst: &Instance<'_, C>) -> u64 {
    if inst.orders_roughly() {
        ORDERED_POINTS
    } else {
        ROUND_POINTS
    }
}

/// The batch combinations, and the number of points, if enumeration is wanted and small enough.
pub(crate) fn enumerable<C: Throughput + ?Sized>(
    inst: &Instance<'_, C>,
    options: &Options,
) -> Option<(Vec<Vec<u8>>, u64)> {
    let most = match options.effort {
        Effort::Local => return None,
        Effort::Auto => options.max_points,
        Effort::Exact => u64::MAX,
    };
    let most = if inst.is_round() {
        most.min(round_points(inst))
    } else if options.effort == Effort::Auto && inst.rates.interference().is_none() {
        affordable_points(inst.n, ENUMERATED, most)
    } else {
        most
    };
    let shares = share_points(inst);
    let most_combinations = u128::from(most) / shares.max(1);
    let combinations = combinations(inst, usize::try_from(most_combinations).ok()?)?;
    let points = shares.checked_mul(combinations.len() as u128)?;
    let points = u64::try_from(points).ok()?;
    (points <= most).then_some((combinations, points))
}

pub(crate) fn solution<C: Throughput + ?Sized>(inst: &Instance<'_, C>, point: &Point) -> Solution {
    let (rates, judged) = inst.look(point);
    Solution {
        settings: inst.settings(point),
        rates,
        objective: judged.value,
        mismatch: judged.mismatch,
        raw: judged.raw,
        fairness: judged.fairness,
        least: judged.least,
    }
}
