//! Candidates: random draws, and single changes of the best ones.

use std::collections::HashSet;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use units::corun::Setting;

use super::space::{Design, coruns_per_fit};
use crate::predictor::Predictor;

/// Random candidates per step; with many tasks fewer, in proportion to the cost of a prediction.
pub(super) const CANDIDATES: usize = 3000;
/// Maximum draws per candidate, because constraints may reject some.
const TRIES: usize = 50;

impl Design<'_> {
    /// A random admissible configuration of all tasks; `None` if too many draws are rejected.
    pub(super) fn draw(&self, rng: &mut StdRng) -> Option<Vec<Setting>> {
        for _ in 0..TRIES {
            let mut active = Vec::with_capacity(self.batches.len());
            for (task, batches) in self.batches.iter().enumerate() {
                active.push(Setting {
                    task,
                    batch: *batches.choose(rng)?,
                    share: *self.shares.choose(rng)?,
                });
            }
            (self.shrink)(&mut active);
            if (self.admissible)(&active) {
                return Some(active);
            }
        }
        None
    }

    /// Random candidates, the given ones, and all single changes of the best few, sorted by value, best first.
    pub(super) fn ranked(
        &self,
        model: &Predictor,
        given: &[Vec<Setting>],
        rng: &mut StdRng,
    ) -> Vec<(f64, Vec<Setting>)> {
        let mut seen: HashSet<Vec<Setting>> = HashSet::new();
        let mut all: Vec<(f64, Vec<Setting>)> = Vec::new();
        for active in given.iter().cloned() {
            if seen.insert(active.clone()) {
                all.push((0.0, active));
            }
        }
        for _ in 0..self.candidates() {
            let Some(active) = self.draw(rng) else { break };
            if seen.insert(active.clone()) {
                all.push((0.0, active));
            }
        }
        self.values(model, &mut all);
        best_first(&mut all);
        // Climb from the best three until none of their neighbours gets among the best three. With three, a single
        // ridge of the model does not use up all evaluations. Twelve turns can change every batch size and share of
        // six tasks once. Both numbers were chosen by hand.
        let most = seen.len() + self.neighbours_looked_at();
        for _ in 0..12 {
            if seen.len() >= most {
                break;
            }
            let around = all.iter().take(3).flat_map(|(_, a)| self.neighbours(a));
            let mut new: Vec<(f64, Vec<Setting>)> = around
                .filter(|next| seen.insert(next.clone()))
                .map(|next| (0.0, next))
                .collect();
            if new.is_empty() {
                break;
            }
            self.values(model, &mut new);
            all.append(&mut new);
            best_first(&mut all);
        }
        all
    }

    /// Number of random candidates.
    pub(super) fn candidates(&self) -> usize {
        CANDIDATES / coruns_per_fit(self.batches.len())
    }

    /// Maximum number of neighbours in a climb with many tasks; with few tasks only the number of turns is limited.
    /// One configuration of 64 tasks has 1,500 neighbours.
    fn neighbours_looked_at(&self) -> usize {
        match coruns_per_fit(self.batches.len()) {
            1 => usize::MAX / 2,
            coruns_per_fit => 4 * CANDIDATES / coruns_per_fit,
        }
    }

    fn neighbours(&self, active: &[Setting]) -> Vec<Vec<Setting>> {
        let mut v = Vec::new();
        for (k, a) in active.iter().enumerate() {
            let batches = self.batches[a.task]
                .iter()
                .map(|&batch| Setting { batch, ..*a });
            let shares = self.shares.iter().map(|&share| Setting { share, ..*a });
            for next in batches.chain(shares).filter(|n| n != a) {
                let mut changed = active.to_vec();
                changed[k] = next;
                if (self.admissible)(&changed) {
                    v.push(changed);
                }
            }
        }
        v
    }
}

/// Sorts by value, highest first, and equal values by configuration.
pub(super) fn best_first(all: &mut [(f64, Vec<Setting>)]) {
    all.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
}
