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

mod response;

use crate::{Problem, Schedule};
use response::Desk;

/// How hard to look for good prices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effort {
    /// Intervals of constant price.
    pub intervals: usize,
    /// Cells of start times in an interval.
    pub cells: usize,
    /// Groups of neighbouring rounds that share a window, at most.
    pub blocks: usize,
    /// Steps of the subgradient method.
    pub steps: usize,
}

impl Effort {
    /// Finer for fewer jobs; the steps are what is left of a fixed amount of work. Rounding costs
    /// about three cells a job. The constants are a first choice and have not been tuned.
    pub fn for_problem(problem: &Problem) -> Self {
        let (intervals, cells, blocks) = match problem.jobs.len() {
            0..=60 => (192, 3, 32),
            61..=400 => (128, 2, 16),
            _ => (96, 1, 8),
        };
        let work = problem.jobs.len() * problem.classes.len() * intervals * cells * (blocks + 12);
        let steps = (1_500_000_000 / work.max(1)).clamp(40, 400);
        Self {
            intervals,
            cells,
            blocks,
            steps,
        }
    }
}

/// A lower bound on `sum w C`; `incumbent` (any schedule) sets the horizon, the first prices and the step.
pub fn prices(problem: &Problem, incumbent: &Schedule, effort: Effort) -> f64 {
    let upper = incumbent.cost(problem);
    let horizon = incumbent.makespan();
    if horizon <= 0.0 {
        return problem.chain_bound();
    }
    let mut market = Market::new(problem, incumbent, horizon, effort);
    let chain = market.chain;
    // No price at all gives the chain bound; where waiting is cheap the schedule's are too high.
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
    let mut pace = 0.5;
    let mut stale = 0;
    for _ in 0..effort.steps {
        let value = market.evaluate();
        if value > best {
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
        if !market.step(pace * (upper.max(best * 1.0001) - value)) {
            break;
        }
    }
    best.max(chain)
}

/// Steps without progress before the pace is halved: a first choice, not tuned.
const PATIENCE: usize = 8;

struct Market<'p> {
    problem: &'p Problem,
    effort: Effort,
    /// Seconds of an interval and of a cell.
    interval: f64,
    per_interval: f64,
    cell: f64,
    chain: f64,
    /// Price of a second on each class in each interval; zero behind the horizon.
    prices: Vec<Vec<f64>>,
    /// Prices before scaling.
    first: Vec<Vec<f64>>,
    /// Multiplier of each job's slack.
    multipliers: Vec<f64>,
    /// Averaged subgradients.
    price_direction: Vec<Vec<f64>>,
    multiplier_direction: Vec<f64>,
    fresh: bool,
    /// Price of all time before each edge of the intervals.
    cumulative: Vec<Vec<f64>>,
    usage: Vec<Vec<f64>>,
    slack_excess: Vec<f64>,
    desk: Desk,
}

impl<'p> Market<'p> {
    fn new(problem: &'p Problem, incumbent: &Schedule, horizon: f64, effort: Effort) -> Self {
        let interval = horizon / effort.intervals as f64;
        let classes = problem.classes.len();
        Self {
            problem,
            effort,
            interval,
            per_interval: 1.0 / interval,
            cell: interval / effort.cells as f64,
            chain: problem.chain_bound(),
            prices: first_prices(problem, incumbent, interval, effort.intervals),
            first: Vec::new(),
            // A job that must be slow pays a quarter by its slack; the search moves it.
            multipliers: problem.jobs.iter().map(|j| j.weight / 4.0).collect(),
            price_direction: vec![vec![0.0; effort.intervals]; classes],
            multiplier_direction: vec![0.0; problem.jobs.len()],
            fresh: true,
            cumulative: vec![vec![0.0; effort.intervals + 1]; classes],
            usage: vec![vec![0.0; effort.intervals]; classes],
            slack_excess: vec![0.0; problem.jobs.len()],
            desk: Desk::default(),
        }
    }

    /// Takes every first price times `factor`; [`Market::unscale`] undoes it.
    fn scale(&mut self, factor: f64) {
        self.first.clone_from(&self.prices);
        for price in self.prices.iter_mut().flatten() {
            *price *= factor;
        }
    }

    fn unscale(&mut self) {
        self.prices.clone_from(&self.first);
    }

    fn forget(&mut self) {
        self.fresh = true;
    }

    /// Price of all time of class g before `t`.
    fn before(&self, g: usize, t: f64) -> f64 {
        let place = (t * self.per_interval).max(0.0);
        let k = place as usize;
        match self.prices[g].get(k) {
            Some(price) => self.cumulative[g][k] + (place - k as f64) * self.interval * price,
            None => self.cumulative[g][self.effort.intervals],
        }
    }

    fn evaluate(&mut self) -> f64 {
        let mut value = 0.0;
        for g in 0..self.prices.len() {
            let mut sum = 0.0;
            for (k, price) in self.prices[g].iter().enumerate() {
                self.cumulative[g][k] = sum;
                sum += price * self.interval;
            }
            self.cumulative[g][self.effort.intervals] = sum;
            value -= self.problem.classes[g].count as f64 * sum;
            self.usage[g].fill(0.0);
        }
        let mut desk = std::mem::take(&mut self.desk);
        for n in 0..self.problem.jobs.len() {
            value += self.job(n, &mut desk);
        }
        self.desk = desk;
        value
    }

    /// Moves prices and multipliers along the averaged subgradient so far that the linearised
    /// value rises by `rise`; false where there is no direction left.
    fn step(&mut self, rise: f64) -> bool {
        // Half old, half new: single subgradients put a whole block into one cell.
        let keep = if self.fresh { 0.0 } else { 0.5 };
        self.fresh = false;
        // A price is scaled by the capacity of its class so that scarce classes move as fast.
        let mut square = 0.0;
        for g in 0..self.prices.len() {
            let capacity = self.problem.classes[g].count as f64 * self.interval;
            for k in 0..self.effort.intervals {
                let slope = self.usage[g][k] - capacity;
                let direction = &mut self.price_direction[g][k];
                *direction = keep * *direction + (1.0 - keep) * slope;
                if self.prices[g][k] > 0.0 || *direction > 0.0 {
                    square += *direction * *direction / capacity;
                }
            }
        }
        let horizon = self.interval * self.effort.intervals as f64;
        for (n, direction) in self.multiplier_direction.iter_mut().enumerate() {
            *direction = keep * *direction + (1.0 - keep) * self.slack_excess[n];
            square += *direction * *direction / horizon;
        }
        if square <= 0.0 {
            return false;
        }
        let length = rise.max(0.0) / square;
        for g in 0..self.prices.len() {
            let capacity = self.problem.classes[g].count as f64 * self.interval;
            for k in 0..self.effort.intervals {
                let price = self.prices[g][k] + length * self.price_direction[g][k] / capacity;
                self.prices[g][k] = price.max(0.0);
            }
        }
        for (n, multiplier) in self.multipliers.iter_mut().enumerate() {
            let moved = *multiplier + length * self.multiplier_direction[n] / horizon;
            *multiplier = moved.clamp(0.0, self.problem.jobs[n].weight);
        }
        true
    }
}

/// Prices from a schedule: on one machine the price of time falls by `w / (V p)` while a job of
/// V tasks of p seconds runs, since its completion would move by as much; on a class the mean of
/// the tasks that run.
fn first_prices(
    problem: &Problem,
    incumbent: &Schedule,
    interval: f64,
    intervals: usize,
) -> Vec<Vec<f64>> {
    let mut fall = vec![vec![0.0; intervals + 1]; problem.classes.len()];
    for a in &incumbent.assignments {
        let g = problem.gpus[a.gpu];
        let job = &problem.jobs[a.job];
        let density = job.weight / (job.volume() as f64 * job.train[g]);
        let share = density / problem.classes[g].count as f64;
        let first = (a.start / interval) as usize;
        for (k, fall) in fall[g].iter_mut().enumerate().take(intervals).skip(first) {
            let (begin, end) = (k as f64 * interval, (k + 1) as f64 * interval);
            if begin >= a.trained {
                break;
            }
            *fall += share * (a.trained.min(end) - a.start.max(begin)).max(0.0);
        }
    }
    for row in &mut fall {
        let mut sum = 0.0;
        for value in row.iter_mut().rev() {
            sum += *value;
            *value = sum;
        }
        row.truncate(intervals);
    }
    fall
}
