use units::search::{Budget, SAME};

use super::{ALL_COMBINATIONS, EXACT_TASKS, SMALL_TASKS, Schedules, Search, best_steps, meets};
use crate::Link;
use crate::bounds::Floor;
use crate::instance::batches::combinations;
use crate::play::branch::Step;
use crate::play::round::{ComputeHolds, Holds, Order, Transfer, compute_holds};
use crate::play::sequence::Player;
use crate::solve::anytime::{hold_back, mitten};

/// Nodes of branch and bound over holds, up to [`SMALL_TASKS`]: a round of 5 tasks has at most 33,000, for each
/// combination of batch sizes that its bound does not exclude.
const SMALL_WAITING_NODES: u64 = 1_000_000;
/// Up to this many tasks, trying all orders and holds takes less time than the linear program of the processor's
/// bound: choices of 3 tasks were compared in a third of the time without it.
pub(super) const UNPRICED_TASKS: usize = 3;
/// Plays of the descent over holds. A sweep takes n (n - 1) / 2 of them, and few sweeps improve.
const WAITING_PLAYS: u64 = 20_000;

impl Search<'_, '_> {
    /// Searches for holds. If co-running slows tasks down by more than overlap gains, a round ends sooner if some
    /// compute waits: first two together, then the third.
    ///
    /// Searches first by descent from the best round that never waits, and by annealing over orders
    /// and holds together; then, with few tasks, by branch and bound over orders and holds, which
    /// proves the result for [`Schedules::Waiting`], and on a full-duplex link also for
    /// [`Schedules::Alternating`]. If rates do not depend on co-runners, starting earlier never
    /// delays another task, so never waiting is optimal ([`Schedules::Any`]).
    pub(super) fn wait(&mut self, counts: &[usize], total: usize) {
        if self.timed_out || self.instance.link() == Link::Shared || self.bound_met {
            return;
        }
        // Checking whether rates depend on co-runners needs the rates of all sets, which is
        // worthwhile only for a proof.
        let looked_at = total <= 1 && self.options.nodes > 0;
        if self.rates.source_independent() || (looked_at && self.rates.is_independent()) {
            self.class = Schedules::Any;
            return;
        }
        let Some((levels, order)) = self.best.clone().filter(|_| self.options.waits) else {
            return;
        };
        let n = self.instance.len();
        self.hold_by_descent(&levels, &order);
        if n > SMALL_TASKS {
            self.alternate_by_descent(&levels);
        }
        if n > UNPRICED_TASKS {
            self.anneal(&levels);
        }
        if !self.complete || n > EXACT_TASKS || total > ALL_COMBINATIONS {
            return;
        }
        let limit = if n <= SMALL_TASKS {
            SMALL_WAITING_NODES.min(self.options.nodes.saturating_mul(10))
        } else {
            self.options.nodes
        };
        let mut compute = Budget::new(limit, self.deadline);
        let mut both = Budget::new(limit, self.deadline);
        for levels in combinations(counts) {
            self.hold_exactly(&levels, &mut compute, &mut both);
            if compute.exhausted() && both.exhausted() {
                break;
            }
        }
        self.plays += compute.spent() + both.spent();
        if !compute.exhausted() {
            let all = both.exhausted() || self.instance.link() == Link::Half;
            self.class = if all {
                Schedules::Waiting
            } else {
                Schedules::Alternating
            };
        }
    }

    fn hold_by_descent(&mut self, levels: &[u8], order: &Order) {
        self.rates.set_levels(levels);
        let mut budget = Budget::new(WAITING_PLAYS.min(self.options.plays), self.deadline);
        let mut player = Player::new(self.instance, self.rates, self.options.single_order);
        let sequence = order.sequence();
        let value = hold_back(&mut player, &sequence, self.best_s, &mut budget);
        let (held, holds) = (player.order(&sequence), player.holds);
        self.plays += budget.spent();
        self.take_held(value, levels, held, compute_holds(&holds));
    }

    /// Takes over a round with holds if it ends sooner.
    pub(super) fn take_held(&mut self, value: f64, levels: &[u8], order: Order, holds: Holds) {
        let before = self.best_s;
        // A gain within rounding is not worth a wait.
        if value < before * (1.0 - SAME) {
            self.best_s = value;
            self.best = Some((levels.to_vec(), order));
            self.holds = holds;
        }
    }

    /// Tries every order and hold of one batch combination that may end before the best so far: first holds of
    /// compute alone, then transfers one at a time.
    fn hold_exactly(&mut self, levels: &[u8], compute: &mut Budget, both: &mut Budget) {
        self.rates.set_levels(levels);
        let mut floor = Floor::without_workload(self.instance, self.rates);
        if meets(self.best_s, &floor, self.instance) {
            return;
        }
        if self.instance.len() > UNPRICED_TASKS {
            floor.add_workload(self.instance, self.rates);
            if meets(self.best_s, &floor, self.instance) {
                return;
            }
        }
        self.hold_compute(levels, &floor, compute);
        if self.instance.link() == Link::Full {
            self.alternate(levels, &floor, both);
        }
    }

    fn hold_compute(&mut self, levels: &[u8], floor: &Floor, nodes: &mut Budget) {
        let first = mitten(self.instance, &floor.compute);
        let candidates = self.candidates(true);
        let (instance, below_s) = (self.instance, self.best_s);
        let (value, steps) = best_steps(
            instance, self.rates, floor, candidates, below_s, &first, nodes,
        );
        if steps.is_empty() {
            return;
        }
        let until = held_by(&steps, instance.len());
        let order = self.order_of(&steps, until.clone());
        self.take_held(value, levels, order, compute_holds(&until));
    }
}

/// For each of `n` tasks, the task whose compute, by these decisions, must end before its own may
/// start, if any.
pub(super) fn held_by(steps: &[Step], n: usize) -> ComputeHolds {
    let mut until = vec![None; n];
    for step in steps {
        if let Transfer::Download(i) = step.transfer {
            until[i] = step.until;
        }
    }
    until
}
