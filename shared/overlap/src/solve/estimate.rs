use search::Budget;
use units::Batch;

use crate::anytime::{descend, seeds};
use crate::cache::RateCache;
use crate::player::Player;
use crate::{Instance, OverlapError, Rates};

/// Seconds of a round in which nothing waits, from the best of the heuristic orders after a short
/// descent of `plays` rounds: an upper bound on what [`crate::solve()`] finds, for ranking many plans. It
/// asks for the rates of those sets of tasks alone that occur, and proves nothing.
pub fn estimate(
    instance: &Instance,
    rates: &dyn Rates,
    batches: &[Batch],
    plays: u64,
) -> Result<f64, OverlapError> {
    let mut cache = RateCache::at(rates, instance.len(), batches);
    let alone = |i: usize, cache: &mut RateCache<'_>| cache.row(1 << i)[i];
    let compute: Vec<f64> = (0..instance.len())
        .map(|i| instance.jobs()[i].work / alone(i, &mut cache))
        .collect();
    let mut player = Player::new(instance, &mut cache, false);
    let mut best = (f64::INFINITY, Vec::new());
    for sequence in seeds(&mut player, &compute) {
        let value = player.value(&sequence);
        if value < best.0 {
            best = (value, sequence);
        }
    }
    let (value, mut sequence) = best;
    let mut budget = Budget::new(plays, None);
    let value = descend(&mut player, &mut sequence, value, u128::MAX, &mut budget);
    cache.failure()?;
    Ok(value)
}
