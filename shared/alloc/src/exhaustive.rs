use std::num::NonZero;
use std::thread;

use crate::Throughput;
use crate::chooser::Chooser;
use crate::instance::{Instance, Judged, Point};

/// Co-runs handed to the predictor at a time.
const CHUNK: usize = 256;
/// Fewer points than this are not worth a thread.
const POINTS_PER_THREAD: u64 = 20_000;

/// Combinations of batch sizes within what does not depend on rates: memory, policy, and the
/// mismatch unless its balance is `time`.
pub(crate) fn combinations<C: Throughput + ?Sized>(
    inst: &Instance<'_, C>,
    most: usize,
) -> Option<Vec<Vec<u8>>> {
    let gains = vec![0.0; inst.n * inst.width];
    let loads = inst.load.as_deref().filter(|_| inst.epsilon.is_finite());
    let mut all = Vec::new();
    Chooser::new(inst).visit(inst, &gains, loads, f64::NEG_INFINITY, |_, pick| {
        if all.len() <= most {
            all.push(pick.to_vec());
        }
        // Above any gain, so that the search ends.
        if all.len() > most {
            f64::INFINITY
        } else {
            f64::NEG_INFINITY
        }
    });
    if all.len() > most {
        return None;
    }
    all.sort_unstable();
    Some(all)
}

/// Number of ways to give every task at least one level with one of the allowed sums.
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

/// All levels of `n` tasks with one of the allowed sums, one after another.
pub(crate) fn all_levels<C: Throughput + ?Sized>(inst: &Instance<'_, C>) -> Vec<u16> {
    let mut all = Vec::new();
    let mut levels = vec![1_u16; inst.n];
    for sum in inst.sums() {
        extend_levels(inst, 0, sum, &mut levels, &mut all);
    }
    all
}

fn extend_levels<C: Throughput + ?Sized>(
    inst: &Instance<'_, C>,
    k: usize,
    left: u32,
    levels: &mut Vec<u16>,
    all: &mut Vec<u16>,
) {
    let most = u32::from(inst.levels);
    let rest = (inst.n - 1 - k) as u32;
    let from = left.saturating_sub(rest * most).max(1);
    for level in from..=most.min(left.saturating_sub(rest)) {
        levels[k] = level as u16;
        if k + 1 == inst.n {
            all.extend_from_slice(levels);
        } else {
            extend_levels(inst, k + 1, left - level, levels, all);
        }
    }
}

/// Predicts and judges every combination of the given batch sizes and levels. Each thread makes a
/// collector with `new`, shows it every point of its part with `look`, and the collectors come
/// back in order of the parts, so that the result does not depend on the number of threads as
/// long as the collectors can be merged in any order.
pub(crate) fn sweep<C: Throughput + ?Sized, T: Send>(
    inst: &Instance<'_, C>,
    combinations: &[Vec<u8>],
    levels: &[u16],
    new: impl Fn() -> T + Sync,
    look: impl Fn(&mut T, &Point, &Judged) + Sync,
) -> Vec<T> {
    let shares = levels.len() / inst.n.max(1);
    let points = combinations.len() as u64 * shares as u64;
    let wanted = (points / POINTS_PER_THREAD).max(1);
    let cores = thread::available_parallelism().map_or(1, NonZero::get) as u64;
    let parts = wanted.min(cores) as usize;
    let part = combinations.len().div_ceil(parts).max(1);
    let work = |mine: &[Vec<u8>]| {
        let mut collector = new();
        sweep_part(inst, mine, levels, &mut collector, &look);
        collector
    };
    if parts == 1 {
        return vec![work(combinations)];
    }
    thread::scope(|scope| {
        let handles: Vec<_> = combinations
            .chunks(part)
            .map(|mine| scope.spawn(|| work(mine)))
            .collect();
        handles
            .into_iter()
            .filter_map(|h| match h.join() {
                Ok(collector) => Some(collector),
                Err(panic) => std::panic::resume_unwind(panic),
            })
            .collect()
    })
}

fn sweep_part<C: Throughput + ?Sized, T>(
    inst: &Instance<'_, C>,
    combinations: &[Vec<u8>],
    levels: &[u16],
    collector: &mut T,
    look: &impl Fn(&mut T, &Point, &Judged),
) {
    let n = inst.n;
    let mut active = Vec::with_capacity(CHUNK * n);
    let mut rates = vec![0.0; CHUNK * n];
    let mut point = Point {
        batch: vec![0; n],
        level: vec![1; n],
    };
    for batch in combinations {
        point.batch.clone_from(batch);
        for chunk in levels.chunks(CHUNK * n) {
            active.clear();
            for level in chunk.chunks_exact(n) {
                point.level.copy_from_slice(level);
                inst.fill(&point, &mut active);
            }
            let rates = &mut rates[..chunk.len()];
            inst.rates.means_many(n, &active, rates);
            for (level, rates) in chunk.chunks_exact(n).zip(rates.chunks_exact(n)) {
                point.level.copy_from_slice(level);
                let judged = inst.judge(&point, rates);
                look(collector, &point, &judged);
            }
        }
    }
}
