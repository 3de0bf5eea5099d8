//! Orders and waits searched together, on a full-duplex link.

use doc::PhaseKind;
use units::search::{Budget, SAME};

use super::Search;
use super::one_at_a_time::needed;
use crate::Link;
use crate::play::held::{HeldPlayer, HeldRound};
use crate::play::round::Order;
use crate::solve::annealing::anneal;

/// With fewer plays no annealing is tried: one annealing takes some 3,000 plays for 8 tasks, and
/// only a few of a hundred starts end at the best round.
const FEWEST_PLAYS: u64 = 50_000;

impl Search<'_, '_> {
    /// Anneals the best round so far, and random ones. The rounds of this search may contain waits
    /// that no class except [`super::Schedules::Any`] covers: compute may wait for the compute of a
    /// task that is downloaded later, or for a transfer.
    pub(super) fn anneal(&mut self, levels: &[u8]) {
        if self.instance.link() != Link::Full || self.options.plays < FEWEST_PLAYS {
            return;
        }
        let Some((_, Order::PerDirection { downloads, .. })) = &self.best else {
            return;
        };
        let mut start = HeldRound::new(downloads.clone());
        for hold in &self.holds {
            let until = Some((hold.until, hold.end_of));
            match hold.phase {
                PhaseKind::Download => start.download_until[hold.task] = until,
                PhaseKind::Compute => start.compute_until[hold.task] = until,
                // Uploads are not held here, so the start is a little different from the best round.
                PhaseKind::Upload => {}
            }
        }
        self.rates.set_levels(levels);
        let enough = self.floor(self.instance).bounds(self.instance).best() * (1.0 + SAME);
        let mut budget = Budget::new(self.options.plays, self.deadline);
        let mut player = HeldPlayer::new(self.instance, self.rates, self.options.single_order);
        let seed = self.options.seed;
        let better = anneal(&mut player, &start, self.best_s, enough, seed, &mut budget);
        let found = better.map(|(_, round)| {
            player.play(&round, f64::INFINITY);
            (player.order(&round), round.holds())
        });
        self.plays += budget.spent();
        self.timed_out |= super::timed_out(&budget);
        if let Some((order, holds)) = found {
            let (value, holds) = needed(self.instance, self.rates, &order, holds);
            self.take_held(value, levels, order, holds);
        }
    }
}
