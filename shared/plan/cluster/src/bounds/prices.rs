//! Lower bound by prices of GPU time: a Lagrangian relaxation of the capacity of each class.
//!
//! For prices `lambda_g(t) >= 0` and any schedule, the time used on class g never exceeds `M_g`,
//! so
//!
//! ```text
//! sum_n w_n C_n  >=  sum_n phi_n(lambda) - sum_g M_g int lambda_g,
//! phi_n = min over schedules of job n alone of  w_n C + sum_tasks int_(start)^(start+Tc) lambda_g
//! ```
//!
//! `phi_n` is bounded from below by letting every round r run anywhere in its window: with slack `S
//! = C - a - R l`, round r lies in `[a + r l, a + (r+1) l + S]`, and each of its tasks takes the
//! cheapest class and start in that window. A round whose tasks use slow classes lasts longer than
//! `l`; the sum of these delays is at most S: `sum_tasks (Tc + Ts - l)^+ / D <= S`. For each S a charge
//! `nu >= 0` moves this constraint into the objective:
//!
//! ```text
//! phi_n >= min over S of  w (a + R l) + max over nu of  (w - nu) S + sum_tasks min over g and start of
//!              int lambda_g + nu (Tc + Ts - l)^+ / D
//! ```
//!
//! Any charges give a valid bound; for each S the best of a few is taken. (One multiplier per job
//! for all S, updated like the prices, gave 855e3 where this gives 932e3: the multiplier must be
//! high for jobs that hurry and zero for jobs that wait, and whether a job hurries depends on the
//! prices.) Any prices give a valid bound, too. A subgradient method (Polyak's step, averaged
//! directions) searches for good prices, starting from those of an [`Equilibrium`].
//!
//! It needs no LP: one step costs jobs x blocks x cells. With the best prices the bound is at least
//! as strong as the fluid relaxation over intervals of time, up to the time grid: for one
//! completion time the windows imply its constraints, and the minimum over S gives its convex hull.
//! On 240 random problems, that relaxation and Queyranne's (every subset's volume on identical
//! machines) were never the best bound.
//!
//! All rounding weakens the bound, which keeps it valid: completion times are rounded down to a
//! cell, and windows are widened to whole cells. Inside a cell the least price of a task is exact
//! (it is piecewise linear in the start, with breakpoints on the grid and one task length before
//! it).

mod equilibrium;
mod market;
mod response;

use crate::{Problem, Schedule};
pub use equilibrium::Equilibrium;
pub use market::Effort;
use market::{LEAST_STEPS, Market};

/// A lower bound on `sum w C`; `incumbent` (any schedule) sets the horizon, the initial prices and the
/// step.
pub fn prices(problem: &Problem, incumbent: &Schedule, effort: Effort) -> f64 {
    let upper = incumbent.cost(problem);
    let horizon = incumbent.makespan();
    if horizon <= 0.0 {
        return problem.chain_bound();
    }
    let equilibrium = Equilibrium::new(problem, incumbent);
    let mut market = Market::new(problem, &equilibrium, horizon, effort);
    let chain = market.chain;
    // Start from the best multiple of the equilibrium prices. Where windows are wide the full
    // prices are too high, since every task finds the cheapest moment of its window. Trying a
    // factor costs as much as one step. The grid was chosen by hand.
    let scaled = [0.5, 0.75, 1.0].map(|factor| {
        market.scale(factor);
        let value = market.evaluate();
        market.unscale();
        (value, factor)
    });
    let first = scaled.into_iter().max_by(|a, b| a.0.total_cmp(&b.0));
    market.scale(first.map_or(1.0, |f| f.1));
    let mut best = f64::NEG_INFINITY;
    let mut kept = market.prices.clone();
    // Polyak's step needs the optimal value of the bound, which is unknown; the incumbent's cost
    // replaces it. It is larger, so a full step would overshoot, the more so the better the first
    // prices are. Between 0.02 and 0.5 the bound on the flow cost changed by 1 % (40 jobs: best
    // with the longest step; 300 jobs: with the shortest).
    let mut pace = 0.1;
    let mut stale = 0;
    for step in 0..effort.steps {
        if step >= LEAST_STEPS && market.desk.work >= effort.work {
            break;
        }
        let value = market.evaluate();
        if value > best {
            // A gain below a thousandth of the gap is kept, but does not count as progress: at that rate the
            // steps would run out before the gap closes.
            if value > best + 1e-3 * (upper - value) {
                stale = 0;
            }
            best = value;
            kept = market.prices.clone();
        } else {
            stale += 1;
        }
        // No progress for long: take smaller steps, from the best prices.
        if stale >= effort.patience {
            pace *= 0.5;
            stale = 0;
            market.prices.clone_from(&kept);
            market.forget();
            market.evaluate();
        }
        // When the bound meets the incumbent, aim slightly above it, so that the step is not zero.
        if !market.step(pace * (upper.max(best * 1.0001) - value)) {
            break;
        }
    }
    best.max(chain)
}
