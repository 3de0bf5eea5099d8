//! What was measured with each number of jobs at once and cap, and how far the next step may go.

use std::collections::BTreeMap;

use crate::fit::Worth;
use crate::learnt::{Learnt, Tried};

/// Number of jobs at once of an unknown template. On all GPUs measured, two jobs gained over one (examples/torch/measured,
/// and MISO's mixes on an A100); some trainings on Gavel's lose more than half beside a copy of themselves, and with four
/// the worst of 140 simulated sweeps took 2.0 instead of 1.7 times as long as the best fixed choice.
pub(crate) const START: usize = 2;
/// The same for a template whose jobs report no progress: a number is known only when they have ended, so each step
/// takes long. On all GPUs measured, four gained over two.
pub(crate) const SILENT_START: usize = 4;
/// Up to this many jobs at once, a cap gains nothing.
const UNCAPPED: usize = 2;
/// Beyond [`UNCAPPED`], the cap is `100 (2 / n)^0.7` percent: 62 for four jobs, 38 for eight. On an H200, a cap of 60 %
/// did not change the throughput of four jobs, and one of 30 % gave a quarter more for eight; on an A100 (MISO), 50 %
/// was best or within 3 % for four to seven. NVIDIA's advice, `200 / n`, costs jobs that fill the device by themselves
/// more than it gives to others.
const POWER: f64 = 0.7;
/// The smallest cap, percent: below it, a client has too few multiprocessors for its kernels.
const LEAST_CAP: u32 = 10;
/// More jobs at once must increase throughput by this factor, since each needs memory. The noise of a throughput is
/// about as large.
const LEAST_GAIN: f64 = 1.01;
/// Standard deviation of the logarithm of numbers whose residuals count for each other, of a measured residual, and of
/// residuals in general.
const NEAR: f64 = 0.18;
const NOISE: f64 = 0.04;
const FAR: f64 = 0.2;
/// Standard error of the logarithm of a rate that an earlier sweep measured.
const AGAIN: f64 = 0.1;
/// Another measured number replaces the chosen one if it gave more by this factor.
const LEAST_LOSS: f64 = 1.05;
/// Seconds of measurement per job until a number counts as measured.
const ENOUGH: f64 = 2.5;

/// Number at once and cap in percent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Aim {
    pub(crate) number: usize,
    pub(crate) cap: u32,
}

impl Aim {
    /// A number with its first cap.
    pub(crate) fn of(number: usize) -> Self {
        let cap = match number {
            0..=UNCAPPED => 100,
            more => {
                let cap = 100.0 * (UNCAPPED as f64 / more as f64).powf(POWER);
                (cap.round() as u32).clamp(LEAST_CAP, 100)
            }
        };
        Self { number, cap }
    }

    /// What was best for a mix.
    pub(crate) fn learnt(learnt: &Learnt) -> Self {
        let first = Self::of(learnt.level);
        Self {
            cap: learnt.cap.unwrap_or(first.cap),
            ..first
        }
    }
}

/// Measurements by number of jobs and cap in percent (0: different caps).
pub(crate) type Table = BTreeMap<(usize, u32), Worth>;

/// Whether a number was measured for long enough.
pub(crate) fn is_known(number: usize, worth: &Worth) -> bool {
    worth.seconds >= ENOUGH * number as f64
}

/// For each measured number, the logarithm of the throughput under its best cap, and that cap.
fn totals(table: &Table) -> BTreeMap<usize, (f64, u32)> {
    let mut all: BTreeMap<usize, (f64, u32)> = BTreeMap::new();
    for (&(number, cap), worth) in table {
        if !is_known(number, worth) {
            continue;
        }
        let total = worth.log + (number as f64).ln();
        let best = all.entry(number).or_insert((total, cap));
        if total > best.0 {
            *best = (total, cap);
        }
    }
    all
}

/// The best measured number: the smallest one whose throughput is about as high as that of any other.
pub(crate) fn best(table: &Table) -> Option<usize> {
    let all = totals(table);
    let most = all
        .values()
        .map(|(t, _)| *t)
        .fold(f64::NEG_INFINITY, f64::max);
    let good = |(_, (total, _)): &(&usize, &(f64, u32))| *total >= most - LEAST_GAIN.ln();
    all.iter().find(good).map(|(number, _)| *number)
}

/// The largest measured number.
pub(crate) fn largest(table: &Table) -> Option<usize> {
    totals(table).keys().next_back().copied()
}

/// The largest number to run next: at most half as many again as were measured, since jobs that are too many cannot be
/// taken back, and no more than were measured if fewer were better. `silent`: the jobs report no progress.
pub(crate) fn step(table: &Table, silent: bool) -> usize {
    let largest = largest(table).unwrap_or(1);
    if best(table).is_some_and(|best| best < largest) {
        return largest;
    }
    let start = match silent {
        true => SILENT_START,
        false => START,
    };
    (largest + largest.div_ceil(2)).max(start)
}

/// Adds what an earlier sweep measured, where a table has nothing. The logarithms of a table are relative to each other,
/// so those of the earlier sweep are moved to agree at the number that is nearest to a measured one.
pub(crate) fn recall(table: &mut Table, earlier: &[Tried]) {
    let log = |tried: &Tried| (tried.gives / tried.at_once as f64).ln();
    let all = totals(table);
    let pairs = all
        .iter()
        .flat_map(|now| earlier.iter().map(move |then| (now, then)));
    let nearest = pairs.min_by_key(|((number, _), then)| number.abs_diff(then.at_once));
    let moved = nearest.map_or(0.0, |((number, (total, _)), then)| {
        total - (*number as f64).ln() - log(then)
    });
    for tried in earlier
        .iter()
        .filter(|tried| !all.contains_key(&tried.at_once))
    {
        let worth = Worth {
            log: log(tried) + moved,
            jobs: tried.jobs,
            seconds: tried.seconds,
            doubt: AGAIN,
        };
        table.insert((tried.at_once, tried.cap), worth);
    }
}

/// Whether a measured number gave clearly less than another.
pub(crate) fn is_worse(table: &Table, number: usize, than: usize) -> bool {
    let all = totals(table);
    let both = all.get(&number).zip(all.get(&than));
    both.is_some_and(|((here, _), (there, _))| there - here > LEAST_LOSS.ln())
}

/// A number between the best measured one and a measured neighbour of it.
pub(crate) fn between(table: &Table) -> Option<usize> {
    let (all, best) = (totals(table), best(table)?);
    let below = all.range(..best).next_back().map(|(number, _)| *number);
    let above = all.range(best + 1..).next().map(|(number, _)| *number);
    let gap = |other: &usize| other.abs_diff(best) > 1;
    let other = below.filter(gap).or(above.filter(gap))?;
    Some(usize::midpoint(other, best))
}

/// How far the measured rates of a mix are from those that the model of [`crate::model`] expects, by number.
#[derive(Debug, Clone, Default)]
pub(crate) struct Residuals(Vec<(f64, f64, f64)>);

impl Residuals {
    /// Expected residual of a logarithm of a rate with this number at once, relative to their mean: that of the nearest
    /// measured numbers, as far as they are certain. Beyond the measured numbers, that of the last one.
    pub(crate) fn at(&self, number: f64) -> f64 {
        let (Some(first), Some(last)) = (self.0.first(), self.0.last()) else {
            return 0.0;
        };
        let number = number.ln().clamp(first.0, last.0);
        let mean = |near: &dyn Fn(f64) -> f64, prior: f64, from: f64| {
            let of = self
                .0
                .iter()
                .map(|(at, value, weight)| (near(*at) * weight, value - from));
            let (sum, weights) = of.fold((0.0, prior), |(sum, all), (weight, value)| {
                (sum + weight * value, all + weight)
            });
            sum / weights
        };
        let usual = mean(&|_| 1.0, 0.0, 0.0);
        let near = |at: f64| (-0.5 * ((at - number) / NEAR).powi(2)).exp();
        mean(&near, 1.0 / (FAR * FAR), usual)
    }
}

/// The residuals of a table; `expected`: logarithm of the rate of a job with a number at once under a cap.
pub(crate) fn residuals(table: &Table, expected: impl Fn(usize, u32) -> f64) -> Residuals {
    let known = table
        .iter()
        .filter(|((number, _), worth)| is_known(*number, worth));
    let of = known.map(|(&(number, cap), worth)| {
        // Jobs with different caps have about the first one in the mean.
        let cap = if cap == 0 { Aim::of(number).cap } else { cap };
        let weight = 1.0 / (worth.doubt.powi(2) + NOISE * NOISE);
        (
            (number as f64).ln(),
            worth.log - expected(number, cap),
            weight,
        )
    });
    Residuals(of.collect())
}

/// Logarithm of a job's rate with a measured number at once.
pub(crate) fn worth(table: &Table, number: usize) -> Option<f64> {
    let total = totals(table).get(&number)?.0;
    Some(total - (number as f64).ln())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table of totals by number.
    fn table(totals: &[(usize, f64)]) -> Table {
        let worth = |&(number, total): &(usize, f64)| {
            let worth = Worth {
                log: (total / number as f64).ln(),
                jobs: number,
                seconds: 100.0,
                doubt: 0.02,
            };
            ((number, Aim::of(number).cap), worth)
        };
        totals.iter().map(worth).collect()
    }

    #[test]
    fn steps_end_where_fewer_were_better() {
        assert_eq!(step(&Table::new(), false), START);
        assert_eq!(step(&Table::new(), true), SILENT_START);
        assert_eq!(step(&table(&[(2, 2.0), (4, 3.5)]), false), 6);
        assert_eq!(step(&table(&[(2, 2.0), (4, 1.5)]), false), 4);
    }

    #[test]
    fn numbers_between_measured_ones_are_named() {
        assert_eq!(between(&table(&[(3, 3.0), (5, 3.1), (8, 2.0)])), Some(4));
        assert_eq!(between(&table(&[(4, 4.0), (5, 3.1), (8, 2.0)])), None);
        assert_eq!(between(&table(&[(2, 2.0), (6, 1.0)])), Some(4));
    }

    /// Four jobs fit and more harm each other, while the model expects that throughput hardly depends on the number.
    #[test]
    fn measurements_correct_what_is_expected() {
        let table = table(&[(2, 2.0), (4, 4.0), (6, 2.9), (8, 2.2)]);
        let expected = |number: usize, _| -(number as f64).ln();
        let residuals = residuals(&table, expected);
        let total = |number: f64| residuals.at(number);
        assert!(total(4.0) > total(2.0) + 0.2 && total(4.0) > total(7.0) + 0.2);
        assert!((total(20.0) - total(8.0)).abs() < 1e-9);
        assert!(Residuals::default().at(3.0).abs() < 1e-9);
    }

    #[test]
    fn what_an_earlier_sweep_measured_agrees_at_the_nearest_number() {
        let tried = |at_once, gives| Tried {
            at_once,
            cap: Aim::of(at_once).cap,
            gives,
            jobs: 4,
            seconds: 100.0,
        };
        // The same device, but all logarithms relative to another rate.
        let mut now = table(&[(2, 4.0)]);
        recall(&mut now, &[tried(2, 2.0), tried(4, 3.0)]);
        let total = totals(&now)[&4].0.exp();
        assert!((total - 6.0).abs() < 1e-9, "{total}");
        let mut none = Table::new();
        recall(&mut none, &[tried(2, 2.0)]);
        assert_eq!(largest(&none), Some(2));
    }
}
