//! Choices of a round that a bound excludes, before any order of theirs is tried.

use overlap::{QuickBound, Set};
use units::corun::{Setting, Throughput};

use super::point::Point;
use crate::instance::Instance;
use crate::round::ROUNDING;

/// Rates of all sets of fewer than all tasks that are kept at most. Of 3 tasks of 3 batch sizes at a step of
/// 5 % there are 10,980.
const MOST_CORUNS: usize = 100_000;

/// What every choice of a round of few tasks is bounded by: the rates of all sets of its tasks, worked out once
/// for all choices that have them in common.
pub(crate) struct Excluded<'a, 'b, C: Throughput + ?Sized> {
    inst: &'a Instance<'b, C>,
    bound: QuickBound,
    /// By set: the rates of every choice for its tasks, all tasks' in a row, the first task's setting changing
    /// fastest. Empty of no task and of all.
    rows: Vec<Vec<f64>>,
}

impl<'a, 'b, C: Throughput + ?Sized> Excluded<'a, 'b, C> {
    /// `None` of more tasks than that takes a moment for, and where tasks get the shares of those that do not
    /// compute.
    pub fn new(inst: &'a Instance<'b, C>) -> Option<Self> {
        let round = inst.problem.round.as_ref()?;
        let bound = round.quick_bound().filter(|_| inst.bounds_quickly())?;
        let n = inst.n;
        let cells = |i: usize| inst.batches[i].len() * usize::from(inst.levels);
        let count = |set: usize| members(set, n).map(cells).product::<usize>();
        let sets = 1..(1_usize << n) - 1;
        if sets.clone().map(count).sum::<usize>() > MOST_CORUNS {
            return None;
        }
        let mut rows = vec![Vec::new(); 1 << n];
        for set in sets {
            rows[set] = corun_rates(inst, set, count(set));
        }
        Some(Self { inst, bound, rows })
    }

    /// Whether no round at these batch sizes is worth more than `cutoff`, whatever the shares: no task is
    /// faster beside others or at a smaller share than alone on the whole device, as far as the rates
    /// of all sets but that of all tasks tell.
    pub fn sizes(&self, batch: &[u8], cutoff: f64) -> bool {
        let solo = batch.iter().zip(&self.inst.batches).enumerate();
        let solo: Vec<f64> = solo
            .map(|(i, (&b, sizes))| self.inst.rates.solo(i, sizes[usize::from(b)]))
            .collect();
        let round = self.inst.problem.round.as_ref();
        round.is_some_and(|r| r.at_least(&solo) >= -cutoff * (1.0 + ROUNDING))
    }

    /// Whether no round at a choice is worth more than `cutoff`; `all` are its rates. The value of a round is
    /// minus its seconds, and equally long rounds, told apart by other things, are let through.
    pub fn choice(&self, point: &Point, all: &[f64], cutoff: f64) -> bool {
        let n = self.inst.n;
        let everyone = (1 << n) - 1;
        let row = |set: Set| {
            let set = set as usize;
            if set == everyone {
                return all;
            }
            let mut at = 0;
            for i in (0..n).rev().filter(|i| set >> i & 1 == 1) {
                let levels = usize::from(self.inst.levels);
                let cell = usize::from(point.batch[i]) * levels + usize::from(point.level[i]) - 1;
                at = at * self.inst.batches[i].len() * levels + cell;
            }
            &self.rows[set][at * n..(at + 1) * n]
        };
        cutoff.is_finite() && self.bound.excludes(row, -cutoff * (1.0 + ROUNDING))
    }
}

fn members(set: usize, n: usize) -> impl Iterator<Item = usize> {
    (0..n).filter(move |i| set >> i & 1 == 1)
}

/// The rates of every choice for the tasks of a set.
fn corun_rates<C: Throughput + ?Sized>(
    inst: &Instance<'_, C>,
    set: usize,
    count: usize,
) -> Vec<f64> {
    let tasks: Vec<usize> = members(set, inst.n).collect();
    let levels = usize::from(inst.levels);
    let mut active = Vec::with_capacity(count * tasks.len());
    for code in 0..count {
        let mut rest = code;
        for &task in &tasks {
            let cells = inst.batches[task].len() * levels;
            let cell = rest % cells;
            rest /= cells;
            active.push(Setting {
                task,
                batch: inst.batches[task][cell / levels],
                share: inst.share((cell % levels) as u16 + 1),
            });
        }
    }
    let mut rates = vec![0.0; active.len()];
    inst.rates.means_many(tasks.len(), &active, &mut rates);
    let mut rows = vec![0.0; count * inst.n];
    for (row, rates) in rows
        .chunks_exact_mut(inst.n)
        .zip(rates.chunks_exact(tasks.len()))
    {
        for (&task, rate) in tasks.iter().zip(rates) {
            row[task] = *rate;
        }
    }
    rows
}
