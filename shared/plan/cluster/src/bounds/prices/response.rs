//! Best response of one job to given prices: its least cost over all slacks, and the GPU time that it
//! then uses.

use super::market::{Desk, Market};
use crate::TrainingJob;

/// Rounds that share a window.
#[derive(Clone, Copy)]
struct Block {
    tasks: f64,
    /// The window starts here, and ends at `last` plus slack.
    first: f64,
    last: f64,
}

impl Market<'_> {
    fn blocks(&self, job: &TrainingJob) -> Vec<Block> {
        let count = job.rounds.min(self.effort.blocks);
        let edge = |b: usize| b * job.rounds / count;
        (0..count)
            .map(|b| Block {
                tasks: ((edge(b + 1) - edge(b)) * job.tasks) as f64,
                first: job.arrival + edge(b) as f64 * job.shortest_round,
                last: job.arrival + edge(b + 1) as f64 * job.shortest_round,
            })
            .collect()
    }

    /// Cost for a task on class g of being slower than the shortest round.
    fn surcharge(&self, n: usize, g: usize) -> f64 {
        let job = &self.problem.jobs[n];
        let excess = (job.train[g] + job.sync[g] - job.shortest_round).max(0.0);
        self.multipliers[n] * excess / job.tasks as f64
    }

    /// `phi_n`, and what it uses.
    pub(super) fn job(&mut self, n: usize, desk: &mut Desk) -> f64 {
        let job = &self.problem.jobs[n];
        let classes: Vec<usize> = (0..self.prices.len())
            .filter(|&g| job.train[g].is_finite() && self.problem.classes[g].count > 0)
            .collect();
        let cells = self.effort.intervals * self.effort.cells;
        // After the last cell every price is zero: one extra cell represents all that follows.
        desk.cheapest.resize(self.prices.len(), Vec::new());
        let first_cell = (job.arrival / self.cell) as usize;
        for &g in &classes {
            let toll = self.surcharge(n, g);
            let row = &mut desk.cheapest[g];
            row.clear();
            row.resize(cells + 1, toll);
            for (c, value) in row.iter_mut().enumerate().take(cells).skip(first_cell) {
                *value = toll + self.cheapest_in_cell(g, c, job.train[g]);
            }
        }
        let blocks = self.blocks(job);
        // With this much slack every window reaches behind the horizon, where time is free.
        let last_first = blocks.last().map_or(0.0, |b| b.first);
        let widest = ((cells as f64 * self.cell - last_first.min(job.arrival)).max(0.0) / self.cell)
            as usize
            + 2;
        desk.cost.clear();
        desk.cost.resize(widest, 0.0);
        for block in &blocks {
            desk.block.clear();
            desk.block.resize(widest, f64::INFINITY);
            for &g in &classes {
                self.cheapest_by_slack(job, block, g, &desk.cheapest[g], &mut desk.block);
            }
            for (sum, least) in desk.cost.iter_mut().zip(&desk.block) {
                *sum += block.tasks * least;
            }
        }
        let rate = job.weight - self.multipliers[n];
        let of = |j: usize| rate * j as f64 * self.cell + desk.cost[j];
        let mut slack = 0;
        for j in 1..widest {
            if of(j) < of(slack) {
                slack = j;
            }
        }
        let mut value = of(slack);
        // More slack than looked at: at best every task runs behind the horizon, at no price.
        let tolls = classes.iter().map(|&g| self.surcharge(n, g));
        let toll = tolls.fold(f64::INFINITY, f64::min);
        let beyond = rate * widest as f64 * self.cell + toll * job.volume() as f64;
        if beyond < value {
            value = beyond;
            slack = widest;
        }
        let value = job.weight * job.earliest_completion() + value;
        self.slack_excess[n] = -(slack as f64 * self.cell);
        for block in &blocks {
            self.use_block(n, block, slack, &classes, &desk.cheapest);
        }
        value
    }

    /// Least price of a task of `train` seconds that starts in cell c.
    fn cheapest_in_cell(&self, g: usize, c: usize, train: f64) -> f64 {
        let price = |start: f64| self.before(g, start + train) - self.before(g, start);
        let (from, to) = (c as f64 * self.cell, (c + 1) as f64 * self.cell);
        let edge = ((from + train) / self.interval).ceil() * self.interval - train;
        let mut least = price(from).min(price(to));
        if edge > from && edge < to {
            least = least.min(price(edge));
        }
        least.max(0.0)
    }

    /// First and last cell of a block's starts on class g for slack 0, and whether any start fits.
    fn window(&self, job: &TrainingJob, block: &Block, g: usize) -> (usize, isize) {
        let first = (block.first / self.cell) as usize;
        // Slack j stands for less than j + 1 cells.
        let last = block.last + self.cell - job.train[g] - job.sync[g];
        // A start that is late by rounding only still fits.
        let last = ((last + 1e-9 * block.last) / self.cell).floor();
        (first, last as isize)
    }

    /// Lowers `out[j]` to the least cost of a task of the block on class g with slack j.
    fn cheapest_by_slack(
        &self,
        job: &TrainingJob,
        block: &Block,
        g: usize,
        cost: &[f64],
        out: &mut [f64],
    ) {
        let (first, last) = self.window(job, block, g);
        // The slack from which on a start fits at all. Cells of the window are whole, so that a
        // start may lie in the first cell though the window begins later in it.
        let from = (first as isize - last).max(0) as usize;
        let behind = cost.len() - 1;
        let mut least = f64::INFINITY;
        let mut seen = first.min(behind);
        for (j, out) in out.iter_mut().enumerate().skip(from) {
            let end = ((last + j as isize).max(0) as usize).min(behind);
            while seen <= end {
                least = least.min(cost[seen]);
                seen += 1;
            }
            if first > behind {
                least = cost[behind];
            }
            *out = out.min(least);
        }
    }

    /// Books the class time and the slow tasks of the block's cheapest choice at slack j.
    fn use_block(
        &mut self,
        n: usize,
        block: &Block,
        slack: usize,
        classes: &[usize],
        cost: &[Vec<f64>],
    ) {
        let job = &self.problem.jobs[n];
        let mut best = (f64::INFINITY, 0, 0);
        for &g in classes {
            let (first, last) = self.window(job, block, g);
            let behind = cost[g].len() - 1;
            let end = last + slack as isize;
            if end < first as isize {
                continue;
            }
            let end = (end as usize).min(behind);
            for (c, &value) in cost[g]
                .iter()
                .enumerate()
                .take(end + 1)
                .skip(first.min(behind))
            {
                if value < best.0 {
                    best = (value, g, c);
                }
            }
        }
        let (value, g, c) = best;
        if value.is_infinite() {
            return;
        }
        let excess = (job.train[g] + job.sync[g] - job.shortest_round).max(0.0);
        self.slack_excess[n] += block.tasks / job.tasks as f64 * excess;
        let start = c as f64 * self.cell;
        self.book(g, start, start + job.train[g], block.tasks);
    }

    fn book(&mut self, g: usize, from: f64, to: f64, tasks: f64) {
        let first = (from / self.interval) as usize;
        for k in first..self.effort.intervals {
            let (begin, end) = (k as f64 * self.interval, (k + 1) as f64 * self.interval);
            if begin >= to {
                break;
            }
            self.usage[g][k] += tasks * (to.min(end) - from.max(begin)).max(0.0);
        }
    }
}
