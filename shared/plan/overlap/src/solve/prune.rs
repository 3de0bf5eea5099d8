use units::Batch;
use units::search::Budget;

use super::one_at_a_time::one_link;
use super::{best_steps, meets};
use crate::bounds::Floor;
use crate::play::branch::Candidates;
use crate::rates::cache::RateCache;
use crate::solve::anytime::mitten;
use crate::{Instance, Link, OverlapError, Rates};

/// Whether a round may end before `below_s`, in any order and with any holds that [`crate::solve()`] considers. It
/// takes a tenth of the time of solving, for ranking many plans of which most are worse than a known one. `false` is
/// proven; `true` may be wrong if `nodes` run out or transfers share the link.
pub fn may_end_before(
    instance: &Instance,
    rates: &dyn Rates,
    batches: &[Batch],
    below_s: f64,
    nodes: u64,
) -> Result<bool, OverlapError> {
    let mut cache = RateCache::at(rates, instance.len(), batches);
    let floor = Floor::without_workload(instance, &mut cache);
    let may = if floor.bounds(instance).assumes_falling_rates || instance.link() == Link::Shared {
        true
    } else {
        shorter(instance, &mut cache, &floor, below_s, nodes)
    };
    cache.failure()?;
    Ok(may)
}

/// Whether the search finds a round that ends before `below_s`, or runs out of nodes. It does not
/// use the bound of the processor, a linear program that takes longer than trying all orders of few
/// tasks.
fn shorter(
    instance: &Instance,
    cache: &mut RateCache<'_>,
    floor: &Floor,
    below_s: f64,
    nodes: u64,
) -> bool {
    if meets(below_s, floor, instance) {
        return false;
    }
    // If rates do not depend on co-runners, holding something back never helps.
    let waits = !(cache.source_independent() || cache.is_independent());
    let first = mitten(instance, &floor.compute);
    let mut nodes = Budget::new(nodes, None);
    let candidates = Candidates {
        single_order: false,
        waits,
    };
    // The search keeps only rounds below `below_s`, so nearly everything is pruned. If it runs out of nodes, nothing
    // is shown, and the round may be shorter.
    let mut may = |instance: &Instance| {
        let (_, steps) = best_steps(
            instance, cache, floor, candidates, below_s, &first, &mut nodes,
        );
        !steps.is_empty() || nodes.exhausted()
    };
    let half = one_link(instance)
        .filter(|half| waits && instance.link() == Link::Full && !meets(below_s, floor, half));
    may(instance) || half.is_some_and(|half| may(&half))
}
