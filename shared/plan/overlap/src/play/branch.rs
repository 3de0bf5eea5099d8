use std::collections::HashMap;
use std::hash::Hash;

use units::search::Budget;

use crate::bounds::Floor;
use crate::instance::members;
use crate::play::gpu::Gpu;
use crate::play::round::Transfer;
use crate::rates::cache::RateCache;
use crate::{Instance, RoundTask};

/// Number of states kept for each key, to compare new ones with. The comparison is linear in it, and dropping a state
/// only prunes less: proofs remain valid.
const KEPT_STATES: usize = 48;

/// The rounds among which a search finds the shortest.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidates {
    /// Uploads keep the order of the downloads.
    pub single_order: bool,
    /// Compute may be held back.
    pub waits: bool,
}

/// Data that all states of a search refer to.
pub(crate) struct SearchContext<'a, 'r> {
    pub jobs: &'a [RoundTask],
    pub rates: &'a mut RateCache<'r>,
    pub floor: &'a Floor,
    pub candidates: Candidates,
}

/// A decision: the next transfer and, for a download, the task until whose end its compute is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step {
    pub transfer: Transfer,
    pub until: Option<usize>,
}

impl Step {
    /// A transfer without a hold.
    pub fn plain(transfer: Transfer) -> Self {
        Self {
            transfer,
            until: None,
        }
    }

    /// The `alternative`-th way to download task `i`: without a hold, or held until the end of one of the tasks that
    /// have not ended.
    pub fn download(i: usize, alternative: usize, gpu: &Gpu, waits: bool) -> Option<Self> {
        let transfer = Transfer::Download(i);
        let until = match alternative.checked_sub(1) {
            None => None,
            Some(_) if !waits => return None,
            Some(k) => Some(members(gpu.unfinished()).nth(k)?),
        };
        Some(Self { transfer, until })
    }
}

/// A round in which some of the transfers are decided.
pub(crate) trait SearchState: Copy {
    /// States with the same key have the same open decisions.
    type Key: Eq + Hash;

    /// The `alternative`-th decision about task `i` that may come next, if there is one; `path` are the decisions so
    /// far.
    fn step(
        &self,
        i: usize,
        alternative: usize,
        path: &[Step],
        context: &SearchContext<'_, '_>,
    ) -> Option<Step>;

    /// Plays the last step of `path`.
    fn play(&mut self, path: &[Step], context: &mut SearchContext<'_, '_>);

    /// Whether the rest follows without a decision.
    fn is_decided(&self) -> bool;

    /// The makespan of a decided round; adds the remaining steps to `path`.
    fn finish(self, path: &mut Vec<Step>, context: &mut SearchContext<'_, '_>) -> f64;

    /// Lower bound on the end of every completion; may stop early once the bound is `enough`.
    fn bound(&self, enough: f64, context: &SearchContext<'_, '_>) -> f64;

    /// Key of comparable states.
    fn key(&self) -> Self::Key;

    /// Whether this state ends no later than `other` with the same key, whatever follows, provided that a task is
    /// never slower with fewer co-runners.
    fn no_later(&self, other: &Self) -> bool;
}

/// Depth-first branch and bound with dominance.
pub(crate) struct BranchAndBound<'a, 'r, S: SearchState> {
    context: SearchContext<'a, 'r>,
    seen: Option<HashMap<S::Key, Vec<S>>>,
    path: Vec<Step>,
    /// The best makespan so far; only better orders are searched for.
    pub best_s: f64,
    /// The decisions that reach it; empty if nothing better than the given makespan was found.
    pub best: Vec<Step>,
}

impl<'a, 'r, S: SearchState> BranchAndBound<'a, 'r, S> {
    /// Searches for orders that end before `best_s`.
    pub fn new(
        instance: &'a Instance,
        rates: &'a mut RateCache<'r>,
        floor: &'a Floor,
        candidates: Candidates,
        best_s: f64,
    ) -> Self {
        // Comparing states is only valid without holds.
        let comparable =
            !candidates.single_order && !candidates.waits && rates.falls_with_corunners();
        Self {
            context: SearchContext {
                jobs: instance.jobs(),
                rates,
                floor,
                candidates,
            },
            seen: comparable.then(HashMap::new),
            path: Vec::with_capacity(2 * instance.len()),
            best_s,
            best: Vec::new(),
        }
    }

    /// Searches from `state`; `first` is the order in which branches are tried. `budget` says whether the search was
    /// complete.
    pub fn run(&mut self, state: &S, first: &[usize], budget: &mut Budget) {
        if state.is_decided() {
            let made = self.path.len();
            let end = state.finish(&mut self.path, &mut self.context);
            if end < self.best_s {
                self.best_s = end;
                self.best.clone_from(&self.path);
            }
            self.path.truncate(made);
            return;
        }
        for &i in first {
            let mut alternative = 0;
            while let Some(step) = state.step(i, alternative, &self.path, &self.context) {
                if !self.context.rates.spend(budget) {
                    return;
                }
                alternative += 1;
                let mut next = *state;
                self.path.push(step);
                next.play(&self.path, &mut self.context);
                // If the bound is not below the best known, nothing below this state can be better. A state without
                // open decisions is simulated to its end, which costs no more than its bound.
                let open = next.is_decided()
                    || (next.bound(self.best_s, &self.context) < self.best_s
                        && !self.dominated(&next));
                if open {
                    self.run(&next, first, budget);
                }
                self.path.pop();
            }
        }
    }

    /// Whether an earlier state ends no later than `state`, whatever follows.
    fn dominated(&mut self, state: &S) -> bool {
        let Some(seen) = &mut self.seen else {
            return false;
        };
        // Only states with the same open decisions are compared: every completion of one is then a completion of the
        // other, and ends no later from the state that is no later in any respect.
        let kept = seen.entry(state.key()).or_default();
        if kept.iter().any(|k| k.no_later(state)) {
            return true;
        }
        kept.retain(|k| !state.no_later(k));
        if kept.len() < KEPT_STATES {
            kept.push(*state);
        }
        false
    }
}
