//! Best response of one job to given prices: its least cost over all slacks, and the GPU time that it
//! then uses.

use super::market::{Desk, Market};
use crate::TrainingJob;

/// Charges `nu / w` for the delays of slow tasks; all of them are tried for each slack.
const CHARGES: [f64; 4] = [0.0, 0.25, 1.0, 4.0];

/// Rounds that share a window.
#[derive(Clone, Copy)]
struct Block {
    tasks: f64,
    /// The window starts here, and ends at `last` plus slack.
    first: f64,
    last: f64,
}

/// A scan of the starts of a block's tasks on one class.
struct Scan {
    class: usize,
    /// The next cell to look at.
    next: usize,
    /// The last cell of the window with slack 0.
    last: isize,
    /// The least slack, in cells, at which any start fits.
    from: usize,
    /// Least cost so far.
    least: f64,
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

    /// The lower bound on `phi_n`. Books the GPU time that the job uses at its best response.
    ///
    /// Slacks are tried from 0 up to the first that alone costs more than the best so far: an
    /// urgent job needs only a few.
    pub(super) fn job(&mut self, n: usize, desk: &mut Desk) -> f64 {
        let job = &self.problem.jobs[n];
        let cells = self.effort.intervals * self.effort.cells;
        let classes: Vec<usize> = (0..self.prices.len())
            .filter(|&g| job.train[g].is_finite() && self.problem.classes[g].count > 0)
            .collect();
        desk.first_cell = (job.arrival / self.cell) as usize;
        desk.cheapest.resize(self.prices.len(), Vec::new());
        desk.excess.resize(self.prices.len(), 0.0);
        for &g in &classes {
            desk.cheapest[g].clear();
            let excess = (job.train[g] + job.sync[g] - job.shortest_round).max(0.0);
            desk.excess[g] = excess / job.tasks as f64;
        }
        let blocks = self.blocks(job);
        // With this much slack every window extends beyond the horizon, where time is free.
        let last_first = blocks.last().map_or(0.0, |b| b.first);
        let widest = ((cells as f64 * self.cell - last_first.min(job.arrival)).max(0.0) / self.cell)
            as usize
            + 2;
        let each = blocks
            .iter()
            .flat_map(|b| classes.iter().map(move |&g| (b, g)));
        let mut scans: Vec<Scan> = each.map(|(b, g)| self.scan(job, b, g)).collect();
        let mut value = f64::INFINITY;
        let mut slack = 0;
        let mut charge = 0.0;
        for j in 0..widest {
            if job.weight * j as f64 * self.cell >= value {
                break;
            }
            let mut costs = CHARGES.map(|c| self.delay(job, c, j));
            for (block, own) in blocks.iter().zip(scans.chunks_mut(classes.len().max(1))) {
                let mut least = [f64::INFINITY; CHARGES.len()];
                for scan in own {
                    let price = self.least(job, scan, j, desk);
                    for (least, c) in least.iter_mut().zip(CHARGES) {
                        *least = least.min(price + c * job.weight * desk.excess[scan.class]);
                    }
                }
                for (cost, least) in costs.iter_mut().zip(least) {
                    *cost += block.tasks * least;
                }
            }
            desk.work += scans.len() as u64;
            let (mut cost, mut at) = (costs[0], CHARGES[0]);
            for (&other, c) in costs.iter().zip(CHARGES).skip(1) {
                if other > cost {
                    (cost, at) = (other, c);
                }
            }
            if cost < value {
                (value, slack, charge) = (cost, j, at);
            }
        }
        // With more slack than was tried, every task runs after the horizon at best, at no price.
        let beyond = job.weight * widest as f64 * self.cell;
        if beyond < value {
            (value, slack, charge) = (beyond, widest, 0.0);
        }
        for block in &blocks {
            self.use_block(n, block, slack, charge * job.weight, &classes, desk);
        }
        job.weight * job.earliest_completion() + value
    }

    /// Lower bound on `(w - nu) S` for slack j, which stands for any S of at least j and less than
    /// j + 1 cells; `charge` is `nu / w`.
    fn delay(&self, job: &TrainingJob, charge: f64, j: usize) -> f64 {
        // The term does not fall with S for charges up to 1, and falls for larger charges.
        let cells = if charge <= 1.0 { j } else { j + 1 };
        job.weight * (1.0 - charge) * cells as f64 * self.cell
    }

    /// Least cost of a task on class g that starts in cell c. After the last cell every price is zero: one extra cell
    /// represents all that follows.
    fn cost_in_cell(&self, job: &TrainingJob, g: usize, c: usize, desk: &mut Desk) -> f64 {
        if c >= self.effort.intervals * self.effort.cells {
            return 0.0;
        }
        let row = &mut desk.cheapest[g];
        let at = c - desk.first_cell;
        while row.len() <= at {
            let next = desk.first_cell + row.len();
            row.push(self.cheapest_in_cell(g, next, job.train[g]));
        }
        row[at]
    }

    /// Least price of a task of `train` seconds that starts in cell c.
    fn cheapest_in_cell(&self, g: usize, c: usize, train: f64) -> f64 {
        let price = |start: f64| self.before(g, start + train) - self.before(g, start);
        let from = c as f64 * self.cell;
        let to = (c + 1) as f64 * self.cell;
        let edge = ((from + train) / self.interval).ceil() * self.interval - train;
        let mut least = price(from).min(price(to));
        if edge > from && edge < to {
            least = least.min(price(edge));
        }
        least.max(0.0)
    }

    /// First and last cell of a block's starts on class g for slack 0; no start fits if the last is
    /// before the first.
    fn window(&self, job: &TrainingJob, block: &Block, g: usize) -> (usize, isize) {
        let first = (block.first / self.cell) as usize;
        // Slack j stands for less than j + 1 cells.
        let last = block.last + self.cell - job.train[g] - job.sync[g];
        // A start that is late by rounding only still fits.
        let last = ((last + 1e-9 * block.last) / self.cell).floor();
        (first, last as isize)
    }

    fn scan(&self, job: &TrainingJob, block: &Block, g: usize) -> Scan {
        let (first, last) = self.window(job, block, g);
        let behind = self.effort.intervals * self.effort.cells;
        Scan {
            class: g,
            next: first.min(behind),
            last,
            // The least slack at which a start fits. Windows are widened to whole cells, so a start
            // may lie in the first cell even though the exact window begins later in it.
            from: (first as isize - last).max(0) as usize,
            least: f64::INFINITY,
        }
    }

    /// Least cost of a task of the block on the class with slack j; j must not fall from call to
    /// call.
    fn least(&self, job: &TrainingJob, scan: &mut Scan, j: usize, desk: &mut Desk) -> f64 {
        if j < scan.from {
            return f64::INFINITY;
        }
        let behind = self.effort.intervals * self.effort.cells;
        let end = ((scan.last + j as isize).max(0) as usize).min(behind);
        while scan.next <= end {
            let cost = self.cost_in_cell(job, scan.class, scan.next, desk);
            scan.least = scan.least.min(cost);
            scan.next += 1;
        }
        scan.least
    }

    /// Books the GPU time of the block's cheapest choice at this slack.
    fn use_block(
        &mut self,
        n: usize,
        block: &Block,
        slack: usize,
        toll: f64,
        classes: &[usize],
        desk: &mut Desk,
    ) {
        let job = &self.problem.jobs[n];
        let mut best = (f64::INFINITY, 0, 0);
        for &g in classes {
            let (first, last) = self.window(job, block, g);
            let behind = self.effort.intervals * self.effort.cells;
            let end = last + slack as isize;
            if end < first as isize {
                continue;
            }
            desk.work += (end - first as isize) as u64;
            let toll = toll * desk.excess[g];
            for c in first.min(behind)..=(end as usize).min(behind) {
                let value = toll + self.cost_in_cell(job, g, c, desk);
                if value < best.0 {
                    best = (value, g, c);
                }
            }
        }
        let (value, g, c) = best;
        if value.is_infinite() {
            return;
        }
        let start = c as f64 * self.cell;
        self.book(g, start, start + job.train[g], block.tasks);
    }

    fn book(&mut self, g: usize, from: f64, to: f64, tasks: f64) {
        let first = (from / self.interval) as usize;
        for k in first..self.effort.intervals {
            let begin = k as f64 * self.interval;
            let end = (k + 1) as f64 * self.interval;
            if begin >= to {
                break;
            }
            self.usage[g][k] += tasks * (to.min(end) - from.max(begin)).max(0.0);
        }
    }
}
