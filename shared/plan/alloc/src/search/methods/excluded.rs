//! Excludes choices of a round by a bound, before trying any order.

use std::collections::HashMap;

use overlap::{QuickBound, Set};
use units::Share;
use units::corun::{Setting, Throughput};

use crate::problem::round::ROUNDING;
use crate::search::instance::Instance;
use crate::search::point::Point;

/// Maximum number of co-runs of fewer than all tasks whose rates are kept. For 3 tasks of 3 batch sizes at a
/// step of 5 % there are 10,980; for 4 tasks of one batch size, 34,480. If a device gives idle tasks' shares
/// to the others, the rates of a set also depend on the sum of all shares: there are 223,000 co-runs for 3
/// tasks, half of which differ.
const MOST_CORUNS: usize = 300_000;

/// Excludes choices of a round of few tasks by lower bounds. The rates of each set of tasks are computed once
/// for all choices that share them.
pub(crate) struct Excluded<'a, 'b, C: Throughput + ?Sized> {
    inst: &'a Instance<'b, C>,
    bound: QuickBound,
    divides: bool,
    /// By set of tasks: the rates for every choice of its tasks. A row has an entry for each task of the
    /// problem. The setting of the set's first task changes fastest; slowest, if idle shares are divided,
    /// changes the sum of the other tasks' levels. Empty for the empty set and the set of all tasks.
    rows: Vec<Vec<f64>>,
}

impl<'a, 'b, C: Throughput + ?Sized> Excluded<'a, 'b, C> {
    /// `None` if choices are not bounded this way, or if there are more than [`MOST_CORUNS`] co-runs.
    pub fn new(inst: &'a Instance<'b, C>) -> Option<Self> {
        let round = inst.problem.round.as_ref()?;
        let bound = round.quick_bound().filter(|_| inst.bounds_quickly())?;
        let n = inst.n;
        let mut excluded = Self {
            inst,
            bound,
            divides: round.divides(),
            rows: vec![Vec::new(); 1 << n],
        };
        let sets = 1..(1_usize << n) - 1;
        let count = |set| excluded.choices(set).map_or(usize::MAX, |c| c.count);
        let all = sets.clone().map(count).fold(0, usize::saturating_add);
        if all > MOST_CORUNS {
            return None;
        }
        for set in sets {
            excluded.rows[set] = excluded.corun_rates(set);
        }
        Some(excluded)
    }

    /// Whether no choice of these batch sizes exceeds `cutoff`, at any shares. The bound uses solo rates; it
    /// holds if no task is faster in a co-run or at a smaller share than alone on the whole device.
    pub fn sizes(&self, batch: &[u8], cutoff: f64) -> bool {
        let (inst, problem) = (self.inst, self.inst.problem);
        let point = Point {
            batch: batch.to_vec(),
            level: vec![1; inst.n],
        };
        let settings = inst.settings(&point);
        let least = |places: &[usize], settings: &[Setting]| {
            let solo = settings.iter().map(|s| inst.rates.solo(s.task, s.batch));
            let round = problem.round.as_ref()?.restricted(places)?;
            Some(round.at_least(&solo.collect::<Vec<_>>()))
        };
        let everyone: Vec<usize> = (0..inst.n).collect();
        let least = match problem.is_progress() {
            true => problem.seconds_to_target(&settings, least),
            false => least(&everyone, &settings),
        };
        least.is_some_and(|least| least >= -cutoff * (1.0 + ROUNDING))
    }

    /// Whether no round at a choice has a value above `cutoff`; `all` are the rates of all tasks together. The
    /// value of a round is minus its seconds. Equally long rounds are not excluded, because a tie is decided
    /// by other criteria.
    pub fn choice(&self, point: &Point, all: &[f64], cutoff: f64) -> bool {
        if !cutoff.is_finite() {
            return false;
        }
        let n = self.inst.n;
        let everyone = (1 << n) - 1;
        let row = |set: Set| {
            let set = set as usize;
            if set == everyone {
                return all;
            }
            let mut at = 0;
            if self.divides {
                let outside = (0..n).filter(|i| set >> i & 1 == 0);
                at = outside.map(|i| usize::from(point.level[i]) - 1).sum();
            }
            for i in (0..n).rev().filter(|i| set >> i & 1 == 1) {
                let levels = usize::from(self.inst.levels);
                let cell = usize::from(point.batch[i]) * levels + usize::from(point.level[i]) - 1;
                at = at * self.inst.batches[i].len() * levels + cell;
            }
            &self.rows[set][at * n..(at + 1) * n]
        };
        let most_s = self.inst.most_seconds(point, cutoff * (1.0 + ROUNDING));
        self.bound.excludes(row, most_s)
    }

    /// The choices for the tasks of a set; `None` if their number overflows.
    fn choices(&self, set: usize) -> Option<Choices> {
        let inst = self.inst;
        let levels = usize::from(self.inst.levels);
        let tasks: Vec<usize> = (0..inst.n).filter(|i| set >> i & 1 == 1).collect();
        let mut cells = tasks.iter().map(|&i| inst.batches[i].len() * levels);
        let own = cells.try_fold(1, |all: usize, c| all.checked_mul(c))?;
        let outside = match self.divides {
            true => (inst.n - tasks.len()) * (levels - 1) + 1,
            false => 1,
        };
        let count = own.checked_mul(outside)?;
        Some(Choices { tasks, count })
    }

    /// The rates for every choice of the tasks of a set; each distinct co-run is predicted once.
    fn corun_rates(&self, set: usize) -> Vec<f64> {
        let Some(Choices { tasks, count }) = self.choices(set) else {
            return Vec::new();
        };
        let (n, m) = (self.inst.n, tasks.len());
        let mut active: Vec<Setting> = Vec::with_capacity(count * m);
        let mut known: HashMap<Vec<Setting>, usize> = HashMap::new();
        let mut place = Vec::with_capacity(count);
        for code in 0..count {
            let corun = self.corun(&tasks, code);
            let next = active.len() / m;
            // Choices have co-runs in common only if idle shares are divided.
            let at = match self.divides {
                true => *known.entry(corun.clone()).or_insert(next),
                false => next,
            };
            if at == next {
                active.extend(corun);
            }
            place.push(at);
        }
        let mut rates = vec![0.0; active.len()];
        self.inst.rates.means_many(m, &active, &mut rates);
        let mut rows = vec![0.0; count * n];
        for (row, at) in rows.chunks_exact_mut(n).zip(place) {
            for (&task, rate) in tasks.iter().zip(&rates[at * m..(at + 1) * m]) {
                row[task] = *rate;
            }
        }
        rows
    }

    /// Settings of the tasks of a set at the choice number `code`.
    fn corun(&self, tasks: &[usize], code: usize) -> Vec<Setting> {
        let inst = self.inst;
        let levels = usize::from(self.inst.levels);
        let mut rest = code;
        let mut planned = vec![Share::FULL; inst.n];
        let mut corun = Vec::with_capacity(tasks.len());
        for &task in tasks {
            let cells = inst.batches[task].len() * levels;
            let cell = rest % cells;
            rest /= cells;
            planned[task] = inst.share((cell % levels) as u16 + 1);
            corun.push(Setting {
                task,
                batch: inst.batches[task][cell / levels],
                share: planned[task],
            });
        }
        if self.divides {
            // Only the sum of the other tasks' levels matters, so give it to the first of them as far as it
            // goes.
            for i in (0..inst.n).filter(|i| !tasks.contains(i)) {
                let more = rest.min(levels - 1);
                rest -= more;
                planned[i] = inst.share(more as u16 + 1);
            }
            let computes: Vec<bool> = (0..inst.n).map(|i| tasks.contains(&i)).collect();
            let shares = overlap::divided(&planned, &computes);
            for s in &mut corun {
                s.share = shares[s.task];
            }
        }
        corun
    }
}

/// The tasks of a set, and the number of choices for them.
struct Choices {
    tasks: Vec<usize>,
    count: usize,
}
