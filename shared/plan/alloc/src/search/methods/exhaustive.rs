use std::num::NonZero;
use std::thread;

use units::corun::Throughput;

use super::budget::{ENUMERATED, affordable_points, round_points};
use super::combine::{MOST_COMBINATIONS, combinations, no_combination};
use crate::error::AllocError;
use crate::problem::round::PROVEN_TASKS;
use crate::search::answer::{Effort, SearchOptions};
use crate::search::instance::{Instance, Judged};
use crate::search::point::Point;

/// Number of co-runs per call of the predictor.
const CHUNK: usize = 256;
/// Minimum number of points per thread.
const POINTS_PER_THREAD: u64 = 20_000;

/// Number of share vectors: every task has at least one level, and the sum is an allowed one.
pub(crate) fn share_points<C: Throughput + ?Sized>(inst: &Instance<'_, C>) -> u128 {
    let sums = inst.sums();
    let most = sums.last().map_or(0, |&s| s as usize);
    let mut ways = vec![0_u128; most + 1];
    ways[0] = 1;
    for _ in 0..inst.n {
        let mut next = vec![0_u128; most + 1];
        for v in 1..=most {
            let from = v.saturating_sub(usize::from(inst.levels));
            next[v] = ways[from..v]
                .iter()
                .fold(0, |a, &b| u128::saturating_add(a, b));
        }
        ways = next;
    }
    sums.iter()
        .fold(0, |a, &s| a.saturating_add(ways[s as usize]))
}

/// The batch combinations and the number of points, if the effort allows an enumeration and it is
/// small enough.
pub(crate) fn enumerable<C: Throughput + ?Sized>(
    inst: &Instance<'_, C>,
    options: &SearchOptions,
) -> Option<(Vec<Vec<u8>>, u64)> {
    let most = match options.effort {
        Effort::Local => return None,
        Effort::Auto => options.max_points,
        Effort::Exact => u64::MAX,
    };
    let most = if options.effort == Effort::Exact {
        most
    } else if inst.is_round() {
        most.min(round_points(inst))
    } else if inst.rates.interference().is_none() {
        affordable_points(inst.n, ENUMERATED, most)
    } else {
        most
    };
    let shares = share_points(inst);
    let most_combinations = u128::from(most) / shares.max(1);
    let combinations = combinations(inst, usize::try_from(most_combinations).ok()?)?;
    let all_points = shares.checked_mul(combinations.len() as u128)?;
    let points = u64::try_from(all_points).ok()?;
    (points <= most).then_some((combinations, points))
}

/// The reason why an exact search is impossible; `None` if it is possible.
pub(crate) fn refuse_exact<C: Throughput + ?Sized>(inst: &Instance<'_, C>) -> Option<AllocError> {
    if inst.orders_roughly() && inst.n > PROVEN_TASKS {
        return Some(AllocError::NoExactRound {
            tasks: inst.n,
            most: PROVEN_TASKS,
        });
    }
    let bounded = inst.folds() && inst.rates.interference().is_some();
    let exact = SearchOptions {
        effort: Effort::Exact,
        ..SearchOptions::default()
    };
    let none = !bounded && !no_combination(inst) && enumerable(inst, &exact).is_none();
    none.then_some(AllocError::NoExact {
        tasks: inst.n,
        most: MOST_COMBINATIONS,
    })
}

/// Iterates over all level vectors with an allowed sum: by sum, then lexicographically. They are not
/// stored, because there may be `20^n`.
pub(crate) struct LevelWalk {
    sums: std::vec::IntoIter<u32>,
    most: u16,
    levels: Vec<u16>,
    started: bool,
}

impl LevelWalk {
    pub fn new<C: Throughput + ?Sized>(inst: &Instance<'_, C>) -> Self {
        Self {
            sums: inst.sums().into_iter(),
            most: inst.levels,
            levels: vec![1; inst.n],
            started: false,
        }
    }

    /// The next levels, if there are more.
    pub fn advance(&mut self) -> Option<&[u16]> {
        if !(self.started && self.step()) {
            let sum = self.sums.next()?;
            self.least_from(0, sum);
            self.started = true;
        }
        Some(&self.levels)
    }

    /// Moves to the next levels of the same sum: raises the level of the last task for which the tasks
    /// after it can give up a level. Returns `false` if there is none.
    fn step(&mut self) -> bool {
        let n = self.levels.len();
        let mut after = 0;
        for k in (0..n).rev() {
            let others = (n - 1 - k) as u32;
            if others > 0 && self.levels[k] < self.most && after > others {
                self.levels[k] += 1;
                self.least_from(k + 1, after - 1);
                return true;
            }
            after += u32::from(self.levels[k]);
        }
        false
    }

    /// Sets the tasks from `k` on to the lexicographically smallest levels with the sum `left`.
    fn least_from(&mut self, k: usize, mut left: u32) {
        let n = self.levels.len();
        for i in k..n {
            let others = (n - 1 - i) as u32;
            let level = left.saturating_sub(others * u32::from(self.most)).max(1);
            self.levels[i] = level as u16;
            left -= level.min(left);
        }
    }
}

/// All level vectors of a [`LevelWalk`], concatenated; the caller must check that they are not too
/// many.
pub(crate) fn all_levels<C: Throughput + ?Sized>(inst: &Instance<'_, C>) -> Vec<u16> {
    let mut all = Vec::new();
    let mut walk = LevelWalk::new(inst);
    while let Some(levels) = walk.advance() {
        all.extend_from_slice(levels);
    }
    all
}

/// Predicts and judges every combination of the given batch sizes with all levels. Each thread creates
/// a collector with `new` and passes every point of its part to it with `look`. The collectors are
/// returned in order of the parts, so the result does not depend on the number of threads as long as
/// collectors can be merged in any order. A round whose value is below `cutoff`, given its other
/// results, must not change the collector; nor must a point for which `skip` is true, which is not
/// judged at all.
pub(crate) fn sweep<C: Throughput + ?Sized, T: Send>(
    inst: &Instance<'_, C>,
    combinations: &[Vec<u8>],
    new: impl Fn() -> T + Sync,
    cutoff: impl Fn(&T, &Judged) -> f64 + Sync,
    skip: impl Fn(&T, &Point, &[f64]) -> bool + Sync,
    look: impl Fn(&mut T, &Point, &Judged) + Sync,
) -> Vec<T> {
    if combinations.is_empty() {
        return Vec::new();
    }
    let shares = u64::try_from(share_points(inst)).unwrap_or(u64::MAX);
    let points = shares.saturating_mul(combinations.len() as u64);
    let wanted = (points / POINTS_PER_THREAD).max(1);
    let cores = thread::available_parallelism().map_or(1, NonZero::get) as u64;
    let parts = wanted.min(cores) as usize;
    let part = combinations.len().div_ceil(parts).max(1);
    let work = &|mine: &[Vec<u8>]| {
        let mut collector = new();
        sweep_part(inst, mine, &mut collector, &cutoff, &skip, &look);
        collector
    };
    if parts == 1 {
        return vec![work(combinations)];
    }
    thread::scope(|scope| {
        let start = |mine| {
            let handle = thread::Builder::new().spawn_scoped(scope, move || work(mine));
            // If no thread can be created, the current thread processes this part.
            handle.map_err(|_| mine)
        };
        let handles: Vec<_> = combinations.chunks(part).map(start).collect();
        handles
            .into_iter()
            .map(|handle| match handle.map(thread::ScopedJoinHandle::join) {
                Ok(Ok(collector)) => collector,
                Ok(Err(panic)) => std::panic::resume_unwind(panic),
                Err(mine) => work(mine),
            })
            .collect()
    })
}

fn sweep_part<C: Throughput + ?Sized, T>(
    inst: &Instance<'_, C>,
    combinations: &[Vec<u8>],
    collector: &mut T,
    cutoff: &impl Fn(&T, &Judged) -> f64,
    skip: &impl Fn(&T, &Point, &[f64]) -> bool,
    look: &impl Fn(&mut T, &Point, &Judged),
) {
    let n = inst.n;
    let mut active = Vec::with_capacity(CHUNK * n);
    let mut rates = vec![0.0; CHUNK * n];
    let mut chunk: Vec<u16> = Vec::with_capacity(CHUNK * n);
    let mut point = Point {
        batch: vec![0; n],
        level: vec![1; n],
    };
    for batch in combinations {
        point.batch.clone_from(batch);
        let mut walk = LevelWalk::new(inst);
        loop {
            chunk.clear();
            active.clear();
            while chunk.len() < CHUNK * n
                && let Some(levels) = walk.advance()
            {
                chunk.extend_from_slice(levels);
                point.level.copy_from_slice(levels);
                inst.fill(&point, &mut active);
            }
            if chunk.is_empty() {
                break;
            }
            let rates = &mut rates[..chunk.len()];
            inst.rates.means_many(n, &active, rates);
            for (level, rates) in chunk.chunks_exact(n).zip(rates.chunks_exact(n)) {
                point.level.copy_from_slice(level);
                if skip(collector, &point, rates) {
                    continue;
                }
                let judged = inst.judge_above(&point, rates, |j| cutoff(collector, j), None);
                look(collector, &point, &judged);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::law::{InterferenceLaw, TaskLaw};
    use crate::{Limits, Problem, Task};
    use units::{Batch, Share, TotalShare, Weight};

    fn levels(n: usize, step_percent: u32, rv: Option<u32>) -> Vec<u16> {
        let law = InterferenceLaw {
            tasks: vec![
                TaskLaw {
                    step_s: 0.0,
                    sample_s: 1.0,
                    exponent: 1.0
                };
                n
            ],
            coupling: vec![0.0; n * n],
            busy: false,
        };
        let task = Task {
            id: units::TaskId::new("a").unwrap(),
            batches: vec![Batch::new(1).unwrap()],
            samples: None,
            weight: Weight::new(1.0).unwrap(),
            memory: None,
            work_per_sample: None,
            progress: crate::TaskProgress::default(),
        };
        let problem = Problem {
            tasks: vec![task; n],
            objective: doc::ObjectiveKind::Raw,
            limits: Limits {
                step: Share::from_hundredths(step_percent * 100),
                rv: rv.map(|v| TotalShare::from_hundredths(v * 100)),
                ..Limits::default()
            },
            round: None,
        };
        let inst = Instance::new(&law, &problem).unwrap();
        let all = all_levels(&inst);
        assert_eq!(share_points(&inst), (all.len() / n) as u128);
        all
    }

    /// The slow reference implementation counts through all levels like an odometer.
    #[test]
    fn the_walk_passes_every_choice_of_levels_once() {
        for (n, step, rv) in [
            (1, 20, None),
            (3, 25, None),
            (3, 25, Some(150)),
            (4, 50, Some(300)),
        ] {
            let most = 100 / step;
            let mut slow: Vec<Vec<u16>> = (0..u32::pow(most, n as u32))
                .map(|code| {
                    (0..n)
                        .map(|k| (code / u32::pow(most, k as u32) % most + 1) as u16)
                        .collect()
                })
                .filter(|l: &Vec<u16>| {
                    let sum: u32 = l.iter().map(|&v| u32::from(v) * step).sum();
                    rv.is_none_or(|rv| rv == sum)
                })
                .collect();
            slow.sort_by_key(|l| (l.iter().sum::<u16>(), l.clone()));
            assert_eq!(levels(n, step, rv), slow.concat(), "{n} {step} {rv:?}");
        }
    }
}
