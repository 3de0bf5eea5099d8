use units::Batch;
use units::search::Budget;

use crate::play::sequence::Player;
use crate::rates::cache::RateCache;
use crate::solve::anytime::{descend, seeds};
use crate::{Instance, Link, OverlapError, Rates};

/// A round in which nothing waits.
#[derive(Debug, Clone, PartialEq)]
pub struct Estimate {
    /// Its makespan in seconds.
    pub makespan_s: f64,
    /// The transfers whose order can be chosen, as [`estimate_along`] takes them.
    pub sequence: Vec<usize>,
}

/// A round without waits, in the best of the heuristic orders and `known`, after a short descent of `plays` rounds.
/// It is an upper bound on the result of [`crate::solve()`], for ranking many plans. It queries only the rates of
/// sets of tasks that occur, and proves nothing.
pub fn estimate(
    instance: &Instance,
    rates: &dyn Rates,
    batches: &[Batch],
    known: &[usize],
    plays: u64,
) -> Result<Estimate, OverlapError> {
    let mut cache = RateCache::few(rates, instance.len(), batches);
    let alone = |i: usize, cache: &mut RateCache<'_>| cache.row(1 << i)[i];
    let compute: Vec<f64> = (0..instance.len())
        .map(|i| instance.jobs()[i].work / alone(i, &mut cache))
        .collect();
    let mut player = Player::new(instance, &mut cache, false);
    let mut best = (f64::INFINITY, Vec::new());
    let mut starts = seeds(&mut player, &compute);
    if instance.link() == Link::Shared {
        // There is nothing to order.
        starts.truncate(1);
    }
    if !known.is_empty() {
        starts.push(known.to_vec());
    }
    for sequence in starts {
        let value = player.value(&sequence);
        if value < best.0 {
            best = (value, sequence);
        }
    }
    let (value, mut sequence) = best;
    let mut budget = Budget::new(plays, None);
    let makespan_s = descend(&mut player, &mut sequence, value, u128::MAX, &mut budget);
    cache.failure()?;
    Ok(Estimate {
        makespan_s,
        sequence,
    })
}

/// Seconds of the round in a sequence from [`estimate`] for the same tasks, perhaps at other settings; infinite once
/// it is certain that they are not below `below_s`. It queries the rates of a fifth of the sets or fewer.
pub fn estimate_along(
    instance: &Instance,
    rates: &dyn Rates,
    batches: &[Batch],
    sequence: &[usize],
    below_s: f64,
) -> Result<f64, OverlapError> {
    let mut cache = RateCache::few(rates, instance.len(), batches);
    let value = Player::new(instance, &mut cache, false).value_below(sequence, below_s);
    cache.failure()?;
    Ok(value)
}
