//! Prices of GPU time, and a step of the subgradient method.

use super::equilibrium::Equilibrium;
use crate::Problem;

/// Effort of the search for prices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effort {
    /// Intervals of constant price.
    pub intervals: usize,
    /// Cells of start times in an interval.
    pub cells: usize,
    /// Most groups of neighbouring rounds of a job; the rounds of a group share a window.
    pub blocks: usize,
    /// Steps without progress before steps become half as long.
    pub patience: usize,
    /// Steps of the subgradient method at most; at least 10 are made.
    pub steps: usize,
    /// Most windows (one for each block, class and slack) that all steps together may evaluate.
    pub work: u64,
}

/// The first ten steps gain most: 3,000 jobs on 160 GPUs had a bound of 8.70e6 before any, 9.03e6
/// after 10, and 9.06e6 after 20.
pub(super) const LEAST_STEPS: usize = 10;

impl Effort {
    /// Effort for the number of jobs. Rounding costs about three cells per job, which is much where
    /// urgent jobs end after a few cells. Cells improve the bound more than intervals do, and both
    /// more than blocks, so a longer backlog gets more intervals and fewer blocks.
    ///
    /// More steps and patience changed the bound on the flow cost by less than 0.5 %: for 40 and
    /// 100 jobs on 15 GPUs with two to three times the steps, for 300 jobs with six times the work.
    pub fn for_problem(problem: &Problem) -> Self {
        let (intervals, cells, blocks, patience) = match problem.jobs.len() {
            0..=60 => (192, 3, 32, 12),
            61..=150 => (256, 4, 16, 8),
            _ => (512, 4, 8, 3),
        };
        let (steps, work) = (400, 500_000_000);
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

/// Scratch memory for one job, reused for the next.
#[derive(Default)]
pub(super) struct Desk {
    /// For each class, the least cost of a task by the cell in which it starts. Begins with the
    /// cell of the job's arrival, and is filled as far as needed.
    pub(super) cheapest: Vec<Vec<f64>>,
    pub(super) first_cell: usize,
    /// For each class, the seconds by which a task is slower than the shortest round, divided by
    /// the tasks of a round.
    pub(super) excess: Vec<f64>,
    /// Windows evaluated so far.
    pub(super) work: u64,
}

/// Prices, and the GPU time that all jobs use at these prices.
pub(super) struct Market<'p> {
    pub(super) problem: &'p Problem,
    pub(super) effort: Effort,
    /// Seconds of an interval and of a cell.
    pub(super) interval: f64,
    pub(super) per_interval: f64,
    pub(super) cell: f64,
    pub(super) chain: f64,
    /// Price of a second on each class in each interval; zero after the horizon.
    pub(super) prices: Vec<Vec<f64>>,
    /// Prices before scaling.
    pub(super) first: Vec<Vec<f64>>,
    /// Averaged subgradients.
    pub(super) price_direction: Vec<Vec<f64>>,
    pub(super) fresh: bool,
    /// Price of all time before each edge of the intervals.
    pub(super) cumulative: Vec<Vec<f64>>,
    pub(super) usage: Vec<Vec<f64>>,
    pub(super) desk: Desk,
}

impl<'p> Market<'p> {
    pub(super) fn new(
        problem: &'p Problem,
        equilibrium: &Equilibrium,
        horizon: f64,
        effort: Effort,
    ) -> Self {
        let interval = horizon / effort.intervals as f64;
        let classes = problem.classes.len();
        let middle = |k: usize| (k as f64 + 0.5) * interval;
        let prices = |g| {
            (0..effort.intervals)
                .map(|k| equilibrium.at(g, middle(k)))
                .collect()
        };
        Self {
            problem,
            effort,
            interval,
            per_interval: 1.0 / interval,
            cell: interval / effort.cells as f64,
            chain: problem.chain_bound(),
            prices: (0..classes).map(prices).collect(),
            first: Vec::new(),
            price_direction: vec![vec![0.0; effort.intervals]; classes],
            fresh: true,
            cumulative: vec![vec![0.0; effort.intervals + 1]; classes],
            usage: vec![vec![0.0; effort.intervals]; classes],
            desk: Desk::default(),
        }
    }

    /// Multiplies every price by `factor`; [`Market::unscale`] undoes it.
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

    /// Moves prices along the averaged subgradient until the linearised value has risen by `rise`;
    /// `false` if there is no direction left.
    pub(super) fn step(&mut self, rise: f64) -> bool {
        // Average the old direction with the new subgradient: a single one puts a whole block into
        // one cell.
        let keep = if self.fresh { 0.0 } else { 0.5 };
        self.fresh = false;
        // Steps are divided by the capacity of the class, so that prices of scarce classes move as
        // fast as others.
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
        true
    }
}
