//! The bound by prices of GPU time: a Lagrangian relaxation of the capacity of every class.
//!
//! For prices `lambda_g(t) >= 0` and any schedule, the time used on class g never exceeds `M_g`,
//! so
//!
//! ```text
//! sum_n w_n C_n  >=  sum_n phi_n(lambda) - sum_g M_g int lambda_g,
//! phi_n = min over schedules of job n alone of  w_n C + sum_tasks int_(start)^(start+Tc) lambda_g
//! ```
//!
//! `phi_n` is bounded from below by letting every round r run anywhere in its window: with slack
//! `S = C - a - R l`, round r lies in `[a + r l, a + (r+1) l + S]`, and each of its tasks takes the
//! cheapest class and start there. A round in which tasks use slow classes lasts longer than `l`;
//! the sum of that is at most S: `sum_tasks (Tc + Ts - l)^+ / D <= S`, which a multiplier
//! `mu_n` in `[0, w_n]` takes into the objective. Any prices and multipliers give a valid bound;
//! a subgradient method (Polyak's step, averaged directions) looks for good ones.
//!
//! The windows imply the constraints of the fluid relaxation F for one completion time, and the
//! minimum over S its convex hull, so that with the best prices this bound is no weaker than F
//! up to the grid of time. It needs no LP: one step costs jobs x blocks x cells.
//!
//! Rounding is always towards a weaker bound: completion times are rounded down to a cell, windows
//! are widened to whole cells, and inside a cell the least price of a task is exact (it is piecewise
//! linear in the start, with breakpoints on the grid and one task length before it).

mod market;
mod response;

use crate::{Problem, Schedule};
pub use market::Effort;
use market::Market;

/// A lower bound on `sum w C`; `incumbent` (any schedule) sets the horizon, the first prices and the step.
pub fn prices(problem: &Problem, incumbent: &Schedule, effort: Effort) -> f64 {
    let upper = incumbent.cost(problem);
    let horizon = incumbent.makespan();
    if horizon <= 0.0 {
        return problem.chain_bound();
    }
    let mut market = Market::new(problem, incumbent, horizon, effort);
    let chain = market.chain;
    // No price at all gives the chain bound; where waiting is cheap the schedule's are too high. Each look
    // costs as much as one of the 40 to 400 steps. The grid in quarters was chosen by hand.
    let scaled = [0.0, 0.25, 0.5, 0.75, 1.0].map(|factor| {
        market.scale(factor);
        let value = market.evaluate();
        market.unscale();
        (value, factor)
    });
    let first = scaled.into_iter().max_by(|a, b| a.0.total_cmp(&b.0));
    market.scale(first.map_or(1.0, |f| f.1));
    let mut best = f64::NEG_INFINITY;
    let mut kept = (market.prices.clone(), market.multipliers.clone());
    // Polyak's step needs the best value of the bound, which nobody knows: the incumbent stands for it. As that is
    // above it, a whole step would be too far; half of one was chosen by hand and is halved again below.
    let mut pace = 0.5;
    let mut stale = 0;
    for _ in 0..effort.steps {
        let value = market.evaluate();
        if value > best {
            // A gain below a thousandth of the gap is kept, but does not count as progress: at that rate the
            // steps end before the gap does.
            if value > best + 1e-3 * (upper - value) {
                stale = 0;
            }
            best = value;
            kept = (market.prices.clone(), market.multipliers.clone());
        } else {
            stale += 1;
        }
        // So many steps without progress: step less far, from the best prices.
        if stale >= PATIENCE {
            pace *= 0.5;
            stale = 0;
            (market.prices, market.multipliers) = kept.clone();
            market.forget();
            market.evaluate();
        }
        // Where the bound meets the incumbent the aim stays a little above it, so that a step has a length.
        if !market.step(pace * (upper.max(best * 1.0001) - value)) {
            break;
        }
    }
    best.max(chain)
}

/// Steps without progress before the pace is halved: a first choice, not tuned.
const PATIENCE: usize = 8;
