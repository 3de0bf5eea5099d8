use doc::Proof;
use units::corun::Throughput;

use crate::error::AllocError;
use crate::problem::Problem;
use crate::rates::Remembered;
use crate::search::answer::{Effort, SearchOptions, Solution};
use crate::search::best::search_instance;
use crate::search::instance::{Goal, Instance, Judged};
use crate::search::methods::additive::{Additive, LevelRows};
use crate::search::methods::budget::search_points;
use crate::search::methods::combine::combinations as combinations_within;
use crate::search::methods::exhaustive::{all_levels, enumerable, share_points, sweep};
use crate::search::point::Point;

/// Largest table (share vectors times batch combinations) that the exact front of an additive problem evaluates; it
/// takes a second. A table of 100 million, for 5 tasks of 4 batch sizes with a given sum, took 5.6 seconds.
const MOST_PRODUCT: u128 = 20_000_000;
/// Maximum number of share vectors that the exact front keeps; each takes 16 bytes plus 2 per task.
const MOST_SHARES: u128 = 4_000_000;
/// Number of bounds or weights for tracing an approximate front.
const TRACES: u32 = 24;

/// Choices that are Pareto-optimal in both criteria, in order of the first.
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub struct Front {
    /// The choices.
    pub points: Vec<Solution>,
    /// With [`Proof::NotProven`], the front may lack choices.
    pub proof: Proof,
}

/// Points that are not dominated in both coordinates; `x` rises and `y` falls.
#[derive(Debug, Clone, Default)]
struct Skyline {
    entries: Vec<(f64, f64, Point)>,
}

impl Skyline {
    /// Adds a point unless it is dominated, and removes those that it dominates; larger is better in both
    /// coordinates.
    fn offer(&mut self, x: f64, y: f64, point: &Point) {
        let at = self.entries.partition_point(|e| e.0 < x);
        if let Some(next) = self.entries.get(at) {
            let equal = next.0 == x && next.1 == y;
            if (next.1 >= y && !equal) || (equal && next.2 <= *point) {
                return;
            }
        }
        // Earlier points have a smaller x, so the new point dominates those whose y is not larger.
        let from = self.entries[..at].partition_point(|e| e.1 > y);
        let to = at + usize::from(self.entries.get(at).is_some_and(|e| e.0 == x));
        self.entries
            .splice(from..to, [(x, y, point.clone())])
            .for_each(drop);
    }

    /// A new point at this `x` changes nothing if its `y` is below the result.
    fn cutoff(&self, x: f64) -> f64 {
        let at = self.entries.partition_point(|e| e.0 < x);
        self.entries.get(at).map_or(f64::NEG_INFINITY, |e| e.1)
    }

    fn merge(&mut self, other: Self) {
        for (x, y, point) in other.entries {
            self.offer(x, y, &point);
        }
    }
}

/// Front of mismatch (smaller is better) against the objective. The problem's own bound on the mismatch is ignored.
pub fn mismatch_front<C: Throughput + ?Sized>(
    rates: &C,
    problem: &Problem,
    options: &SearchOptions,
) -> Result<Front, AllocError> {
    let rates = &Remembered::new(rates, problem.is_ordered());
    let mut open = problem.clone();
    open.limits.mismatch = None;
    let inst = Instance::new(rates, &open)?;
    if let Some(front) = additive_mismatch_front(&inst, options) {
        return Ok(front);
    }
    if let Some(front) = swept_front(
        &inst,
        options,
        |line, j| line.cutoff(-j.mismatch),
        |j| (-j.mismatch, j.value),
    ) {
        return Ok(front);
    }
    let single = single(&inst, options);
    let mut line = Vec::new();
    let (best, _) = search_instance(&inst, &single);
    let most = best.first().map_or(0.0, |s| s.mismatch);
    line.extend(best);
    for k in 0..TRACES {
        let mut bounded = open.clone();
        bounded.limits.mismatch = Some(most * (f64::from(k) / f64::from(TRACES)).powi(2));
        let inst = Instance::new(rates, &bounded)?;
        line.extend(search_instance(&inst, &single).0);
    }
    Ok(thin(line, |s| (-s.mismatch, s.objective)))
}

/// Front of total throughput against fairness; both are maximised.
pub fn fairness_front<C: Throughput + ?Sized>(
    rates: &C,
    problem: &Problem,
    options: &SearchOptions,
) -> Result<Front, AllocError> {
    let mut inst = Instance::new(rates, problem)?;
    // The objective is on neither axis of this front, so it need not be evaluated.
    let never = |_: &Skyline, _: &Judged| f64::INFINITY;
    if let Some(front) = swept_front(&inst, options, never, |j| (j.raw, j.fairness)) {
        return Ok(front);
    }
    let mut line = Vec::new();
    // Raw throughput in units of a task's mean solo rate, so that both criteria have similar
    // weight.
    let solos = inst.solo.iter().filter(|s| s.is_finite());
    let mean = solos.clone().sum::<f64>() / solos.count().max(1) as f64;
    let blend = |w: f64| Goal::Blend {
        raw: w / mean,
        fair: 1.0 - w,
    };
    inst.goal = blend(0.5);
    let single = single(&inst, options);
    for k in 0..=TRACES {
        inst.goal = blend(f64::from(k) / f64::from(TRACES));
        line.extend(search_instance(&inst, &single).0);
    }
    for s in &mut line {
        s.objective = objective(rates, problem, s)?;
    }
    Ok(thin(line, |s| (s.raw, s.fairness)))
}

/// One of the [`TRACES`] searches of a front. Each gets a fraction of the points of a plan, so that both fronts
/// together take half as long as one plan. With all points each, fronts of 5 tasks took up to 41 seconds. The front
/// was unproven with all points, too.
fn single<C: Throughput + ?Sized>(
    inst: &Instance<'_, C>,
    options: &SearchOptions,
) -> SearchOptions {
    let points = match options.effort {
        Effort::Exact => options.max_points,
        _ => search_points(inst, options.max_points).div_ceil(4 * u64::from(TRACES)),
    };
    SearchOptions {
        top: 1,
        max_points: points,
        reasons: false,
        ..options.clone()
    }
}

/// Value of the problem's own objective for a solution that was found with another goal.
fn objective<C: Throughput + ?Sized>(
    rates: &C,
    problem: &Problem,
    s: &Solution,
) -> Result<f64, AllocError> {
    let inst = Instance::new(rates, problem)?;
    let at = |i: usize| {
        inst.batches[i]
            .iter()
            .position(|b| *b == s.settings[i].batch)
    };
    let point = Point {
        batch: (0..inst.n).map(|i| at(i).unwrap_or(0) as u8).collect(),
        level: vec![1; inst.n],
    };
    Ok(inst.value_of(&point, &s.settings, &s.rates))
}

/// Exact front by evaluating every point, if there are few enough.
fn swept_front<C: Throughput + ?Sized>(
    inst: &Instance<'_, C>,
    options: &SearchOptions,
    cutoff: impl Fn(&Skyline, &Judged) -> f64 + Sync,
    axes: impl Fn(&Judged) -> (f64, f64) + Sync,
) -> Option<Front> {
    let (combinations, _) = enumerable(inst, options)?;
    let parts = sweep(
        inst,
        &combinations,
        Skyline::default,
        cutoff,
        |_, _, _| false,
        |line, point, judged| {
            if judged.violation == 0.0 {
                let (x, y) = axes(judged);
                line.offer(x, y, point);
            }
        },
    );
    let mut line = Skyline::default();
    for part in parts {
        line.merge(part);
    }
    Some(Front {
        points: front_solutions(inst, &line),
        proof: Proof::Enumerated,
    })
}

fn front_solutions<C: Throughput + ?Sized>(
    inst: &Instance<'_, C>,
    line: &Skyline,
) -> Vec<Solution> {
    let mut points: Vec<Solution> = line
        .entries
        .iter()
        .map(|(_, _, p)| inst.solution(p))
        .collect();
    points.reverse();
    points
}

/// Exact front of mismatch against objective, if the rates are additive and the mismatch does not depend on them.
/// Combinations of batch sizes are visited in order of mismatch, so a combination is on the front only if its value
/// exceeds those of all earlier ones. Share vectors are visited in order of an upper bound, highest first, and each
/// is tried only on combinations whose best value is still below that bound.
fn additive_mismatch_front<C: Throughput + ?Sized>(
    inst: &Instance<'_, C>,
    options: &SearchOptions,
) -> Option<Front> {
    let load = inst.load.as_ref()?;
    let law = Additive::new(inst)?;
    let shares = share_points(inst);
    let most = MOST_PRODUCT / shares.max(1);
    if options.effort == Effort::Local || shares > MOST_SHARES {
        return None;
    }
    let mut combinations: Vec<(f64, Vec<u8>)> = Vec::new();
    for batch in combinations_within(inst, usize::try_from(most).unwrap_or(usize::MAX))? {
        let q = |t: usize| load[t * inst.width + usize::from(batch[t])];
        let mut mismatch = 0.0;
        for i in 0..inst.n {
            for k in 0..i {
                mismatch += inst.pair_mismatch(i, q(i), k, q(k));
            }
        }
        combinations.push((mismatch, batch));
    }
    combinations.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.cmp(&b.1)));
    if combinations.is_empty() {
        return Some(Front {
            points: Vec::new(),
            proof: Proof::Enumerated,
        });
    }
    let levels = all_levels(inst);
    let best = best_of_each(&law, &combinations, &levels);
    let mut line = Skyline::default();
    for ((mismatch, batch), (value, at)) in combinations.into_iter().zip(best) {
        if value > f64::NEG_INFINITY {
            let level = levels[at * inst.n..(at + 1) * inst.n].to_vec();
            line.offer(-mismatch, value, &Point { batch, level });
        }
    }
    Some(Front {
        points: front_solutions(inst, &line),
        proof: Proof::Enumerated,
    })
}

/// Best value of every combination of batch sizes that may be on the front, and the shares that reach it.
fn best_of_each<C: Throughput + ?Sized>(
    law: &Additive<'_, '_, C>,
    combinations: &[(f64, Vec<u8>)],
    levels: &[u16],
) -> Vec<(f64, usize)> {
    let n = law.inst.n;
    let mut best = vec![(f64::NEG_INFINITY, 0); combinations.len()];
    let mut x = vec![0.0; n];
    let mut rows = LevelRows::default();
    let mut order: Vec<(f64, usize)> = Vec::new();
    for (at, level) in levels.chunks_exact(n).enumerate() {
        law.interference(level, &mut x);
        order.push((law.tops_at(level, &x), at));
    }
    order.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    // Highest value of any combination up to each one, in order of mismatch.
    let mut highest = vec![f64::NEG_INFINITY; combinations.len()];
    for (most, at) in order {
        let open = highest.partition_point(|h| *h < most);
        if open == 0 {
            // The bounds only decrease, so no later share vector can do better.
            break;
        }
        law.at_levels(&levels[at * n..(at + 1) * n], &mut rows);
        let mut running = f64::NEG_INFINITY;
        for (k, (_, batch)) in combinations.iter().enumerate().take(open) {
            let value = law.value(&rows, batch);
            if value > best[k].0 {
                best[k] = (value, at);
            }
            running = running.max(best[k].0);
            highest[k] = highest[k].max(running);
        }
        for h in &mut highest[open..] {
            *h = h.max(running);
        }
    }
    best
}

/// The Pareto-optimal solutions among those found by separate searches; not proven.
fn thin(mut found: Vec<Solution>, axes: impl Fn(&Solution) -> (f64, f64)) -> Front {
    found.sort_by(|a, b| {
        let ((ax, ay), (bx, by)) = (axes(a), axes(b));
        bx.total_cmp(&ax).then(by.total_cmp(&ay))
    });
    let mut points: Vec<Solution> = Vec::new();
    for s in found {
        if points.last().is_none_or(|p| axes(&s).1 > axes(p).1) {
            points.push(s);
        }
    }
    Front {
        points,
        proof: Proof::NotProven,
    }
}
