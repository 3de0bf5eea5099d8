use microlp::{ComparisonOp, OptimizationDirection, Problem, Variable};

use crate::bounds::ENUMERATE_TASKS;
use crate::cache::RateCache;
use crate::instance::members;
use crate::{Instance, Job};

/// Bound from the shared processor.
///
/// Prices `y_i >= 0` per sample with `sum_(i in A) y_i r_i(A) <= 1` for every set `A` make
/// `sum_i y_i W_i` a lower bound on the busy time of the processor; the best prices solve the
/// dual of `T_gpu = min sum tau_A s.t. sum_A tau_A r_i(A) >= W_i`, so both have the same value.
/// Prices feasible up to rounding are scaled to be feasible exactly: the bound does not rest on
/// the tolerance of the linear program.
///
/// The processor cannot be busy with `A` at time `t` of a round of length `T` unless the
/// downloads of `A` fit before `t` and its uploads after it. So with `v(A) = sum_A y_i r_i(A)`,
/// `phi(t) = max {v(A) : d(A) <= t}` and `psi(t) = max {v(A) : u(A) <= t}`:
/// `sum_i y_i W_i <= integral_0^T min(phi(t), psi(T - t)) dt`; the least such `T` is the bound.
pub(crate) struct WorkloadBound {
    priced: Option<Priced>,
    /// Bound on the makespan in seconds.
    pub makespan_s: f64,
}

/// Prices and what follows from them.
struct Priced {
    /// Price of each task's samples, in seconds.
    prices: Vec<f64>,
    /// Highest value of any part of each set; empty if not all tasks are priced.
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

/// The value of one set of tasks.
struct Valued {
    download_s: f64,
    upload_s: f64,
    value: f64,
}

impl WorkloadBound {
    /// Says nothing.
    pub fn none() -> Self {
        Self {
            priced: None,
            makespan_s: 0.0,
        }
    }

    /// `compute` are the least compute times `c_i`.
    pub fn new(instance: &Instance, compute: &[f64], rates: &mut RateCache<'_>) -> Self {
        let n = instance.len();
        let mut kept: Vec<usize> = (0..n).collect();
        kept.sort_by(|&a, &b| compute[b].total_cmp(&compute[a]).then(a.cmp(&b)));
        kept.truncate(ENUMERATE_TASKS);
        kept.sort_unstable();
        let jobs: Vec<Job> = kept.iter().map(|&i| instance.jobs()[i]).collect();
        let rows = rows_of(&kept, rates);
        if company_does_not_matter(&rows) {
            // Then the longest task says it all.
            return Self::none();
        }
        let Some(best) = solve_prices(&jobs, &rows) else {
            return Self::none();
        };
        let sets = valued(&jobs, &rows, &best);
        let makespan_s = makespan_bound(&jobs, &sets, &best);
        let mut prices = vec![0.0; n];
        for (&i, y) in kept.iter().zip(best) {
            prices[i] = y;
        }
        let best_within = if kept.len() == n {
            best_within(&sets)
        } else {
            Vec::new()
        };
        let priced = Some(Priced {
            prices,
            best_within,
            late: stairs(&sets),
        });
        Self { priced, makespan_s }
    }

    /// Least seconds until the round ends, while `left(i)` is left of task `i`, the tasks
    /// `active` compute, and no other can for `alone_s` seconds.
    pub fn rest_s(&self, left: &[f64], active: u32, alone_s: f64) -> f64 {
        let priced = self.priced.as_ref();
        priced.map_or(0.0, |p| p.rest_s(left, active, alone_s))
    }
}

impl Priced {
    fn rest_s(&self, left: &[f64], active: u32, alone_s: f64) -> f64 {
        let work = value(left, &self.prices);
        let first = self.least_s(work);
        let Some(&here) = self.best_within.get(active as usize) else {
            return first;
        };
        // What the processor could do later than `alone_s`, it cannot do before.
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

fn stairs(sets: &[Valued]) -> Vec<Stair> {
    let steps = staircase(sets.iter().map(|s| (s.upload_s, s.value)).collect());
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

/// For each set the highest value of its parts, the set itself included; place 0 is no task.
fn best_within(sets: &[Valued]) -> Vec<f64> {
    let mut best = vec![0.0; sets.len() + 1];
    for set in 1..best.len() {
        let parts = members(set as u32).map(|i| best[set & !(1 << i)]);
        best[set] = parts.fold(sets[set - 1].value, f64::max);
    }
    best
}

fn company_does_not_matter(rows: &[Vec<f64>]) -> bool {
    rows.iter().enumerate().all(|(k, row)| {
        members(k as u32 + 1).all(|i| (row[i] - rows[(1 << i) - 1][i]).abs() <= 1e-12 * row[i])
    })
}

/// Rates of each subset of `kept`: row `set - 1`, one place per kept task.
fn rows_of(kept: &[usize], rates: &mut RateCache<'_>) -> Vec<Vec<f64>> {
    (1u32..1 << kept.len())
        .map(|set| {
            let full = members(set).fold(0u32, |m, k| m | 1 << kept[k]);
            let row = rates.row(full);
            let mut out = vec![0.0; kept.len()];
            for k in members(set) {
                out[k] = row[kept[k]];
            }
            out
        })
        .collect()
}

fn value(row: &[f64], prices: &[f64]) -> f64 {
    row.iter().zip(prices).map(|(r, y)| r * y).sum()
}

/// The best prices by adding the most violated sets until none is; `None` if nothing computes
/// or the linear program fails.
fn solve_prices(jobs: &[Job], rows: &[Vec<f64>]) -> Option<Vec<f64>> {
    const ROUNDS: usize = 200;
    const ENOUGH: f64 = 1e-9;
    if jobs.iter().all(|j| j.work == 0.0) {
        return None;
    }
    let n = jobs.len();
    let mut problem = Problem::new(OptimizationDirection::Maximize);
    // Scaled by the rate alone, so that all variables are of order 1.
    let alone: Vec<f64> = (0..n).map(|i| rows[(1 << i) - 1][i]).collect();
    let vars: Vec<Variable> = (0..n)
        .map(|i| problem.add_var(jobs[i].work / alone[i], (0.0, f64::INFINITY)))
        .collect();
    let constraint = |set: usize| -> Vec<(Variable, f64)> {
        members(set as u32)
            .map(|i| (vars[i], rows[set - 1][i] / alone[i]))
            .collect()
    };
    for i in 0..n {
        problem.add_constraint(constraint(1 << i), ComparisonOp::Le, 1.0);
    }
    problem.add_constraint(constraint((1 << n) - 1), ComparisonOp::Le, 1.0);
    let mut solution = problem.solve().ok()?.into_solution().ok()?;
    let mut prices = vec![0.0; n];
    for _ in 0..ROUNDS {
        for (i, &var) in vars.iter().enumerate() {
            prices[i] = solution.var_value(var).max(0.0) / alone[i];
        }
        let (worst, most) = worst_set(rows, &prices);
        if most <= 1.0 + ENOUGH {
            break;
        }
        let Ok(next) = solution.add_constraint(constraint(worst), ComparisonOp::Le, 1.0) else {
            break;
        };
        let Ok(next) = next.into_solution() else {
            break;
        };
        solution = next;
    }
    let (_, most) = worst_set(rows, &prices);
    if !(most.is_finite() && most > 0.0) {
        return None;
    }
    // Feasible exactly, with room for the rounding of the check itself.
    let scale = (1.0 - 1e-12) / most.max(1.0);
    prices.iter_mut().for_each(|y| *y *= scale);
    Some(prices)
}

fn worst_set(rows: &[Vec<f64>], prices: &[f64]) -> (usize, f64) {
    rows.iter()
        .enumerate()
        .map(|(k, row)| (k + 1, value(row, prices)))
        .fold((0, 0.0), |a, b| if b.1 > a.1 { b } else { a })
}

fn valued(jobs: &[Job], rows: &[Vec<f64>], prices: &[f64]) -> Vec<Valued> {
    rows.iter()
        .enumerate()
        .map(|(k, row)| {
            let mut v = Valued {
                download_s: 0.0,
                upload_s: 0.0,
                value: value(row, prices),
            };
            for i in members(k as u32 + 1) {
                v.download_s += jobs[i].download_s;
                v.upload_s += jobs[i].upload_s;
            }
            v
        })
        .collect()
}

/// The least `T` whose integral holds all priced work, from below.
fn makespan_bound(jobs: &[Job], sets: &[Valued], prices: &[f64]) -> f64 {
    let wanted: f64 = jobs.iter().zip(prices).map(|(j, y)| j.work * y).sum();
    let early = staircase(sets.iter().map(|s| (s.download_s, s.value)).collect());
    let late = staircase(sets.iter().map(|s| (s.upload_s, s.value)).collect());
    let ends = |stairs: &[(f64, f64)]| stairs.last().map_or((0.0, 0.0), |&s| s);
    let top = ends(&early).1.min(ends(&late).1);
    let mut low = 0.0_f64;
    let mut high = ends(&early).0 + ends(&late).0 + wanted / top * (1.0 + 1e-9);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if capacity(&early, &late, middle) < wanted {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

/// Steps `(from, value)` of `max {value : cost <= t}`, rising in both.
fn staircase(mut points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
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
fn capacity(early: &[(f64, f64)], late: &[(f64, f64)], end: f64) -> f64 {
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
