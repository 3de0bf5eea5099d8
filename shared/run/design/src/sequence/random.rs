use std::collections::BTreeSet;

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::index::sample;
use units::corun::Setting;

use super::space::{Configuration, Space};

/// Number of consecutive sets of tasks without a new co-run after which the space counts as used up. With [`DRAWS`]
/// that is 40,000 draws, so this is wrong only if less than about one draw in 10,000 is allowed and new
/// (`(1 - 1e-4)^40000` is 2 %). The profile then ends early and reports `complete`; no wrong configuration is
/// measured. Not tuned.
const SETS: u32 = 200;
/// Rejected draws for one set of tasks before another set is drawn, so that a set that never fits into memory does
/// not use up all draws.
const DRAWS: u32 = 200;

/// Distinct co-runs drawn at random from a space: batch sizes and shares uniformly, repeated until the sum of the
/// shares is allowed; then batch sizes are reduced until the tasks fit into memory.
pub struct Random {
    space: Space,
    rng: StdRng,
    subsets: f64,
    left: u64,
    drawn: BTreeSet<Configuration>,
    exhausted: bool,
}

impl Random {
    /// At most `budget` co-runs. If there are three or more tasks, the fraction `subsets` (0 to 1) of the co-runs
    /// leaves out at least one task and keeps at least two.
    pub fn new(space: Space, rng: StdRng, subsets: f64, budget: u64) -> Self {
        Self {
            drawn: space.solos().into_iter().collect(),
            space,
            rng,
            subsets,
            left: budget,
            exhausted: false,
        }
    }

    /// Whether it ended because the space is used up.
    pub fn exhausted(&self) -> bool {
        self.exhausted
    }

    fn draw(&mut self, tasks: &[usize]) -> Configuration {
        let mut runs = Vec::with_capacity(tasks.len());
        for &task in tasks {
            let batches = self.space.batches(task);
            let batch = batches[self.rng.random_range(0..batches.len())];
            let share = self.space.shares[self.rng.random_range(0..self.space.shares.len())];
            runs.push(Setting { task, batch, share });
        }
        self.space.shrunk(runs)
    }

    fn tasks(&mut self) -> Vec<usize> {
        let n = self.space.task_count();
        let leave_out = self.rng.random::<f64>() < self.subsets;
        if n < 3 || !leave_out {
            return (0..n).collect();
        }
        let size = self.rng.random_range(2..n);
        let mut tasks = sample(&mut self.rng, n, size).into_vec();
        tasks.sort_unstable();
        tasks
    }
}

impl Iterator for Random {
    type Item = Configuration;

    fn next(&mut self) -> Option<Configuration> {
        if self.left == 0 || self.exhausted {
            return None;
        }
        for _ in 0..SETS {
            // The set is drawn first, so that sets with more allowed configurations do not get more runs.
            let tasks = self.tasks();
            for _ in 0..DRAWS {
                let runs = self.draw(&tasks);
                if self.space.allows(&runs) && self.space.fits(&runs) && !self.drawn.contains(&runs)
                {
                    self.drawn.insert(runs.clone());
                    self.left -= 1;
                    return Some(runs);
                }
            }
        }
        self.exhausted = true;
        None
    }
}
