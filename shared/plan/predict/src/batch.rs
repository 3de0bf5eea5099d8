//! Predictions of many co-runs at once, task by task: the data of a task stay in the cache, and each vector
//! instruction handles several co-runs.

use math::exp;
use units::corun::Setting;

use crate::Predictor;
use crate::base::Base;
use crate::features::{CorunInputs, MAX_FEATURES};
use crate::model::{LnSteps, Regressors};
use crate::structured::Law;
use crate::trees::LANES;

/// Co-runs per block.
const BLOCK: usize = 64;

/// One task in the co-runs of a block.
#[derive(Default)]
struct Block {
    /// Features, row by row.
    rows: Vec<f64>,
    /// Step by the law in seconds; `solo`: `ln` of the solo step; `all`: whether as many tasks run as were
    /// measured together.
    law: Vec<f64>,
    solo: Vec<f64>,
    all: Vec<bool>,
    /// Whether trees may be used: co-runs covered the share levels and the number of tasks.
    levels: Vec<bool>,
    /// Index in the output, and the setting.
    place: Vec<(usize, Setting)>,
    /// Predictions of the process and of the trees; `columns`: features in the order in which trees read them.
    gp: Vec<f64>,
    trees: [Vec<f64>; 2],
    columns: Vec<f64>,
}

impl Predictor {
    /// [`Predictor::means`] of many co-runs of `n` tasks each, one after another in `active` and `out`, with
    /// bit-identical results.
    pub fn means_many(&self, n: usize, active: &[Setting], out: &mut [f64]) {
        let mut blocks: Vec<Block> = self.parts.iter().map(|_| Block::default()).collect();
        let size = n.max(1) * BLOCK;
        for (active, out) in active.chunks(size).zip(out.chunks_mut(size)) {
            for (k, run) in active.chunks_exact(n).enumerate() {
                if n == 1 || !self.task_by_task(run) {
                    self.means(run, &mut out[k * n..(k + 1) * n]);
                    continue;
                }
                let inputs = self.base.inputs(run);
                for (at, a) in run.iter().enumerate() {
                    let law = &self.base.laws[a.task];
                    let place = (k * n + at, *a);
                    blocks[self.base.kind[a.task]].push(&inputs, at, law, &self.base, place);
                }
            }
            for (block, parts) in blocks.iter_mut().zip(&self.parts) {
                block.answer(parts, self, out);
                block.clear();
            }
        }
    }
}

impl Block {
    fn push(
        &mut self,
        inputs: &CorunInputs,
        at: usize,
        law: &Law,
        base: &Base,
        place: (usize, Setting),
    ) {
        let mut x = [0.0; MAX_FEATURES];
        base.layout.fill(inputs, at, &mut x);
        self.rows.extend(&x[..base.layout.len()]);
        self.law.push(inputs.by_law(at, law));
        self.solo.push(inputs.ln_alone[at]);
        self.levels.push(inputs.has_levels);
        self.all
            .push(inputs.has_levels && inputs.len == base.most_together);
        self.place.push(place);
    }

    fn clear(&mut self) {
        self.rows.clear();
        self.law.clear();
        self.solo.clear();
        self.all.clear();
        self.levels.clear();
        self.place.clear();
    }

    /// Transposes the features into blocks of [`LANES`] rows side by side; the last row is repeated to fill a
    /// block.
    fn turn(&mut self, width: usize) {
        let n = self.law.len();
        self.columns.clear();
        for first in (0..n).step_by(LANES) {
            for f in 0..width {
                let row = |k: usize| (first + k).min(n - 1);
                self.columns
                    .extend((0..LANES).map(|k| self.rows[row(k) * width + f]));
            }
        }
    }

    fn answer(&mut self, parts: &Regressors, model: &Predictor, out: &mut [f64]) {
        let (n, width) = (self.law.len(), model.base.layout.len());
        if n == 0 {
            return;
        }
        let lists = [&parts.trees, &parts.solo_trees];
        if lists.iter().any(|t| t.is_some()) {
            self.turn(width);
        }
        for (trees, sums) in lists.iter().zip(&mut self.trees) {
            sums.resize(n.next_multiple_of(LANES), 0.0);
            if let Some(trees) = trees {
                trees.means(&self.columns, width, sums);
            }
        }
        if let Some(g) = &parts.gp {
            for row in self.rows.chunks_exact_mut(width) {
                g.gp.scale(row);
            }
            self.gp.resize(n, 0.0);
            g.gp.means(&self.rows, width, &mut self.gp);
        }
        for k in 0..n {
            let (law, solo) = (self.law[k].ln(), self.solo[k]);
            let has = |t: &Option<_>| t.is_some();
            let answer = LnSteps {
                law,
                gp: parts.gp.as_ref().map(|_| law + self.gp[k]),
                trees: (has(lists[0]) && self.levels[k]).then(|| law + self.trees[0][k]),
                solo_trees: (has(lists[1]) && self.all[k]).then(|| solo + self.trees[1][k]),
                variance: 0.0,
            };
            let (place, a) = self.place[k];
            let rate = a.batch.as_f64() * exp(-answer.of(model.method));
            out[place] = model.at_most_solo(&a, rate);
        }
    }
}

#[cfg(test)]
mod tests;
