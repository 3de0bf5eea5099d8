use doc::{ConstraintKind, ObjectiveKind, Proof};
use units::TotalShare;
use units::corun::Throughput;
use units::search::SAME;

use crate::error::AllocError;
use crate::problem::Problem;
use crate::rates::Remembered;
use crate::search::answer::{Effort, Report, SearchOptions, Solution};
use crate::search::instance::{Goal, Instance, Quantity};
use crate::search::methods::additive::Additive;
use crate::search::methods::ascent::{Ascent, Tries};
use crate::search::methods::bounded::branch_and_bound;
use crate::search::methods::budget::{brief, compared_points, search_points};
use crate::search::methods::combine::no_combination;
use crate::search::methods::excluded::Excluded;
use crate::search::methods::exhaustive::{enumerable, sweep};
use crate::search::methods::shortlist::Shortlist;
use crate::search::point::Point;

/// Starts of a local search before all choices are enumerated in their best orders. It provides an incumbent:
/// rejecting a worse choice takes a tenth of the time of ordering it. One start has equal shares at the median
/// sum, the other three perturb the best so far. Chosen by hand; no other number was measured.
const SCOUTS: u32 = 4;
/// Number of choices, best first in the ranking by heuristic orders, whose transfers are then ordered
/// thoroughly. They are mostly neighbours of each other, so few suffice; with many tasks, ordering one takes as
/// long as a tenth of the search.
const fn settled(tasks: usize) -> usize {
    if tasks <= 12 { 2 } else { 1 }
}

/// [`crate::solve()`] without explaining infeasibility and without breaking ties.
pub(crate) fn search<C: Throughput + ?Sized>(
    rates: &C,
    problem: &Problem,
    options: &SearchOptions,
) -> Result<(Vec<Solution>, Report), AllocError> {
    let known = Remembered::new(rates, problem.is_ordered());
    let inst = Instance::new(&known, problem)?;
    Ok(search_instance(&inst, options))
}

pub(crate) fn search_instance<C: Throughput + ?Sized>(
    inst: &Instance<'_, C>,
    options: &SearchOptions,
) -> (Vec<Solution>, Report) {
    let (mut solutions, mut report) = ranked(inst, options);
    if inst.orders_roughly() {
        // So far, heuristic orders ranked the choices. Now order the transfers of the few best ones thoroughly.
        solutions.truncate(options.top.max(settled(inst.n)));
        for s in &mut solutions {
            s.objective = inst.settled_value(&s.settings);
        }
        solutions.sort_by(|a, b| b.objective.total_cmp(&a.objective));
        solutions.truncate(options.top.max(1));
        if options.effort != Effort::Local
            && let Some((solutions, proof)) = proven(inst, &solutions, options)
        {
            let points = report.points + proof.points;
            return (solutions, Report { points, ..proof });
        }
    }
    if let (Some(best), Some(bound)) = (solutions.first(), report.bound)
        && report.proof == Proof::NotProven
        && best.objective >= bound - SAME * bound.abs()
    {
        report.proof = Proof::Bounded;
        report.bound = Some(best.objective);
    }
    (solutions, report)
}

/// The best choices as the search ranks them, best first.
fn ranked<C: Throughput + ?Sized>(
    inst: &Instance<'_, C>,
    options: &SearchOptions,
) -> (Vec<Solution>, Report) {
    let most = if inst.orders_roughly() {
        settled(inst.n)
    } else {
        1
    };
    let mut list = Shortlist::new(options.top.max(most));
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
        // Now the local search has a feasible point to climb from.
        let local = SearchOptions {
            effort: Effort::Local,
            ..options.clone()
        };
        report.points += run(inst, &mut list, &local).points;
    }
    let solution = |(value, point): &(f64, Point)| {
        let solution = inst.solution(point);
        match inst.orders_roughly() {
            // Keep the value of the order by which it was ranked.
            true => Solution {
                objective: *value,
                ..solution
            },
            false => solution,
        }
    };
    (list.into_entries().iter().map(solution).collect(), report)
}

/// The best choice of a smaller search, for comparison with a plan. The length of a round is that of the order
/// by which choices are ranked.
pub(crate) fn roughly<C: Throughput + ?Sized>(
    rates: &C,
    problem: &Problem,
    options: &SearchOptions,
) -> Result<Option<Solution>, AllocError> {
    let known = Remembered::new(rates, problem.is_ordered());
    let inst = Instance::new(&known, problem)?;
    let options = SearchOptions {
        max_points: compared_points(&inst, options.max_points),
        top: 1,
        ..options.clone()
    };
    Ok(ranked(&inst, &options).0.into_iter().next())
}

fn run<C: Throughput + ?Sized>(
    inst: &Instance<'_, C>,
    list: &mut Shortlist,
    options: &SearchOptions,
) -> Report {
    match Additive::new(inst) {
        Some(law) => search_additive(inst, &law, list, options),
        None => search_any(inst, list, options),
    }
}

fn search_additive<'a, 'b, C: Throughput + ?Sized>(
    inst: &'a Instance<'b, C>,
    law: &Additive<'a, 'b, C>,
    list: &mut Shortlist,
    options: &SearchOptions,
) -> Report {
    // Run a quarter of the starts before the proof, to give branch and bound an incumbent. If it completes,
    // which is usual for few tasks, the other starts would be wasted; if it does not, they follow. The quarter
    // was chosen by hand; no other fraction was measured.
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
    options: &SearchOptions,
) -> Report {
    if let Some((combinations, points)) = enumerable(inst, options) {
        if inst.orders_exactly() {
            Ascent::new(inst, None, list).run(Tries {
                starts: SCOUTS,
                points,
                seed: options.seed,
            });
        }
        return enumerate(inst, list, combinations, points);
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

/// Evaluates all choices of these batch sizes. An incumbent in `list` prunes the others earlier.
///
/// A combination of batch sizes whose lower bound, with every task as fast as alone on the device, exceeds the
/// incumbent is excluded with all its shares before the walk. Within the walk, a bound excludes single choices.
/// Both bounds hold for every order, so no better choice is lost and the answer still counts as enumerated.
fn enumerate<C: Throughput + ?Sized>(
    inst: &Instance<'_, C>,
    list: &mut Shortlist,
    mut combinations: Vec<Vec<u8>>,
    points: u64,
) -> Report {
    let known = list.clone();
    let excluded = Excluded::new(inst);
    if let Some(excluded) = &excluded {
        combinations.retain(|batch| !excluded.sizes(batch, known.cutoff()));
    }
    let out = |list: &Shortlist, point: &Point, rates: &[f64]| {
        let excluded = excluded.as_ref();
        excluded.is_some_and(|e| e.choice(point, rates, list.cutoff()))
    };
    let lists = sweep(
        inst,
        &combinations,
        || known.clone(),
        |list, _| list.cutoff(),
        out,
        |list, point, judged| {
            if judged.violation == 0.0 {
                list.offer(judged.value, point);
            }
        },
    );
    for part in lists {
        list.merge(part);
    }
    if inst.orders_roughly() || !inst.all_proven() {
        // All choices were evaluated, but not in proven best orders.
        return Report {
            points,
            proof: Proof::NotProven,
            bound: Some(-least_round(inst)),
        };
    }
    Report {
        points,
        proof: Proof::Enumerated,
        bound: list.best().map(|b| b.0),
    }
}

/// The proven best rounds of all choices, if the tasks are few enough to enumerate them: those that the search
/// by heuristic orders has `found`, or better ones. `None` if nothing is proven.
fn proven<C: Throughput + ?Sized>(
    inst: &Instance<'_, C>,
    found: &[Solution],
    options: &SearchOptions,
) -> Option<(Vec<Solution>, Report)> {
    let problem = Problem {
        round: Some(inst.problem.round.as_ref()?.exactly()?),
        ..inst.problem.clone()
    };
    let exact = Instance::new(inst.rates, &problem).ok()?;
    let (combinations, points) = enumerable(&exact, options)?;
    let mut list = Shortlist::new(options.top);
    for solution in found {
        list.offer(solution.objective, &exact.point_of(&solution.settings)?);
    }
    let report = enumerate(&exact, &mut list, combinations, points);
    let entries = list.into_entries();
    let solutions = entries.iter().map(|(value, point)| Solution {
        objective: *value,
        ..inst.solution(point)
    });
    (report.proof == Proof::Enumerated).then(|| (solutions.collect(), report))
}

/// An upper bound on the objective: every task at its best solo rate. It holds on the same condition as
/// [`least_round`]. It is loose, but the only bound if interference is not additive.
fn most_alone<C: Throughput + ?Sized>(inst: &Instance<'_, C>) -> f64 {
    let fold = inst.fold();
    (0..inst.n).fold(fold.start(), |all, i| {
        let gain = |(b, &batch): (usize, &units::Batch)| inst.gain(i, b, inst.rates.solo(i, batch));
        let gains = inst.batches[i].iter().enumerate().map(gain);
        fold.join(all, gains.fold(f64::NEG_INFINITY, f64::max))
    })
}

/// A lower bound in seconds on every round, with each task at its best solo rate. It holds if co-runners never
/// speed a task up; no predictor of this project predicts that they do.
fn least_round<C: Throughput + ?Sized>(inst: &Instance<'_, C>) -> f64 {
    if inst.problem.is_progress() {
        return least_to_target(inst);
    }
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

/// A lower bound in seconds on the time to target, with each task alone on the device and the link at its best
/// batch size. It holds on the same condition as [`least_round`].
fn least_to_target<C: Throughput + ?Sized>(inst: &Instance<'_, C>) -> f64 {
    let alone = |i: usize| {
        let each = inst.batches[i].iter().map(|&batch| {
            let solo = [inst.rates.solo(i, batch)];
            let round = inst.problem.round.as_ref().and_then(|r| r.restricted(&[i]));
            let length = match round {
                Some(round) => round.at_least(&solo),
                None => inst.data[i] / solo[0],
            };
            inst.problem.tasks[i].progress.rounds_at(batch) * length
        });
        each.fold(f64::INFINITY, f64::min)
    };
    let times: Vec<f64> = (0..inst.n).map(alone).collect();
    inst.problem.joined_times(&times)
}

/// Looks for a feasible choice after the search of a problem found none and proved nothing. For each constraint,
/// a brief search without it optimises the constrained quantity and may find a choice that meets all
/// constraints. The explanations of infeasibility use the same searches and call their values reachable, so a
/// user who follows them must not be refused again.
pub(crate) fn witness<C: Throughput + ?Sized>(
    inst: &Instance<'_, C>,
    options: &SearchOptions,
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
        ConstraintKind::Memory,
        ConstraintKind::StarvationFloor,
        ConstraintKind::Rv,
    ] {
        if !problem.is_limited(kind) {
            continue;
        }
        let mut relaxed = problem.clone();
        relaxed.drop_limit(kind);
        let goal = match kind {
            ConstraintKind::Mismatch => Goal::Least(Quantity::Mismatch),
            ConstraintKind::Memory => Goal::Least(Quantity::Memory),
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
