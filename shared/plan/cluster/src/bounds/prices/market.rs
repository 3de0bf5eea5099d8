//! Prices of GPU time, multipliers of slack, and a step of the subgradient method.

use crate::{Problem, Schedule};

/// Effort of the search for prices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effort {
    /// Intervals of constant price.
    pub intervals: usize,
    /// Cells of start times in an interval.
    pub cells: usize,
    /// Groups of neighbouring rounds that share a window, at most.
    pub blocks: usize,
    /// Steps without progress before steps become half as long.
    pub patience: usize,
    /// Steps of the subgradient method at most; at least 40 are made.
    pub steps: usize,
    /// Windows of a block and a slack that all steps may look at.
    pub work: u64,
}

/// With fewer the first prices would decide, whatever the problem.
pub(super) const LEAST_STEPS: usize = 40;

impl Effort {
    /// Rounding costs about three cells a job: much where urgent jobs are over after a few. Cells count more than
    /// intervals, and both more than blocks, so a longer backlog gets more intervals and fewer blocks.
    ///
    /// Flow cost over the bound at load 2, with 128 intervals of 2 cells in 400 steps, and as it is now: 100 jobs on
    /// 15 GPUs 2.58 and 1.49 (in 6 s of a busy processor), 300 on 15 4.20 and 1.98 (8 s), 3,000 on 160 4.44 with 96
    /// intervals of one cell, and 3.03 (8 s). Four times the work gives 2.24 there.
    pub fn for_problem(problem: &Problem) -> Self {
        let (intervals, cells, blocks, patience, steps, work) = match problem.jobs.len() {
            // More than 400 steps were not tried there.
            0..=60 => (192, 3, 32, 8, 400, 500_000_000),
            // 100 jobs on 15 GPUs: bound on the flow 129e3 in 400 steps with a patience of 3, after which longer does not
            // help; 133e3 with 8 and the same work, 136e3 with 12 and twice the work, 136e3 with 15 and thrice the work.
            61..=150 => (256, 4, 16, 12, 2_000, 1_000_000_000),
            // Where steps are few they have to become short soon: 300 jobs have a bound of 783e3 with a patience of 3, and
            // 445e3 with 8 and twice the work. The work is what limits them: 8 times as much gives 928e3.
            _ => (512, 4, 8, 3, 400, 500_000_000),
        };
        Self {
            intervals,
            cells,
            blocks,
            patience,
            steps,
            work,
        }
    }
}

/// Memory for one job, kept between jobs.
#[derive(Default)]
pub(super) struct Desk {
    /// Least cost of a task that starts in a cell, for each class, from the cell of the job's arrival on, as far as it
    /// has been needed.
    pub(super) cheapest: Vec<Vec<f64>>,
    pub(super) first_cell: usize,
    /// Cost of a task for being slower than the shortest round, for each class.
    pub(super) tolls: Vec<f64>,
    /// Windows that were looked at.
    pub(super) work: u64,
}

/// Prices and multipliers, and what all jobs do at them.
pub(super) struct Market<'p> {
    pub(super) problem: &'p Problem,
    pub(super) effort: Effort,
    /// Seconds of an interval and of a cell.
    pub(super) interval: f64,
    pub(super) per_interval: f64,
    pub(super) cell: f64,
    pub(super) chain: f64,
    /// Price of a second on each class in each interval; zero behind the horizon.
    pub(super) prices: Vec<Vec<f64>>,
    /// Prices before scaling.
    pub(super) first: Vec<Vec<f64>>,
    /// Multiplier of each job's slack.
    pub(super) multipliers: Vec<f64>,
    /// Averaged subgradients.
    pub(super) price_direction: Vec<Vec<f64>>,
    pub(super) multiplier_direction: Vec<f64>,
    pub(super) fresh: bool,
    /// Price of all time before each edge of the intervals.
    pub(super) cumulative: Vec<Vec<f64>>,
    pub(super) usage: Vec<Vec<f64>>,
    pub(super) slack_excess: Vec<f64>,
    pub(super) desk: Desk,
}

impl<'p> Market<'p> {
    pub(super) fn new(
        problem: &'p Problem,
        incumbent: &Schedule,
        horizon: f64,
        effort: Effort,
    ) -> Self {
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
            // Any value from 0 to the weight gives a valid bound. 0 would ignore how slow classes delay rounds,
            // the weight would let slack cost nothing; the subgradient method moves it from a quarter, which
            // was chosen by hand.
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
    pub(super) fn scale(&mut self, factor: f64) {
        self.first.clone_from(&self.prices);
        for price in self.prices.iter_mut().flatten() {
            *price *= factor;
        }
    }

    pub(super) fn unscale(&mut self) {
        self.prices.clone_from(&self.first);
    }

    pub(super) fn forget(&mut self) {
        self.fresh = true;
    }

    /// Price of all time of class g before `t`.
    pub(super) fn before(&self, g: usize, t: f64) -> f64 {
        let place = (t * self.per_interval).max(0.0);
        let k = place as usize;
        match self.prices[g].get(k) {
            Some(price) => self.cumulative[g][k] + (place - k as f64) * self.interval * price,
            None => self.cumulative[g][self.effort.intervals],
        }
    }

    pub(super) fn evaluate(&mut self) -> f64 {
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
    pub(super) fn step(&mut self, rise: f64) -> bool {
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
        // Of merged rounds, what they train from the first to the last, as a part of that time.
        let (end_of_task, seconds) = (a.last_trained(), a.rounds as f64 * (a.trained - a.start));
        let busy = match a.rounds {
            1 => 1.0,
            _ => seconds / (end_of_task - a.start),
        };
        let share = busy * density / problem.classes[g].count as f64;
        let first = (a.start / interval) as usize;
        for (k, fall) in fall[g].iter_mut().enumerate().take(intervals).skip(first) {
            let (begin, end) = (k as f64 * interval, (k + 1) as f64 * interval);
            if begin >= end_of_task {
                break;
            }
            *fall += share * (end_of_task.min(end) - a.start.max(begin)).max(0.0);
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
