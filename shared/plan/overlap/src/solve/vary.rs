use units::search::Budget;

use super::{Search, timed_out};
use crate::bounds::Floor;
use crate::bounds::workload::WorkloadBound;
use crate::play::sequence::Player;
use crate::solve::anytime::descend;

impl Search<'_, '_> {
    /// Batch sizes by descent: one task's size at a time while that helps, with a descent over the order each time;
    /// then a search at the sizes found.
    pub(super) fn vary_one_by_one(&mut self, counts: &[usize]) {
        let mut levels = vec![0u8; counts.len()];
        self.levels(&levels);
        let mut since = 0;
        let mut task = 0;
        // Until no task gains by another size while the others keep theirs.
        while since < counts.len() && !self.timed_out {
            let before = self.best_s;
            let kept = levels[task];
            for level in (0..counts[task] as u8).filter(|&l| l != kept) {
                let mut trial = levels.clone();
                trial[task] = level;
                let so_far = self.best_s;
                self.follow(&trial);
                if self.best_s < so_far {
                    levels = trial;
                }
            }
            since = if self.best_s < before { 0 } else { since + 1 };
            task = (task + 1) % counts.len();
        }
        // The first sizes were searched at the start.
        if levels.iter().any(|&l| l != 0) {
            self.levels(&levels);
        }
        self.complete = false;
        self.bound_met = false;
        self.floor_s = self.any_batches_bound();
    }

    /// Descends from the best order so far at other batch sizes.
    fn follow(&mut self, levels: &[u8]) {
        let Some((_, order)) = &self.best else {
            return;
        };
        let mut sequence = order.sequence();
        self.rates.set_levels(levels);
        let mut budget = Budget::new(self.plays_each, self.deadline);
        let mut player = Player::new(self.instance, self.rates, self.options.single_order);
        let start = player.value(&sequence);
        let value = descend(&mut player, &mut sequence, start, u128::MAX, &mut budget);
        let order = player.order(&sequence);
        self.plays += budget.spent() + 1;
        self.timed_out |= timed_out(&budget);
        self.keep(value, levels, || order);
    }

    /// A lower bound for every batch combination, if no task is slower beside fewer co-runners or smaller batch sizes:
    /// every task at its own best size beside the smallest of the others.
    fn any_batches_bound(&mut self) -> f64 {
        self.assumed = true;
        let alone = |i: usize| self.rates.highest(1 << i, i);
        let fastest: Vec<f64> = (0..self.instance.len()).map(alone).collect();
        let mut floor = Floor::of_tasks(self.instance, &fastest);
        if self.options.nodes > 0 {
            floor.workload =
                WorkloadBound::at_any_batches(self.instance, &floor.compute, self.rates);
        }
        floor.bounds(self.instance).best()
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};
    use units::Batch;

    use super::*;
    use crate::instance::members;
    use crate::rates::cache::RateCache;
    use crate::{Instance, Link, OrderOptions, OverlapError, Rates, RoundTask, Set, solve, vary};

    /// A task is fastest at some batch size of its own, and slower the larger those of its co-runners.
    struct Drawn {
        solo: Vec<f64>,
        best: Vec<f64>,
        coupling: Vec<f64>,
    }

    impl Drawn {
        fn new(rng: &mut SmallRng, n: usize) -> Self {
            Self {
                solo: (0..n).map(|_| rng.random_range(300.0..2000.0)).collect(),
                best: (0..n).map(|_| rng.random_range(64.0..256.0)).collect(),
                coupling: (0..n * n).map(|_| rng.random_range(0.2..1.2)).collect(),
            }
        }
    }

    impl Rates for Drawn {
        fn rates(&self, set: Set, batches: &[Batch], out: &mut [f64]) -> Result<(), OverlapError> {
            let n = self.solo.len();
            for i in members(set) {
                let off = (batches[i].as_f64() / self.best[i]).ln();
                let busy = |j: usize| batches[j].as_f64() / (batches[j].as_f64() + 60.0);
                let others = members(set).filter(|&j| j != i);
                let slow: f64 = others.map(|j| self.coupling[i * n + j] * busy(j)).sum();
                out[i] = self.solo[i] / (1.0 + off * off) / (1.0 + slow);
            }
            Ok(())
        }
    }

    /// The best round of all batch sizes by enumeration is never below the bound of the search that does not
    /// enumerate them, and near it.
    #[test]
    fn a_bound_for_any_batch_sizes_holds_for_the_best() {
        const CASES: u64 = 240;
        let mut gap = 0.0;
        for case in 0..CASES {
            let rng = &mut SmallRng::seed_from_u64(case);
            let n = 2 + case as usize % 3;
            let rates = Drawn::new(rng, n);
            let job = |_| RoundTask {
                download_s: rng.random_range(0.1..1.0),
                work: rng.random_range(1000.0..4000.0),
                upload_s: rng.random_range(0.1..1.0),
            };
            let link = [Link::Full, Link::Half, Link::Shared][case as usize / 3 % 3];
            let instance = Instance::new((0..n).map(job).collect(), link).unwrap();
            let options = OrderOptions {
                batches: vec![vary(Batch::new(128).unwrap(), 20.0); n],
                ..OrderOptions::default()
            };
            let best = solve(&instance, &rates, &options).unwrap();
            let mut cache = RateCache::new(&rates, n, &options.batches);
            let bound = Search::new(&instance, &mut cache, &options).any_batches_bound();
            let best_s = best.schedule.makespan_s;
            assert!(
                bound <= best_s * (1.0 + 1e-9),
                "{case}: {bound} above {best_s}"
            );
            gap += (best_s / bound - 1.0) / CASES as f64;
        }
        assert!(gap < 0.1, "{gap}");
    }
}
