use units::Share;

use crate::chooser::Chooser;
use crate::instance::{Instance, Point, TOLERANCE};
use crate::{CoRun, SampleTime};

/// A problem whose tasks act on each other only through the interference
/// `x_i = sum_j c_ij R_j` ([`CoRun::interference`]). At given shares every task then gains what
/// it gains at each of its batch sizes whatever the batch sizes of the others are.
pub(crate) struct Additive<'a, 'b, C: CoRun + ?Sized> {
    pub inst: &'a Instance<'b, C>,
    /// `c_ij` for one level of share of `j`, row by row.
    pub coupling: Vec<f64>,
    /// Seconds per sample by task, level (from 1) and batch index.
    times: Vec<SampleTime>,
    /// Largest seconds per sample that the starvation floor allows.
    slowest: Vec<f64>,
    chooser: Chooser,
    gains: Vec<f64>,
    loads: Vec<f64>,
    picks: Vec<u8>,
    tops: Vec<f64>,
}

impl<'a, 'b, C: CoRun + ?Sized> Additive<'a, 'b, C> {
    /// `None` if the rates have no such law.
    pub fn new(inst: &'a Instance<'b, C>) -> Option<Self> {
        let fraction = inst.problem.limits.step.fraction();
        let coupling: Vec<f64> = inst
            .rates
            .interference()?
            .iter()
            .map(|c| c * fraction)
            .collect();
        let (n, width) = (inst.n, inst.width);
        let blank = SampleTime {
            alone: f64::INFINITY,
            interfered: 0.0,
        };
        let mut times = vec![blank; n * usize::from(inst.levels) * width];
        for (i, list) in inst.batches.iter().enumerate() {
            for level in 1..=inst.levels {
                let share: Share = inst.share(level);
                let row = (i * usize::from(inst.levels) + usize::from(level - 1)) * width;
                for (b, &batch) in list.iter().enumerate() {
                    times[row + b] = inst.rates.sample_time(i, batch, share);
                }
            }
        }
        let phi = inst.problem.limits.floor;
        let slowest = inst
            .solo
            .iter()
            .map(|s| (1.0 + TOLERANCE) / (phi * s))
            .collect();
        Some(Self {
            coupling,
            times,
            slowest,
            chooser: Chooser::new(inst),
            gains: vec![f64::NEG_INFINITY; n * width],
            loads: inst.load.clone().unwrap_or_else(|| vec![0.0; n * width]),
            picks: vec![0; n],
            tops: vec![0.0; n],
            inst,
        })
    }

    /// Whether batch sizes can be chosen apart from each other.
    pub fn is_free(&self) -> bool {
        let inst = self.inst;
        !inst.same && inst.epsilon.is_infinite() && inst.capacity.is_infinite()
    }

    /// Interference of every task at the given levels.
    pub fn interference(&self, levels: &[u16], x: &mut [f64]) {
        let n = self.inst.n;
        for (i, x) in x.iter_mut().enumerate() {
            let row = &self.coupling[i * n..(i + 1) * n];
            *x = row.iter().zip(levels).map(|(c, &l)| c * f64::from(l)).sum();
        }
    }

    fn row(&self, i: usize, level: u16) -> &[SampleTime] {
        let at = (i * usize::from(self.inst.levels) + usize::from(level - 1)) * self.inst.width;
        &self.times[at..at + self.inst.batches[i].len()]
    }

    /// Most that task `i` gains at a level under interference `x`, and at which batch index;
    /// minus infinity if the floor allows none.
    pub fn top(&self, i: usize, level: u16, x: f64) -> (f64, u8) {
        let slowest = &self.slowest[i * self.inst.width..];
        let mut best = (f64::NEG_INFINITY, 0);
        for (b, t) in self.row(i, level).iter().enumerate() {
            let seconds = t.alone + t.interfered * x;
            if seconds <= slowest[b] {
                let gain = self.inst.gain(i, b, 1.0 / seconds);
                if gain > best.0 {
                    best = (gain, b as u8);
                }
            }
        }
        best
    }

    /// Objective of the best batch sizes at the given levels if it is above `cutoff`; leaves the
    /// batch sizes in [`Additive::picks`].
    pub fn best_at(&mut self, levels: &[u16], x: &[f64], cutoff: f64) -> Option<f64> {
        let total = self.tops_at(levels, x);
        if total <= cutoff || total == f64::NEG_INFINITY {
            return None;
        }
        if self.is_free() {
            return Some(total);
        }
        self.fill(levels, x);
        let loads = self.inst.epsilon.is_finite().then_some(&self.loads[..]);
        let (value, picks) = self.chooser.best(self.inst, &self.gains, loads, cutoff)?;
        self.picks.copy_from_slice(&picks);
        Some(value)
    }

    /// Offers every point at the given levels that is above the cutoff, which `offer` returns.
    pub fn offer_all(
        &mut self,
        levels: &[u16],
        x: &[f64],
        cutoff: f64,
        mut offer: impl FnMut(f64, &Point) -> f64,
    ) {
        if self.tops_at(levels, x) <= cutoff {
            return;
        }
        self.fill(levels, x);
        let loads = self.inst.epsilon.is_finite().then_some(&self.loads[..]);
        let mut point = Point {
            batch: vec![0; self.inst.n],
            level: levels.to_vec(),
        };
        self.chooser
            .visit(self.inst, &self.gains, loads, cutoff, |value, picks| {
                point.batch.copy_from_slice(picks);
                offer(value, &point)
            });
    }

    /// Batch indices of the last [`Additive::best_at`].
    pub fn picks(&self) -> &[u8] {
        &self.picks
    }

    fn tops_at(&mut self, levels: &[u16], x: &[f64]) -> f64 {
        let fold = self.inst.fold();
        let mut total = fold.start();
        for i in 0..self.inst.n {
            let (gain, b) = self.top(i, levels[i], x[i]);
            self.picks[i] = b;
            self.tops[i] = gain;
            total = fold.join(total, gain);
        }
        total
    }

    /// Gains by task and batch index at the given levels, rows of [`Instance::width`].
    pub fn gains_at(&mut self, levels: &[u16], x: &[f64]) -> &[f64] {
        self.fill(levels, x);
        &self.gains
    }

    /// Tables of gains and loads at the given levels.
    fn fill(&mut self, levels: &[u16], x: &[f64]) {
        let inst = self.inst;
        for i in 0..inst.n {
            for b in 0..inst.batches[i].len() {
                let t = self.row(i, levels[i])[b];
                let seconds = t.alone + t.interfered * x[i];
                let cell = i * inst.width + b;
                self.gains[cell] = if seconds <= self.slowest[cell] {
                    inst.gain(i, b, 1.0 / seconds)
                } else {
                    f64::NEG_INFINITY
                };
                if inst.load.is_none() {
                    self.loads[cell] = 1.0 / seconds;
                }
            }
        }
    }

    /// By how much the constraints are missed at levels where no batch sizes meet them: least
    /// total shortfall from the floor over the combinations within memory and mismatch, or,
    /// where the mismatch itself depends on the shares, shortfall and mismatch at the batch
    /// sizes of least shortfall.
    pub fn violation(&mut self, levels: &[u16], x: &[f64]) -> f64 {
        let inst = self.inst;
        let phi = inst.problem.limits.floor;
        let mut point = Point {
            batch: vec![0; inst.n],
            level: levels.to_vec(),
        };
        let mut rates = vec![0.0; inst.n];
        for i in 0..inst.n {
            let mut least = f64::INFINITY;
            for b in 0..inst.batches[i].len() {
                let t = self.row(i, levels[i])[b];
                let rate = 1.0 / (t.alone + t.interfered * x[i]);
                let cell = i * inst.width + b;
                let short = (phi - rate / inst.solo[cell]).max(0.0);
                self.gains[cell] = -short;
                if short < least {
                    least = short;
                    point.batch[i] = b as u8;
                    rates[i] = rate;
                }
            }
        }
        if inst.load.is_some() {
            let loads = inst.epsilon.is_finite().then_some(&self.loads[..]);
            let best = self
                .chooser
                .best(inst, &self.gains, loads, f64::NEG_INFINITY);
            return best.map_or(f64::INFINITY, |(value, _)| TOLERANCE - value);
        }
        TOLERANCE + inst.judge(&point, &rates).violation
    }
}
