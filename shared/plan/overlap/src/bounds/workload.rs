use microlp::{ComparisonOp, OptimizationDirection, Problem, Variable};

use crate::instance::members;
use crate::rates::cache::RateCache;
use crate::{Instance, RoundTask, Set};

/// Bound from the shared processor.
///
/// Prices `y_i >= 0` per sample with `sum_(i in A) y_i r_i(A) <= 1` for every set `A` make `sum_i y_i W_i` a lower
/// bound on the busy time of the processor. The best prices solve the dual of `T_gpu = min sum tau_A s.t. sum_A tau_A
/// r_i(A) >= W_i`, so both have the same value. Prices that are feasible up to rounding are scaled to be exactly
/// feasible, so the bound does not depend on the tolerance of the linear program.
///
/// The processor cannot be busy with `A` at time `t` of a round of length `T` unless the downloads of `A` fit before
/// `t` and its uploads after it. So with `v(A) = sum_A y_i r_i(A)`, `phi(t) = max {v(A) : d(A) <= t}` and `psi(t) =
/// max {v(A) : u(A) <= t}`: `sum_i y_i W_i <= integral_0^T min(phi(t), psi(T - t)) dt`; the least such `T` is the
/// bound.
pub(crate) struct WorkloadBound {
    priced: Option<Priced>,
    /// Bound on the makespan in seconds.
    pub makespan_s: f64,
}

/// Maximum number of times that sets are added to the linear program. Any prices give a valid bound, since
/// [`staircase`] values every set by them; if the limit is reached, the bound is weaker but not wrong. The same holds
/// for the next two constants.
const ROUNDS: usize = 200;
/// A set is violated if its value exceeds 1 by this: more than the rounding of the linear program, so that no set is
/// added twice because of rounding.
const VIOLATED_BY: f64 = 1e-9;
/// Sets with at least this value may soon be violated, and are evaluated before all others. A lower limit keeps more
/// sets in the pool, a higher one evaluates all sets more often.
const NEARLY_VIOLATED: f64 = 0.9;

/// Prices and what is derived from them.
struct Priced {
    /// Price of each task's samples, in seconds.
    prices: Vec<f64>,
    /// Highest value of any subset of each set; empty if not all tasks are priced.
    best_within: Vec<f64>,
    late: Vec<Stair>,
}

/// One step of `psi`.
#[derive(Clone, Copy)]
struct Stair {
    from_s: f64,
    value: f64,
    /// Integral of `psi` up to `from_s`.
    before: f64,
}

/// Rates of every set of some tasks; the sets are numbers from 1.
struct Sets {
    tasks: usize,
    /// The rates of each set's members, set after set.
    rates: Vec<f64>,
    /// Index of the first rate of each set.
    from: Vec<u32>,
}

impl Sets {
    /// Queries the rates of all sets of `kept`, which is ascending.
    fn of(kept: &[usize], rates: &mut RateCache<'_>) -> Self {
        let whole = kept.last() == Some(&(kept.len() - 1));
        Self::collect(kept, |set, out| {
            if whole {
                rates.with(set, |row| out.extend(members(set).map(|k| row[k])));
            } else {
                let full = all_of(set, kept);
                rates.with(full, |row| out.extend(members(set).map(|k| row[kept[k]])));
            }
        })
    }

    /// The highest rates of all sets of `kept` at any of the batch sizes ([`RateCache::highest`]).
    fn at_any_batches(kept: &[usize], rates: &mut RateCache<'_>) -> Self {
        Self::collect(kept, |set, out| {
            let full = all_of(set, kept);
            out.extend(members(set).map(|k| rates.highest(full, kept[k])));
        })
    }

    fn collect(kept: &[usize], mut of_set: impl FnMut(Set, &mut Vec<f64>)) -> Self {
        let tasks = kept.len();
        let mut out = Vec::with_capacity(tasks << tasks.saturating_sub(1));
        let mut from = vec![0; 1 << tasks];
        for set in 1..(1 as Set) << tasks {
            from[set as usize] = out.len() as u32;
            of_set(set, &mut out);
        }
        Self {
            tasks,
            rates: out,
            from,
        }
    }

    fn all(&self) -> std::ops::Range<Set> {
        1..1 << self.tasks
    }

    /// The members of a set, each with its rate.
    fn members(&self, set: Set) -> impl Iterator<Item = (usize, f64)> {
        let rates = &self.rates[self.from[set as usize] as usize..];
        members(set).zip(rates.iter().copied())
    }

    /// The rate of each task alone.
    fn alone(&self) -> Vec<f64> {
        (0..self.tasks)
            .map(|i| self.rates[self.from[1 << i] as usize])
            .collect()
    }

    /// `v(A)`.
    fn value(&self, set: Set, prices: &[f64]) -> f64 {
        self.members(set).map(|(i, r)| r * prices[i]).sum()
    }
}

impl WorkloadBound {
    /// A bound of 0.
    pub fn none() -> Self {
        Self {
            priced: None,
            makespan_s: 0.0,
        }
    }

    /// `compute` are the minimum compute times `c_i`.
    pub fn new(instance: &Instance, compute: &[f64], rates: &mut RateCache<'_>) -> Self {
        let kept = longest(compute, rates.all_sets_of());
        let sets = Sets::of(&kept, rates);
        Self::of_sets(instance, &kept, &sets)
    }

    /// The same for any of the batch sizes, even if they changed during the round.
    pub fn at_any_batches(instance: &Instance, compute: &[f64], rates: &mut RateCache<'_>) -> Self {
        let kept = longest(compute, rates.all_sets_of());
        let sets = Sets::at_any_batches(&kept, rates);
        Self::of_sets(instance, &kept, &sets)
    }

    /// The bound from the tasks `kept`, which is ascending.
    fn of_sets(instance: &Instance, kept: &[usize], sets: &Sets) -> Self {
        let n = instance.len();
        let jobs: Vec<RoundTask> = kept.iter().map(|&i| instance.jobs()[i]).collect();
        if corunners_do_not_matter(sets) {
            // Then the bound of the longest task is the best.
            return Self::none();
        }
        let Some(mut best) = solve_prices(&jobs, sets) else {
            return Self::none();
        };
        let mut values = vec![0.0];
        values.extend(sets.all().map(|set| sets.value(set, &best)));
        let most = values.iter().fold(0.0_f64, |m, &v| m.max(v));
        if !(most.is_finite() && most > 0.0) {
            return Self::none();
        }
        // Exactly feasible, with a margin for the rounding of the check itself.
        let scale = (1.0 - 1e-12) / most.max(1.0);
        best.iter_mut().chain(&mut values).for_each(|y| *y *= scale);
        let early = staircase(&sums(&jobs, |j| j.download_s), &values);
        let late = staircase(&sums(&jobs, |j| j.upload_s), &values);
        let makespan_s = makespan_bound(&jobs, &early, &late, &best);
        let mut prices = vec![0.0; n];
        for (&i, y) in kept.iter().zip(best) {
            prices[i] = y;
        }
        let best_within = if kept.len() == n {
            best_within(values)
        } else {
            Vec::new()
        };
        let priced = Some(Priced {
            prices,
            best_within,
            late: stairs(late),
        });
        Self { priced, makespan_s }
    }

    /// Minimum seconds until the round ends, with work `left[i]` left of task `i`, the tasks
    /// `active` computing, and no other task able to compute for `alone_s` seconds.
    pub fn rest_s(&self, left: &[f64], active: Set, alone_s: f64) -> f64 {
        let priced = self.priced.as_ref();
        priced.map_or(0.0, |p| p.rest_s(left, active, alone_s))
    }
}

impl Priced {
    fn rest_s(&self, left: &[f64], active: Set, alone_s: f64) -> f64 {
        let work = left.iter().zip(&self.prices).map(|(w, y)| w * y).sum();
        let first = self.least_s(work);
        let Some(&here) = self.best_within.get(active as usize) else {
            return first;
        };
        // Work of tasks that can only compute after `alone_s` cannot be done before.
        let lost = alone_s * (self.psi(first - alone_s) - here).max(0.0);
        self.least_s(work + lost)
    }

    fn psi(&self, seconds: f64) -> f64 {
        let stair = self.late.iter().rev().find(|s| s.from_s <= seconds);
        stair.map_or(0.0, |s| s.value)
    }

    /// The least `t` with `integral_0^t psi >= work`.
    fn least_s(&self, work: f64) -> f64 {
        if work <= 0.0 {
            return 0.0;
        }
        let stair = self.late.iter().rev().find(|s| s.before < work);
        stair.map_or(0.0, |s| s.from_s + (work - s.before) / s.value)
    }
}

/// The `most` tasks with the most compute, ascending.
fn longest(compute: &[f64], most: usize) -> Vec<usize> {
    let mut kept: Vec<usize> = (0..compute.len()).collect();
    kept.sort_by(|&a, &b| compute[b].total_cmp(&compute[a]).then(a.cmp(&b)));
    kept.truncate(most);
    kept.sort_unstable();
    kept
}

/// A set of positions in `kept` as a set of tasks.
fn all_of(set: Set, kept: &[usize]) -> Set {
    members(set).fold(0, |m: Set, k| m | 1 << kept[k])
}

fn stairs(steps: Vec<(f64, f64)>) -> Vec<Stair> {
    let mut stairs: Vec<Stair> = Vec::with_capacity(steps.len());
    for (from_s, value) in steps.into_iter().filter(|s| s.1 > 0.0) {
        let before = stairs
            .last()
            .map_or(0.0, |s| s.before + (from_s - s.from_s) * s.value);
        stairs.push(Stair {
            from_s,
            value,
            before,
        });
    }
    stairs
}

/// For each set the highest value of its subsets, itself included; index 0 is the empty set.
fn best_within(mut values: Vec<f64>) -> Vec<f64> {
    for set in 1..values.len() {
        let parts = members(set as Set).map(|i| values[set & !(1 << i)]);
        values[set] = parts.fold(values[set], f64::max);
    }
    values
}

fn corunners_do_not_matter(sets: &Sets) -> bool {
    let alone = sets.alone();
    let mut all = sets.all();
    all.all(|set| {
        let mut each = sets.members(set);
        each.all(|(i, r)| (r - alone[i]).abs() <= 1e-12 * r)
    })
}

/// The best prices, by adding violated sets until there are none; `None` if nothing computes or the linear program
/// fails.
fn solve_prices(jobs: &[RoundTask], sets: &Sets) -> Option<Vec<f64>> {
    if jobs.iter().all(|j| j.work == 0.0) {
        return None;
    }
    // Scaled by the solo rate, so that all variables are of order 1.
    let alone = sets.alone();
    let mut problem = Problem::new(OptimizationDirection::Maximize);
    let vars: Vec<Variable> = jobs
        .iter()
        .zip(&alone)
        .map(|(job, rate)| problem.add_var(job.work / rate, (0.0, f64::INFINITY)))
        .collect();
    let constraint = |set: Set| -> Vec<(Variable, f64)> {
        let each = sets.members(set);
        each.map(|(i, r)| (vars[i], r / alone[i])).collect()
    };
    let everyone = ((1 as Set) << jobs.len()) - 1;
    for set in sets.all() {
        if set.count_ones() <= 2 || set == everyone {
            problem.add_constraint(constraint(set), ComparisonOp::Le, 1.0);
        }
    }
    let mut solution = problem.solve().ok()?.into_solution().ok()?;
    let mut prices = vec![0.0; jobs.len()];
    // Most sets never have a high value: between evaluations of all sets, only the others are evaluated.
    let mut pool: Vec<Set> = Vec::new();
    'rounds: for _ in 0..ROUNDS {
        for (i, &var) in vars.iter().enumerate() {
            prices[i] = solution.var_value(var).max(0.0) / alone[i];
        }
        let mut worst = worst_sets(sets, &prices, &pool);
        if worst.is_empty() {
            pool.clear();
            pool.extend(
                sets.all()
                    .filter(|&s| sets.value(s, &prices) > NEARLY_VIOLATED),
            );
            worst = worst_sets(sets, &prices, &pool);
        }
        if worst.is_empty() {
            break;
        }
        for set in worst {
            let next = solution.add_constraint(constraint(set), ComparisonOp::Le, 1.0);
            let Some(next) = next.ok().and_then(|next| next.into_solution().ok()) else {
                break 'rounds;
            };
            solution = next;
        }
    }
    Some(prices)
}

/// For each task, the most violated of the sets that begin with it, so that a few iterations suffice.
fn worst_sets(sets: &Sets, prices: &[f64], pool: &[Set]) -> Vec<Set> {
    let mut worst = vec![(0, 1.0 + VIOLATED_BY); sets.tasks];
    for &set in pool {
        let value = sets.value(set, prices);
        let so_far = &mut worst[set.trailing_zeros() as usize];
        if value > so_far.1 {
            *so_far = (set, value);
        }
    }
    let violated = worst.into_iter().filter(|&(set, _)| set != 0);
    violated.map(|(set, _)| set).collect()
}

/// For every set, the sum over its members; the empty set comes first.
fn sums(jobs: &[RoundTask], seconds: impl Fn(&RoundTask) -> f64) -> Vec<f64> {
    let mut sums = Vec::with_capacity(1 << jobs.len());
    sums.push(0.0);
    for job in jobs {
        for k in 0..sums.len() {
            sums.push(sums[k] + seconds(job));
        }
    }
    sums
}

/// The least `T` whose integral covers all priced work, approximated from below.
fn makespan_bound(
    jobs: &[RoundTask],
    early: &[(f64, f64)],
    late: &[(f64, f64)],
    prices: &[f64],
) -> f64 {
    let wanted: f64 = jobs.iter().zip(prices).map(|(j, y)| j.work * y).sum();
    let ends = |stairs: &[(f64, f64)]| stairs.last().map_or((0.0, 0.0), |&s| s);
    let top = ends(early).1.min(ends(late).1);
    let mut low = 0.0_f64;
    let mut high = ends(early).0 + ends(late).0 + wanted / top * (1.0 + 1e-9);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if capacity(early, late, middle) < wanted {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

/// Steps `(from, value)` of `max {value : cost <= t}` over all sets, rising in both.
fn staircase(costs: &[f64], values: &[f64]) -> Vec<(f64, f64)> {
    // Buckets of the costs: enough that few of the at most 2^20 sets remain, while the table of buckets fits into the
    // first-level cache. The number affects how much is sorted, not the result.
    const PARTS: usize = 1024;
    // Only sets with a higher value than all clearly cheaper ones can be a step, so few need sorting.
    let dearest = costs.iter().fold(0.0_f64, |m, &c| m.max(c));
    let part = |cost: f64| ((cost / dearest * PARTS as f64) as usize).min(PARTS - 1);
    let mut least = vec![0.0_f64; PARTS + 1];
    for (&cost, &value) in costs.iter().zip(values) {
        let above = &mut least[part(cost) + 1];
        *above = above.max(value);
    }
    for k in 1..least.len() {
        least[k] = least[k].max(least[k - 1]);
    }
    let mut points: Vec<(f64, f64)> = costs
        .iter()
        .zip(values)
        .map(|(&cost, &value)| (cost, value))
        .filter(|&(cost, value)| value > least[part(cost)])
        .collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.total_cmp(&a.1)));
    let mut stairs: Vec<(f64, f64)> = Vec::new();
    for p in points {
        if stairs.last().is_none_or(|s| p.1 > s.1) {
            stairs.push(p);
        }
    }
    stairs
}

/// `integral_0^T min(early(t), late(T - t)) dt`.
pub(crate) fn capacity(early: &[(f64, f64)], late: &[(f64, f64)], end: f64) -> f64 {
    let (mut e, mut l) = (0, late.len());
    // `late` falls in time: from step `l - 1` it drops to `l - 2` at `end - late[l - 1].0`.
    while l > 0 && late[l - 1].0 > end {
        l -= 1;
    }
    let (mut now, mut sum, mut level) = (0.0_f64, 0.0, 0.0);
    while now < end && l > 0 {
        while e < early.len() && early[e].0 <= now {
            level = early[e].1;
            e += 1;
        }
        let rise = early.get(e).map_or(end, |s| s.0);
        let fall = end - late[l - 1].0;
        let until = rise.min(fall).min(end).max(now);
        sum += (until - now) * level.min(late[l - 1].1);
        now = until;
        if fall <= now {
            l -= 1;
        }
    }
    sum
}
