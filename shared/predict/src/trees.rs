//! Gradient-boosted regression trees, each grown on a part of the rows (Friedman 2001, 2002):
//! what they see and a Gaussian process does not are steps and plateaus, which rounding of shares
//! to whole processors makes.

mod grow;

use math::wide;

use grow::{Cell, Column, Growing};

/// Splits on the way to a leaf: three, so that a tree sees interactions of up to three features (own
/// share, another's share, a batch size), and has no more leaves than a small profile has rows. This and
/// the following are usual values of the literature (Friedman 2002: many small trees, a small rate,
/// half to most of the rows); other values were not compared here.
const DEPTH: usize = 3;
/// Splits of one tree, in heap order: the children of `k` are `2 k + 1` and `2 k + 2`.
pub(crate) const SPLITS: usize = (1 << DEPTH) - 1;
/// Leaves of one tree.
pub(crate) const LEAVES: usize = 1 << DEPTH;
/// Places of which [`Trees::means`] works out the values together.
pub(crate) const LANES: usize = 8;
/// Trees of one model: at [`RATE`], `0.9^150` of a residual that every tree sees is left, so more
/// would only fit noise.
const TREES: usize = 150;
/// Part of each tree's answer that counts (Friedman 2001 finds 0.1 and less best).
const RATE: f64 = 0.1;
/// Rows of ten that a tree is grown on, so that trees differ; half, as Friedman 2002 has it, leaves too
/// few of the tens of rows of a profile.
const PART: u64 = 8;
/// Least rows of a leaf: one measurement may show a plateau, since windows end at a standard error
/// of 1 %. In [`doc::Method::Blend`] the trees count half, and so does an odd row.
const LEAST: f64 = 1.0;
/// Added to the rows of a leaf when its mean is taken: nothing, because [`RATE`] shrinks already.
const SHRINK: f64 = 0.0;
/// Most rows learnt from, spread evenly: growing is linear in them, and profiles with more are grids
/// whose neighbours say the same.
const MOST_ROWS: usize = 1000;
/// Values of leaves are multiples of one over this: far finer than what can be measured, and
/// short to write.
const PER_UNIT: f64 = 1e7;
/// Threshold of a node that does not split: all rows go left.
const NEVER: f64 = 1e300;

/// Trees of equal depth, one after another.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Trees {
    /// Feature of each split.
    pub feature: Vec<u32>,
    /// A row goes right where its feature is above this.
    pub threshold: Vec<f64>,
    /// Value of each leaf, the rate included.
    pub value: Vec<f64>,
}

impl Trees {
    /// Learns each of the `targets` from the given `features` of rows of equal length; rows of
    /// weight 0 do not count. Trees of the same number are grown on the same part of the rows.
    pub fn fit<const N: usize>(
        rows: &[Vec<f64>],
        features: &[usize],
        targets: [&[f64]; N],
        weight: &[f64],
    ) -> Option<[Trees; N]> {
        let sound: Vec<usize> = (0..rows.len()).filter(|i| weight[*i] > 0.0).collect();
        let kept = crate::model::evenly(sound.len(), MOST_ROWS);
        let x: Vec<&[f64]> = kept.iter().map(|k| rows[sound[*k]].as_slice()).collect();
        x.first()?;
        let columns: Vec<Column> = features.iter().map(|&f| Column::new(&x, f)).collect();
        let mut grown = targets.map(|y| {
            let rest = kept.iter().map(|k| y[sound[*k]]);
            let cells = rest.map(|rest| Cell { rest, node: 0 }).collect();
            Growing::new(cells)
        });
        let mut order = Vec::new();
        for tree in 0..TREES as u64 {
            let part: Vec<bool> = (0..x.len() as u64).map(|i| drawn(tree, i)).collect();
            Column::side_by_side(&columns, &part, &mut order);
            for one in &mut grown {
                one.grow(&x, &columns, &order, &part);
            }
        }
        Some(grown.map(|one| one.trees))
    }

    /// Trees in the model.
    pub fn len(&self) -> usize {
        self.value.len() / LEAVES
    }

    /// Values at several places: the features of [`LANES`] of them side by side in each block of
    /// `width * LANES` columns. The same as [`Trees::mean`], to the bits.
    pub fn means(&self, columns: &[f64], width: usize, sums: &mut [f64]) {
        means(self, columns, width, sums);
    }

    /// Value at `x`.
    pub fn mean(&self, x: &[f64]) -> f64 {
        let mut sum = 0.0;
        for k in 0..self.len() {
            let (f, t) = (&self.feature[k * SPLITS..], &self.threshold[k * SPLITS..]);
            let mut node = 0;
            for _ in 0..DEPTH {
                node = 2 * node + 1 + usize::from(x[f[node] as usize] > t[node]);
            }
            sum += self.value[k * LEAVES + node - SPLITS];
        }
        sum
    }
}

fn round(value: f64) -> f64 {
    (value * PER_UNIT).round() / PER_UNIT
}

/// Whether a row is part of what a tree is grown on: a hash of both (Steele and others 2014).
fn drawn(tree: u64, row: u64) -> bool {
    let mut z = (tree << 32 | row).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)) % 10 < PART
}

wide! {
    fn means(trees: &Trees, columns: &[f64], width: usize, sums: &mut [f64]) {
        for (x, sums) in columns
            .chunks_exact(width * LANES)
            .zip(sums.chunks_exact_mut(LANES))
        {
            let mut sum = [0.0; LANES];
            let splits = trees.feature.chunks_exact(SPLITS);
            let splits = splits.zip(trees.threshold.chunks_exact(SPLITS));
            for ((f, t), v) in splits.zip(trees.value.chunks_exact(LEAVES)) {
                let column = |s: usize| {
                    let first = f[s] as usize * LANES;
                    &x[first..first + LANES]
                };
                let split: [&[f64]; SPLITS] = std::array::from_fn(column);
                for k in 0..LANES {
                    let pick = |s: usize, left: f64, right: f64| {
                        if split[s][k] > t[s] { right } else { left }
                    };
                    let low = pick(1, pick(3, v[0], v[1]), pick(4, v[2], v[3]));
                    let high = pick(2, pick(5, v[4], v[5]), pick(6, v[6], v[7]));
                    sum[k] += pick(0, low, high);
                }
            }
            sums.copy_from_slice(&sum);
        }
    }
}

#[cfg(test)]
mod tests;
