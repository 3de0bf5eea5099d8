use std::collections::HashMap;
use std::hash::Hash;

use units::search::Budget;

use crate::bounds::Floor;
use crate::cache::RateCache;
use crate::gpu::Gpu;
use crate::instance::members;
use crate::round::Transfer;
use crate::{Instance, RoundTask};

/// States kept for each key, to compare new ones with. Comparing is linear in them, and dropping a
/// state only prunes less: proofs stay valid whatever the number.
const KEPT_STATES: usize = 48;

/// Data that every state of a search refers to.
pub(crate) struct SearchContext<'a, 'r> {
    pub jobs: &'a [RoundTask],
    pub rates: &'a mut RateCache<'r>,
    pub floor: &'a Floor,
    /// Uploads keep the order of the downloads.
    pub single: bool,
    /// Compute may be held back.
    pub waits: bool,
}

/// A decision: the next transfer and, of a download, until whose end the compute is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step {
    pub transfer: Transfer,
    pub until: Option<usize>,
}

impl Step {
    /// A transfer and nothing held.
    pub fn plain(transfer: Transfer) -> Self {
        Self {
            transfer,
            until: None,
        }
    }

    /// The `alternative`-th way to download task `i`: at once, or held until the end of one of
    /// the tasks that have not ended.
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

/// A round part of whose transfers are decided.
pub(crate) trait State: Copy {
    /// States of one key have the same decisions left.
    type Key: Eq + Hash;

    /// The `alternative`-th decision about task `i` that may come next, if there is one; `path`
    /// are those made.
    fn step(
        &self,
        i: usize,
        alternative: usize,
        path: &[Step],
        context: &SearchContext<'_, '_>,
    ) -> Option<Step>;

    /// Plays the last step of `path`.
    fn play(&mut self, path: &[Step], context: &mut SearchContext<'_, '_>);

    /// Whether what is left follows without a decision.
    fn is_decided(&self) -> bool;

    /// The end of a decided round; adds the steps that follow to `path`.
    fn finish(self, path: &mut Vec<Step>, context: &mut SearchContext<'_, '_>) -> f64;

    /// No completion ends before this; may stop looking once that is `enough`.
    fn bound(&self, enough: f64, context: &SearchContext<'_, '_>) -> f64;

    /// Key of comparable states.
    fn key(&self) -> Self::Key;

    /// Whether this state ends no later than `other`, of the same key, whatever follows, provided
    /// that a task is never slower with fewer co-runners.
    fn no_later(&self, other: &Self) -> bool;
}

/// Depth-first branch and bound with dominance.
pub(crate) struct BranchAndBound<'a, 'r, S: State> {
    context: SearchContext<'a, 'r>,
    seen: Option<HashMap<S::Key, Vec<S>>>,
    path: Vec<Step>,
    /// The best makespan so far; only better orders are searched for.
    pub best_s: f64,
    /// The decisions that reach it; empty if none better than given was found.
    pub best: Vec<Step>,
}

impl<'a, 'r, S: State> BranchAndBound<'a, 'r, S> {
    /// Looks for orders that end before `best_s`.
    pub fn new(
        instance: &'a Instance,
        rates: &'a mut RateCache<'r>,
        floor: &'a Floor,
        (single, waits): (bool, bool),
        best_s: f64,
    ) -> Self {
        // The comparison of states supposes that nothing is held back.
        let comparable = !single && !waits && rates.falls_with_corunners();
        Self {
            context: SearchContext {
                jobs: instance.jobs(),
                rates,
                floor,
                single,
                waits,
            },
            seen: comparable.then(HashMap::new),
            path: Vec::with_capacity(2 * instance.len()),
            best_s,
            best: Vec::new(),
        }
    }

    /// Searches from `state`; `first` is the order in which branches are tried. Whether the
    /// search was complete is in `budget`.
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
                // A bound that is not below the best known leaves nothing to find below this state. A state
                // without open decisions is simulated to its end, which costs no more than its bound.
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

    /// Whether an earlier state ends no later than `state` whatever follows.
    fn dominated(&mut self, state: &S) -> bool {
        let Some(seen) = &mut self.seen else {
            return false;
        };
        // Only states with the same open decisions: a completion of one is then a completion of the other, and ends
        // no later from the state that is no later in anything.
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
