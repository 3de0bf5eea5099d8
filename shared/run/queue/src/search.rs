//! Chooses the number of jobs at once and the cap to run next, from the measurements so far.

use std::collections::BTreeMap;

use crate::fit::Worth;

/// Number of jobs at once of an unknown template. On all GPUs measured, two jobs gained over one, and four over two
/// (examples/torch/measured, and MISO's mixes on an A100). Too large a number costs a few percent until the first jobs
/// are replaced, while every step up from one costs a start-up.
pub(crate) const START: usize = 4;
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
/// Another cap must increase throughput by this factor.
const LEAST_CAP_GAIN: f64 = 1.02;
/// And by this many standard errors: no job runs under two caps, so different jobs are compared. With jobs whose sizes
/// differ by 30 %, six jobs under another cap seemed 16 % faster but were 20 % slower.
const SURE_CAP: f64 = 1.64;
/// If a larger number loses no more than this factor, a number in between may gain.
const NEAR: f64 = 1.15;
/// If throughput grew at least as this power of the number, a larger number is tried even for the last jobs.
const SURE: f64 = 0.6;
/// If throughput grew less than this power of the number, more jobs at once gained almost nothing, and the search
/// halves the number.
const FEW: f64 = 0.2;
/// The last jobs of a sweep may run together if that costs at most this factor of throughput.
const FLAT: f64 = 1.05;
/// Caps that are tried at the best number, relative to its first cap. The higher one comes first: too low a cap costs a
/// job that fills the device more than too high a cap costs its neighbours.
const FACTORS: [f64; 2] = [1.7, 0.6];
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

/// Logarithm of a job's rate with a measured number at once.
pub(crate) fn worth(table: &Table, number: usize) -> Option<f64> {
    let total = totals(table).get(&number)?.0;
    Some(total - (number as f64).ln())
}

/// Number and cap to run next, and whether they are still a trial. `now`: current number and cap; `left`: waiting jobs;
/// `most`: largest number.
pub(crate) fn next(table: &Table, now: Aim, left: usize, most: usize) -> (Aim, bool) {
    let all = totals(table);
    let Some(best) = best(table) else {
        return (now, true);
    };
    if let Some(number) = last(&all, best, left, most) {
        return (Aim::of(number), false);
    }
    if let Some(number) = untried(&all, best, now, left, most) {
        let aim = if number == now.number {
            now
        } else {
            Aim::of(number)
        };
        return (aim, true);
    }
    next_cap(table, best, left)
}

/// The number with which all of the last jobs run at once, if that costs little throughput. If they waited for a
/// running job to end, they would later run with few jobs beside them.
fn last(all: &BTreeMap<usize, (f64, u32)>, best: usize, left: usize, most: usize) -> Option<usize> {
    let number = best + left;
    if left == 0 || left > best.div_ceil(2) || number > most {
        return None;
    }
    let (_, (above, _)) = all.range(number..).next()?;
    let (here, _) = all.get(&best)?;
    (*above >= here - FLAT.ln()).then_some(number)
}

/// A number that may be better than the best measured one.
fn untried(
    all: &BTreeMap<usize, (f64, u32)>,
    best: usize,
    now: Aim,
    left: usize,
    most: usize,
) -> Option<usize> {
    let total = |number: usize| all.get(&number).map(|(total, _)| *total);
    let above = all.range(best + 1..).next().map(|(number, _)| *number);
    let below = all.range(..best).next_back().map(|(number, _)| *number);
    // `best` is the smallest number known. One job less is measured whenever a job is replaced, so only larger steps
    // need a trial.
    if below.is_none() && best > 1 {
        let more_is_flat = above.is_some_and(|above| gains(all, above) < FEW);
        let step = if more_is_flat {
            best.div_ceil(2)
        } else {
            best / 3
        };
        return Some(best - step.max(1));
    }
    if let Some(below) = below.filter(|below| best - below > 1 && above.is_some()) {
        return Some(usize::midpoint(below, best));
    }
    let number = match above {
        None => best + best.div_ceil(2),
        // A number in between may gain if the larger one is hardly worse, or if throughput still grew up to the best.
        Some(above)
            if above - best > 1
                && (total(above)? > total(best)? - NEAR.ln() || gains(all, best) >= SURE) =>
        {
            usize::midpoint(best, above)
        }
        Some(_) => return None,
    };
    // No larger number than there are jobs for.
    let number = number.min(best + left).min(most);
    if number <= best {
        return None;
    }
    if number == now.number {
        return Some(number);
    }
    // A larger number needs waiting jobs to fill it, and the same number again to benefit from the result; unless all
    // measurements predict a gain, or there is none but of one job: the first job of a template runs alone until its
    // memory is known, which is no reason for a second one to wait for its end.
    let gains = above.is_none() && (best == 1 || gains(all, best) >= SURE);
    let waits = left >= 2 * (number - best) || gains;
    (number > best && waits).then_some(number)
}

/// Exponent with which throughput grows with the number of jobs around `number`: 1 if twice the jobs give twice the
/// throughput, 0 if they give the same.
fn gains(all: &BTreeMap<usize, (f64, u32)>, number: usize) -> f64 {
    let below = all.range(..number).next_back();
    let here = all.get(&number);
    here.zip(below)
        .map_or(0.0, |((here, _), (at, (below, _)))| {
            (here - below) / (number as f64 / *at as f64).ln()
        })
}

/// The best measured cap at the best number, or a cap that was not tried there yet.
fn next_cap(table: &Table, number: usize, left: usize) -> (Aim, bool) {
    let first = Aim::of(number);
    let known = |cap: u32| {
        let worth = table.get(&(number, cap))?;
        is_known(number, worth).then_some((worth.log, worth.doubt))
    };
    if number <= UNCAPPED {
        return (first, false);
    }
    let Some(base) = known(first.cap) else {
        return (first, left > 0);
    };
    let is_better = |new: (f64, f64), old: (f64, f64)| {
        new.0 - old.0 > LEAST_CAP_GAIN.ln().max(SURE_CAP * new.1.hypot(old.1))
    };
    let mut best = (first, base);
    for factor in FACTORS {
        let cap = (f64::from(first.cap) * factor).round() as u32;
        let cap = cap.clamp(LEAST_CAP, 100);
        if cap == first.cap {
            continue;
        }
        let aim = Aim { number, cap };
        match known(cap) {
            // One generation of jobs measures the cap, and another one or two must benefit from it.
            None if left >= 3 * number => return (aim, true),
            Some(seen) if is_better(seen, best.1) => best = (aim, seen),
            _ => {}
        }
    }
    (best.0, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates a device whose throughput with `n` jobs is `total(n)`; returns the numbers tried and the result.
    fn play(total: impl Fn(usize) -> f64, left: usize) -> (Vec<usize>, Aim) {
        let (mut table, mut aim, mut tried) = (Table::new(), Aim::of(START), Vec::new());
        for _ in 0..30 {
            for number in [aim.number, aim.number - 1] {
                if number > 0 {
                    let worth = Worth {
                        log: (total(number) / number as f64).ln(),
                        jobs: number,
                        seconds: 100.0,
                        doubt: 0.0,
                    };
                    table.insert((number, Aim::of(number).cap), worth);
                }
            }
            tried.push(aim.number);
            let (next, trial) = next(&table, aim, left, 48);
            if !trial || next == aim {
                return (tried, next);
            }
            aim = next;
        }
        panic!("no end: {tried:?}");
    }

    #[test]
    fn the_best_number_is_found_below_and_above_the_first() {
        for (free, toll) in [(1.0, 0.1), (2.0, 0.3), (4.0, 0.2), (6.0, 0.5), (9.0, 0.3)] {
            let total = |n: usize| {
                let n = n as f64;
                n.min(free) / (1.0 + toll * (n - free).max(0.0))
            };
            let (tried, aim) = play(total, 60);
            assert_eq!(aim.number as f64, free, "{tried:?}");
        }
    }

    #[test]
    fn few_jobs_are_not_worth_a_larger_number() {
        assert_eq!(play(|n| n as f64, 0).1.number, START);
        assert_eq!(play(|n| (n as f64).sqrt(), 2).1.number, START);
        assert!(play(|n| n as f64, 100).1.number > 20);
    }
}
