use units::corun::{SampleTime, Throughput};

use crate::search::instance::Instance;
use crate::search::point::Point;
use crate::tolerance::TOLERANCE;

/// A problem whose tasks affect each other only through the interference `x_i = sum_j c_ij w_j`
/// ([`Throughput::interference`]), with tables of all its terms.
pub(crate) struct Additive<'a, 'b, C: Throughput + ?Sized> {
    pub inst: &'a Instance<'b, C>,
    /// `c_ij`, row by row.
    pub coupling: Vec<f64>,
    /// Seconds per sample by task, level (from 1) and batch index.
    times: Vec<SampleTime>,
    /// Demand `w`, with the same index.
    demand: Vec<f64>,
    /// Minimum demand over the batch sizes, by task and level.
    least_demand: Vec<f64>,
    /// Largest seconds per sample that the starvation floor allows.
    slowest: Vec<f64>,
}

/// The entries of an [`Additive`] at given levels: a row of cells for each task, one per batch
/// size.
#[derive(Debug, Default)]
pub(crate) struct LevelRows {
    cells: Vec<Cell>,
}

#[derive(Debug, Clone, Copy)]
struct Cell {
    time: SampleTime,
    demand: f64,
}

impl<'a, 'b, C: Throughput + ?Sized> Additive<'a, 'b, C> {
    /// `None` if interference is not additive, or if the objective is not a sum or minimum over
    /// tasks.
    pub fn new(inst: &'a Instance<'b, C>) -> Option<Self> {
        if !inst.folds() {
            // In a round, a task that ends speeds the others up, so its value is not a sum or
            // minimum over tasks.
            return None;
        }
        let coupling = inst.rates.interference()?;
        let n = inst.n;
        let width = inst.width;
        let levels = usize::from(inst.levels);
        let blank = SampleTime::added(f64::INFINITY, 0.0);
        let mut times = vec![blank; n * levels * width];
        let mut demand = vec![0.0; n * levels * width];
        let mut least_demand = vec![0.0; n * levels];
        for (i, list) in inst.batches.iter().enumerate() {
            for level in 1..=inst.levels {
                let share = inst.share(level);
                let at = i * levels + usize::from(level - 1);
                for (b, &batch) in list.iter().enumerate() {
                    times[at * width + b] = inst.rates.sample_time(i, batch, share, n);
                    demand[at * width + b] = inst.rates.demand(i, batch, share, n);
                }
                let row = &demand[at * width..][..list.len()];
                least_demand[at] = row.iter().copied().fold(f64::INFINITY, f64::min);
            }
        }
        let phi = inst.problem.limits.floor;
        // Finite even without a floor, so that a setting with infinite time per sample is never
        // chosen.
        let slowest = inst
            .solo
            .iter()
            .map(|s| ((1.0 + TOLERANCE) / (phi * s)).min(f64::MAX))
            .collect();
        Some(Self {
            inst,
            coupling,
            times,
            demand,
            least_demand,
            slowest,
        })
    }

    fn at(&self, i: usize, level: u16) -> usize {
        i * usize::from(self.inst.levels) + usize::from(level - 1)
    }

    pub fn least_demand(&self, i: usize, level: u16) -> f64 {
        self.least_demand[self.at(i, level)]
    }

    pub fn demand(&self, i: usize, level: u16, b: u8) -> f64 {
        self.demand[self.at(i, level) * self.inst.width + usize::from(b)]
    }

    /// Seconds per sample under interference `x`.
    pub fn seconds(&self, i: usize, level: u16, b: u8, x: f64) -> f64 {
        let t = self.times[self.at(i, level) * self.inst.width + usize::from(b)];
        t.seconds(x)
    }

    /// Gain of task `i` under interference `x`; minus infinity below the floor.
    pub fn gain(&self, i: usize, level: u16, b: u8, x: f64) -> f64 {
        let seconds = self.seconds(i, level, b, x);
        if seconds <= self.slowest[i * self.inst.width + usize::from(b)] {
            self.inst.gain(i, usize::from(b), 1.0 / seconds)
        } else {
            f64::NEG_INFINITY
        }
    }

    /// Maximum gain of task `i` at a level under interference `x`, over its batch sizes.
    pub fn top(&self, i: usize, level: u16, x: f64) -> f64 {
        let gains = (0..self.inst.batches[i].len() as u8).map(|b| self.gain(i, level, b, x));
        gains.fold(f64::NEG_INFINITY, f64::max)
    }

    /// Upper bound on the value at the given levels, where `x` is the minimum interference on each
    /// task.
    pub fn tops_at(&self, levels: &[u16], x: &[f64]) -> f64 {
        let fold = self.inst.fold();
        let tops = levels
            .iter()
            .zip(x)
            .enumerate()
            .map(|(i, (&level, &x))| self.top(i, level, x));
        tops.fold(fold.start(), |all, top| fold.join(all, top))
    }

    /// Writes the minimum interference on each task at the given levels, over the batch sizes of
    /// the others, to `x`.
    pub fn interference(&self, levels: &[u16], x: &mut [f64]) {
        x.fill(0.0);
        let n = self.inst.n;
        for (j, &level) in levels.iter().enumerate() {
            let w = self.least_demand(j, level);
            for (i, x) in x.iter_mut().enumerate() {
                *x += self.coupling[i * n + j] * w;
            }
        }
    }

    /// Copies the entries at the given levels to `rows`, to evaluate many batch sizes at these
    /// levels.
    pub fn at_levels(&self, levels: &[u16], rows: &mut LevelRows) {
        let width = self.inst.width;
        rows.cells.clear();
        for (i, &level) in levels.iter().enumerate() {
            let at = self.at(i, level) * width;
            let times = &self.times[at..at + width];
            let demand = &self.demand[at..at + width];
            for (time, &demand) in times.iter().zip(demand) {
                let time = *time;
                rows.cells.push(Cell { time, demand });
            }
        }
    }

    /// Objective of batch sizes at the levels of `rows`; minus infinity if a task is below the
    /// floor.
    pub fn value(&self, rows: &LevelRows, batch: &[u8]) -> f64 {
        let (n, width) = (self.inst.n, self.inst.width);
        let fold = self.inst.fold();
        let mut value = fold.start();
        for (i, coupling) in self.coupling.chunks_exact(n).enumerate() {
            let mut x = 0.0;
            for ((c, &b), row) in coupling
                .iter()
                .zip(batch)
                .zip(rows.cells.chunks_exact(width))
            {
                x += c * row[usize::from(b)].demand;
            }
            let cell = i * width + usize::from(batch[i]);
            let time = rows.cells[cell].time;
            let seconds = time.seconds(x);
            if seconds > self.slowest[cell] {
                return f64::NEG_INFINITY;
            }
            let gain = self.inst.gain(i, usize::from(batch[i]), 1.0 / seconds);
            value = fold.join(value, gain);
        }
        value
    }

    /// Throughput of every task at a point.
    pub fn rates(&self, batch: &[u8], levels: &[u16], rates: &mut [f64]) {
        let n = self.inst.n;
        for (i, (rate, row)) in rates
            .iter_mut()
            .zip(self.coupling.chunks_exact(n))
            .enumerate()
        {
            let x: f64 = (0..n)
                .map(|j| row[j] * self.demand(j, levels[j], batch[j]))
                .sum();
            *rate = 1.0 / self.seconds(i, levels[i], batch[i], x);
        }
    }

    /// Writes the throughput of every task at a point to `rates` and returns the objective. Returns
    /// minus infinity at the first task below the floor; the rates of later tasks are then not
    /// written. `demand` is a buffer with one entry per task.
    pub fn value_at(&self, point: &Point, demand: &mut [f64], rates: &mut [f64]) -> f64 {
        let (n, width) = (self.inst.n, self.inst.width);
        let fold = self.inst.fold();
        for (j, w) in demand.iter_mut().enumerate() {
            *w = self.demand(j, point.level[j], point.batch[j]);
        }
        let mut value = fold.start();
        for (i, row) in self.coupling.chunks_exact(n).enumerate() {
            let x: f64 = row.iter().zip(&*demand).map(|(c, w)| c * w).sum();
            let b = point.batch[i];
            let seconds = self.seconds(i, point.level[i], b, x);
            if seconds > self.slowest[i * width + usize::from(b)] {
                return f64::NEG_INFINITY;
            }
            rates[i] = 1.0 / seconds;
            value = fold.join(value, self.inst.gain(i, usize::from(b), rates[i]));
        }
        value
    }
}
