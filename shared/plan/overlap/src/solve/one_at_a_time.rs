//! Full-duplex rounds in which transfers go one at a time, as on a half-duplex link.
//!
//! They can be shorter for this reason: if a download waits for an upload, its task also computes
//! later. Like a hold of compute, this may speed up the other tasks. But an upload may end at a
//! time when no compute ends, so a search over holds of compute alone misses these rounds. Every
//! half-duplex round is also a valid full-duplex round, so the half-duplex search can be used; its
//! best round need not be the best full-duplex round.

use doc::{Hold, PhaseKind};
use units::search::Budget;

use super::waiting::{UNPRICED_TASKS, held_by};
use super::{Search, best_steps, meets};
use crate::bounds::Floor;
use crate::play::round::{Holds, Order, Transfer, compute_holds, play};
use crate::play::sequence::Player;
use crate::rates::cache::RateCache;
use crate::solve::anytime::{descend, hold_back, mitten, seeds};
use crate::{Instance, Link};

/// Limit on simulated rounds in the descent over sequences of transfers. One sweep of `n` tasks takes about `8 n^2`,
/// so this is several sweeps for 16 tasks (2,048 each).
const ALTERNATING_PLAYS: u64 = 10_000;

/// The same tasks on a half-duplex link.
pub(super) fn one_link(instance: &Instance) -> Option<Instance> {
    Instance::new(instance.jobs().to_vec(), Link::Half).ok()
}

impl Search<'_, '_> {
    /// Tries every sequence of transfers, with every hold of compute that may end before the best round so far. With
    /// more than a few tasks, it first searches without holds: only there can partial rounds be compared, which makes
    /// that search short. The round that it finds saves more time in the search with holds, by pruning, than it
    /// costs.
    pub(super) fn alternate(&mut self, levels: &[u8], floor: &Floor, nodes: &mut Budget) {
        let Some(half) = one_link(self.instance) else {
            return;
        };
        let first = mitten(&half, &floor.compute);
        let few = half.len() <= UNPRICED_TASKS;
        for waits in [false, true].into_iter().skip(usize::from(few)) {
            // The bounds of the half-duplex link include the sum of all transfers, so they are higher than the
            // full-duplex ones. If the best round so far meets them, no round of this kind is shorter: stop.
            if meets(self.best_s, floor, &half) {
                return;
            }
            let candidates = self.candidates(waits);
            let below_s = self.best_s;
            let (_, steps) =
                best_steps(&half, self.rates, floor, candidates, below_s, &first, nodes);
            if !steps.is_empty() {
                let until = held_by(&steps, half.len());
                let transfers: Vec<Transfer> = steps.iter().map(|s| s.transfer).collect();
                self.take_alternating(levels, &transfers, compute_holds(&until));
            }
        }
    }

    /// Descends over sequences of transfers from the best heuristic one, then over holds of compute. For rounds with
    /// too many tasks to try every sequence.
    pub(super) fn alternate_by_descent(&mut self, levels: &[u8]) {
        let Some(half) = one_link(self.instance).filter(|_| self.instance.link() == Link::Full)
        else {
            return;
        };
        self.rates.set_levels(levels);
        let floor = self.floor(&half);
        if meets(self.best_s, &floor, &half) {
            return;
        }
        let limit = ALTERNATING_PLAYS.min(self.options.plays);
        let mut budget = Budget::new(limit, self.deadline);
        let mut player = Player::new(&half, self.rates, self.options.single_order);
        let starts = seeds(&mut player, &floor.compute)
            .into_iter()
            .map(|s| (player.value(&s), s));
        let Some((value, mut sequence)) = starts.min_by(|a, b| a.0.total_cmp(&b.0)) else {
            return;
        };
        let descended = descend(&mut player, &mut sequence, value, u128::MAX, &mut budget);
        let value = hold_back(&mut player, &sequence, descended, &mut budget);
        let order = player.order(&sequence);
        let until = player.holds;
        self.plays += budget.spent();
        if let Order::OneByOne(transfers) = order
            && value < self.best_s
        {
            self.take_alternating(levels, &transfers, compute_holds(&until));
        }
    }

    fn take_alternating(&mut self, levels: &[u8], transfers: &[Transfer], compute: Holds) {
        let (order, holds) = apart(transfers, compute);
        let (value, holds) = needed(self.instance, self.rates, &order, holds);
        self.take_held(value, levels, order, holds);
    }
}

/// The orders of both directions, and the holds that make transfers start one at a time in this sequence: each waits
/// for the previous one. No hold is needed if that one has the same direction (the order implies it) or belongs to
/// the same task (its phases are in order anyway).
fn apart(transfers: &[Transfer], compute: Holds) -> (Order, Holds) {
    let phase = |transfer: &Transfer| match *transfer {
        Transfer::Download(i) => (i, PhaseKind::Download),
        Transfer::Upload(i) => (i, PhaseKind::Upload),
    };
    let mut holds = compute;
    for pair in transfers.windows(2) {
        let ((until, end_of), (task, kind)) = (phase(&pair[0]), phase(&pair[1]));
        if kind != end_of && task != until {
            holds.push(Hold {
                task,
                phase: kind,
                until,
                end_of,
            });
        }
    }
    let sequence = Order::OneByOne(transfers.to_vec());
    let order = Order::PerDirection {
        downloads: sequence.downloads(),
        uploads: sequence.uploads(),
    };
    (order, holds)
}

/// The makespan, and the necessary holds: without any of them the round would end later. Fewer holds are easier to
/// carry out, and removing one may even shorten the round.
pub(super) fn needed(
    instance: &Instance,
    rates: &mut RateCache<'_>,
    order: &Order,
    mut holds: Holds,
) -> (f64, Holds) {
    let mut value = play(instance, rates, order, &holds).makespan_s;
    // Holds of transfers follow those of compute in the list, so going backwards drops them first.
    for at in (0..holds.len()).rev() {
        let hold = holds.remove(at);
        let without = play(instance, rates, order, &holds).makespan_s;
        if without <= value {
            value = without;
        } else {
            holds.insert(at, hold);
        }
    }
    (value, holds)
}
