//! Growing trees: each split has the highest gain, found in one pass over the rows sorted by each
//! feature.

use super::{DEPTH, LEAVES, SPLITS, Trees};

/// Trees per model: at [`RATE`], `0.9^150` of a residual that every tree fits is left, so more trees would only fit
/// noise.
const TREES: usize = 150;
/// Learning rate: factor on each tree's prediction (Friedman 2001 finds 0.1 and less best).
const RATE: f64 = 0.1;
/// A tree is grown on this many of every ten rows, so that trees differ. Half, as in Friedman 2002, would be too few
/// for profiles with only tens of rows.
const PART: u64 = 8;
/// Minimum rows per leaf: one measurement may show a plateau, since windows end at a standard error of 1 %. In
/// [`doc::Method::Blend`] the trees have half the weight, so an outlier also counts half.
const LEAST: f64 = 1.0;
/// Added to the number of rows when the mean of a leaf is taken. It is 0, because [`RATE`] already shrinks the
/// leaves.
const SHRINK: f64 = 0.0;
/// Maximum number of rows, spread evenly: the time to grow is linear in them, and larger profiles are grids in which
/// neighbours are alike.
const MOST_ROWS: usize = 1000;
/// Values of leaves are rounded to multiples of `1 / PER_UNIT`, which is far below measurement errors and short in a
/// document.
const PER_UNIT: f64 = 1e7;
/// Threshold of a node that does not split: all rows go left.
pub(super) const NEVER: f64 = 1e300;

/// Gain below which a node is not split, so that rounding errors of a constant target cause no split.
const LEAST_GAIN: f64 = 1e-12;

/// Rows in the order of the values of one feature.
pub(super) struct Column {
    feature: usize,
    /// The distinct values, ascending.
    values: Vec<f64>,
    places: Vec<RankedRow>,
}

/// A row and the rank of its value among the distinct ones.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RankedRow {
    row: u32,
    rank: u32,
}

/// Residual of a row, and the node that it has reached.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cell {
    pub rest: f64,
    pub node: usize,
}

impl Column {
    pub fn new(x: &[&[f64]], feature: usize) -> Self {
        let mut order: Vec<usize> = (0..x.len()).collect();
        let value = |i: usize| x[i][feature];
        order.sort_by(|a, b| value(*a).total_cmp(&value(*b)).then(a.cmp(b)));
        let mut values: Vec<f64> = Vec::new();
        let mut place = |i: usize| {
            if values.last().is_none_or(|last| value(i) > *last) {
                values.push(value(i));
            }
            RankedRow {
                row: i as u32,
                rank: values.len() as u32 - 1,
            }
        };
        let places = order.into_iter().map(&mut place).collect();
        Self {
            feature,
            values,
            places,
        }
    }

    /// Interleaves the columns, for the rows in `part`: the first place of every column, then the second of every
    /// column, and so on. A pass then follows all columns at once, so the processor does not wait for the sums of a
    /// single column.
    pub fn side_by_side(columns: &[Column], part: &[bool], order: &mut Vec<RankedRow>) {
        let width = columns.len();
        order.clear();
        order.resize(
            width * part.iter().filter(|p| **p).count(),
            RankedRow::default(),
        );
        for (f, column) in columns.iter().enumerate() {
            let drawn = column.places.iter().filter(|p| part[p.row as usize]);
            for (to, place) in order.iter_mut().skip(f).step_by(width).zip(drawn) {
                *to = *place;
            }
        }
    }
}

impl Trees {
    /// Learns each of the `targets` from the given `features` of rows of equal length; rows of weight 0 do not count.
    /// The trees with the same number are grown on the same subset of rows.
    pub fn fit<const N: usize>(
        rows: &[Vec<f64>],
        features: &[usize],
        targets: [&[f64]; N],
        weight: &[f64],
    ) -> Option<[Trees; N]> {
        let sound: Vec<usize> = (0..rows.len()).filter(|i| weight[*i] > 0.0).collect();
        let kept = math::stats::evenly(sound.len(), MOST_ROWS);
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
}

fn round(value: f64) -> f64 {
    (value * PER_UNIT).round() / PER_UNIT
}

/// Whether a tree is grown on a row: decided by a hash of both (Steele and others 2014).
pub(super) fn drawn(tree: u64, row: u64) -> bool {
    let mut z = (tree << 32 | row).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)) % 10 < PART
}

/// Trees being grown.
struct Growing {
    pub trees: Trees,
    cells: Vec<Cell>,
}

/// Feature, threshold and gain of a split.
type Split = (usize, f64, f64);

impl Growing {
    /// Without splits, one tree gives the mean.
    pub fn new(mut cells: Vec<Cell>) -> Self {
        let mean = round(cells.iter().map(|c| c.rest).sum::<f64>() / cells.len() as f64);
        for c in &mut cells {
            c.rest -= mean;
        }
        let mut trees = Trees {
            feature: Vec::with_capacity((TREES + 1) * SPLITS),
            threshold: Vec::with_capacity((TREES + 1) * SPLITS),
            value: Vec::with_capacity((TREES + 1) * LEAVES),
        };
        trees.feature.extend([0; SPLITS]);
        trees.threshold.extend([NEVER; SPLITS]);
        trees.value.push(mean);
        trees.value.extend([0.0; LEAVES - 1]);
        Self { trees, cells }
    }

    /// Adds one tree fitted to the residual, and subtracts its predictions.
    pub fn grow(&mut self, x: &[&[f64]], columns: &[Column], order: &[RankedRow], part: &[bool]) {
        for c in &mut self.cells {
            c.node = 0;
        }
        for level in 0..DEPTH {
            let (first, width) = ((1 << level) - 1, 1 << level);
            let best = best_splits(&self.cells, part, columns, order, first, width);
            for (f, t, _) in &best {
                self.trees.feature.push(*f as u32);
                self.trees.threshold.push(*t);
            }
            for (c, x) in self.cells.iter_mut().zip(x) {
                let (f, t, _) = best[c.node - first];
                c.node = 2 * c.node + 1 + usize::from(x[f] > t);
            }
        }
        let mut sums = [(0.0, SHRINK); LEAVES];
        for (c, _) in self.cells.iter().zip(part).filter(|(_, p)| **p) {
            sums[c.node - SPLITS].0 += c.rest;
            sums[c.node - SPLITS].1 += 1.0;
        }
        let values = sums.map(|(s, c)| round(RATE * s / c.max(1.0)));
        for c in &mut self.cells {
            c.rest -= values[c.node - SPLITS];
        }
        self.trees.value.extend(values);
    }
}

fn score(sum: f64, count: f64) -> f64 {
    sum * sum / (count + SHRINK)
}

/// Running sums over the rows of a node in a pass.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    sum: f64,
    count: f64,
    /// Rank of the last row.
    rank: u32,
}

/// The best split of a node by one feature, between two ranks.
#[derive(Debug, Clone, Copy)]
struct Best {
    gain: f64,
    ranks: [u32; 2],
}

/// The best split of each of `width` nodes from `first` on. Ties go to the first feature, then to the smallest value.
pub(super) fn best_splits(
    cells: &[Cell],
    part: &[bool],
    columns: &[Column],
    order: &[RankedRow],
    first: usize,
    width: usize,
) -> Vec<Split> {
    // Sum, count, and the score of a node that is not split.
    let mut total = vec![(0.0, 0.0, 0.0); width];
    for (c, _) in cells.iter().zip(part).filter(|(_, p)| **p) {
        total[c.node - first].0 += c.rest;
        total[c.node - first].1 += 1.0;
    }
    for (sum, count, whole) in &mut total {
        *whole = score(*sum, *count);
    }
    let none = Best {
        gain: LEAST_GAIN,
        ranks: [0; 2],
    };
    let mut seen = vec![Seen::default(); columns.len() * width];
    let mut best = vec![none; columns.len() * width];
    for places in order.chunks_exact(columns.len()) {
        let nodes = seen
            .chunks_exact_mut(width)
            .zip(best.chunks_exact_mut(width));
        for (place, (seen, best)) in places.iter().zip(nodes) {
            let c = &cells[place.row as usize];
            let at = c.node - first;
            let left = &mut seen[at];
            let (sum, count, whole) = total[at];
            if place.rank > left.rank && left.count >= LEAST && count - left.count >= LEAST {
                let gain =
                    score(left.sum, left.count) + score(sum - left.sum, count - left.count) - whole;
                if gain > best[at].gain {
                    best[at] = Best {
                        gain,
                        ranks: [left.rank, place.rank],
                    };
                }
            }
            *left = Seen {
                sum: left.sum + c.rest,
                count: left.count + 1.0,
                rank: place.rank,
            };
        }
    }
    let mut splits = vec![(0, NEVER, LEAST_GAIN); width];
    for (column, best) in columns.iter().zip(best.chunks_exact(width)) {
        for (split, b) in splits.iter_mut().zip(best) {
            if b.gain > split.2 {
                let [low, high] = b.ranks.map(|r| column.values[r as usize]);
                *split = (column.feature, 0.5 * (high + low), b.gain);
            }
        }
    }
    splits
}
