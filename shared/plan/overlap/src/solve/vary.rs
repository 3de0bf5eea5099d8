use units::search::Budget;

use super::{Search, timed_out};
use crate::anytime::descend;
use crate::bounds::Floor;
use crate::player::Player;

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
        self.floor_s = self.any_batches_bound(counts);
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
        let value = player.value(&sequence);
        let value = descend(&mut player, &mut sequence, value, u128::MAX, &mut budget);
        let order = player.order(&sequence);
        self.plays += budget.spent() + 1;
        self.timed_out |= timed_out(&budget);
        self.keep(value, levels, || order);
    }

    /// A lower bound for every batch combination: each task at its highest solo rate.
    fn any_batches_bound(&mut self, counts: &[usize]) -> f64 {
        let n = self.instance.len();
        let mut fastest = vec![0.0_f64; n];
        for level in 0..3u8 {
            let levels: Vec<u8> = counts.iter().map(|&c| level.min(c as u8 - 1)).collect();
            self.rates.set_levels(&levels);
            for (i, fastest) in fastest.iter_mut().enumerate() {
                *fastest = fastest.max(self.rates.row(1 << i)[i]);
            }
        }
        self.assumed |= !self.rates.source_falls();
        Floor::of_tasks(self.instance, &fastest)
            .bounds(self.instance)
            .best()
    }
}
