use units::corun::Throughput;

use super::additive::Additive;
use super::shortlist::Shortlist;
use crate::search::instance::Fold;
use crate::search::point::Point;
use crate::tolerance::TOLERANCE;

/// Outcome of a search that may be cut short.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Effort {
    /// Number of nodes and points evaluated.
    pub points: u64,
    /// Whether all other points were excluded by bounds.
    pub complete: bool,
    /// No point is better than this.
    pub bound: f64,
}

/// Branch and bound over the shares and the batch sizes of an [`Additive`] problem.
///
/// For a fixed sum `V` of levels, the interference on task `i` at level `l` is at least that of the other
/// `V - l` levels when they are spread so that they disturb `i` least. Therefore a table `suffix[k][v]` of the
/// maximum gain of tasks `k..` on `v` levels bounds every completion. Once the levels of tasks `..k` are
/// chosen, the lower bound on their own interference is that of the chosen tasks plus the minimum that the
/// remaining levels must add. Both bounds are relaxations, so a node that they exclude cannot beat the
/// incumbent.
struct Tree<'t, 'a, 'b, C: Throughput + ?Sized> {
    law: &'t Additive<'a, 'b, C>,
    list: &'t mut Shortlist,
    /// `least[(k * n + i) * width + v]`: minimum interference on task `i` by the tasks `k..` other than `i`,
    /// when these have `v` levels in total.
    least: Vec<f64>,
    /// Largest total number of levels, plus 1.
    width: usize,
    suffix: Vec<f64>,
    levels: Vec<u16>,
    /// Batch index of each task.
    picks: Vec<u8>,
    /// Minimum memory of the tasks from each index on.
    rest_memory: Vec<f64>,
    /// Interference on each task by the tasks chosen so far, one row for each depth.
    x: Vec<f64>,
    points: u64,
    most_points: u64,
}

/// Resources used by the batch sizes chosen so far.
#[derive(Debug, Clone, Copy, Default)]
struct Used {
    memory: f64,
    mismatch: f64,
}

/// Adds the best points to `list`; stops early after `most_points` nodes and points.
pub(crate) fn branch_and_bound<C: Throughput + ?Sized>(
    law: &Additive<'_, '_, C>,
    list: &mut Shortlist,
    most_points: u64,
) -> Effort {
    let n = law.inst.n;
    let sums = law.inst.sums();
    let width = n * usize::from(law.inst.levels) + 1;
    let mut tree = Tree {
        least: least_interference(law, width),
        width,
        suffix: Vec::new(),
        levels: vec![1; n],
        picks: vec![0; n],
        rest_memory: law.inst.rest_memory(),
        x: vec![0.0; (n + 1) * n],
        points: 0,
        most_points,
        law,
        list,
    };
    // Search the sums in order of their bounds: good points of the first sums prune the others at their roots.
    let mut roots: Vec<(f64, u32)> = sums
        .into_iter()
        .map(|sum| (tree.root(sum), sum))
        .filter(|(bound, _)| *bound > f64::NEG_INFINITY)
        .collect();
    roots.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let top = roots.first().map_or(f64::NEG_INFINITY, |r| r.0);
    let mut complete = true;
    for (bound, sum) in roots {
        // The bounds decrease from here on, so no later sum can contain a better point either.
        if bound <= tree.list.cutoff() {
            break;
        }
        // The suffix table holds one sum at a time, and the other roots have overwritten it: fill it again.
        tree.root(sum);
        tree.descend(0, sum, Used::default());
        if tree.points >= tree.most_points {
            complete = false;
            break;
        }
    }
    let found = tree.list.best().map_or(f64::NEG_INFINITY, |b| b.0);
    Effort {
        points: tree.points,
        complete,
        bound: if complete { found } else { top },
    }
}

fn least_interference<C: Throughput + ?Sized>(law: &Additive<'_, '_, C>, width: usize) -> Vec<f64> {
    let n = law.inst.n;
    let mut least = vec![f64::INFINITY; n * n * width];
    let mut below = vec![f64::INFINITY; width];
    let mut here = below.clone();
    for i in 0..n {
        below.fill(f64::INFINITY);
        below[0] = 0.0;
        for k in (0..n).rev() {
            if k != i {
                here.fill(f64::INFINITY);
                for level in 1..=law.inst.levels {
                    let add = law.coupling[i * n + k] * law.least_demand(k, level);
                    let shift = usize::from(level);
                    for v in shift..width {
                        here[v] = here[v].min(below[v - shift] + add);
                    }
                }
                std::mem::swap(&mut here, &mut below);
            }
            least[(k * n + i) * width..][..width].copy_from_slice(&below);
        }
    }
    least
}

impl<C: Throughput + ?Sized> Tree<'_, '_, '_, C> {
    /// Prepares the suffix table for a sum of levels and returns the bound at the root.
    fn root(&mut self, sum: u32) -> f64 {
        let n = self.law.inst.n;
        let levels = u32::from(self.law.inst.levels);
        let width = self.width;
        let fold = self.law.inst.fold();
        self.suffix.clear();
        self.suffix.resize((n + 1) * width, f64::NEG_INFINITY);
        self.suffix[n * width] = fold.start();
        for i in (0..n).rev() {
            let rest = (n - 1 - i) as u32;
            for level in 1..=levels.min(sum.saturating_sub(n as u32 - 1)) {
                let x = self.least[i * self.width + (sum - level) as usize];
                let gain = self.law.top(i, level as u16, x);
                for v in (level + rest)..=sum.min(level + rest * levels) {
                    let below = self.suffix[(i + 1) * width + (v - level) as usize];
                    let cell = &mut self.suffix[i * width + v as usize];
                    *cell = cell.max(fold.join(gain, below));
                }
            }
        }
        self.suffix[sum as usize]
    }

    /// Tries every level of task `k` with `left` levels for tasks `k..`.
    fn descend(&mut self, k: usize, left: u32, used: Used) {
        let n = self.law.inst.n;
        let most = u32::from(self.law.inst.levels);
        let rest = (n - 1 - k) as u32;
        let from = left.saturating_sub(rest * most).max(1);
        for level in from..=most.min(left.saturating_sub(rest)) {
            self.levels[k] = level as u16;
            // Large batch sizes first, because they usually gain most.
            for b in (0..self.law.inst.batches[k].len() as u8).rev() {
                self.picks[k] = b;
                if let Some(used) = self.within(k, b, used) {
                    let w = self.law.demand(k, level as u16, b);
                    self.step(k, left - level, w, used);
                }
            }
        }
    }

    /// Continues with the next task after task `k` was given the demand `w`.
    fn step(&mut self, k: usize, left: u32, w: f64, used: Used) {
        let n = self.law.inst.n;
        if self.points >= self.most_points {
            return;
        }
        // Each depth has its own row, so backtracking has nothing to undo.
        for i in 0..n {
            self.x[(k + 1) * n + i] = self.x[k * n + i] + self.law.coupling[i * n + k] * w;
        }
        if k + 1 < n {
            if self.bound(k + 1, left) > self.list.cutoff() {
                self.descend(k + 1, left, used);
            }
        } else {
            self.leaf();
        }
    }

    /// Resources used with batch index `b` for task `k`; `None` if they exceed a limit.
    fn within(&self, k: usize, b: u8, used: Used) -> Option<Used> {
        let inst = self.law.inst;
        if inst.same && k > 0 && b != self.picks[0] {
            return None;
        }
        let cell = |i: usize, b: u8| i * inst.width + usize::from(b);
        let mut next = used;
        next.memory += inst.memory[cell(k, b)];
        if let Some(load) = inst.load.as_ref().filter(|_| inst.epsilon.is_finite()) {
            let own = load[cell(k, b)];
            for i in 0..k {
                let other = load[cell(i, self.picks[i])];
                next.mismatch += inst.pair_mismatch(k, own, i, other);
            }
        }
        // Safe to prune: the remaining tasks need at least the memory of their smallest sizes, and the mismatch
        // is a sum over pairs of non-negative terms, which further tasks cannot decrease.
        let fits = next.memory + self.rest_memory[k + 1] <= inst.capacity
            && next.mismatch <= inst.epsilon + TOLERANCE;
        fits.then_some(next)
    }

    /// Upper bound on the value of every completion, with tasks `..k` chosen and `left` levels for the rest.
    fn bound(&mut self, k: usize, left: u32) -> f64 {
        let law = self.law;
        let n = law.inst.n;
        let fold: Fold = law.inst.fold();
        let mut total = self.suffix[k * self.width + left as usize];
        self.points += 1;
        let cutoff = self.list.cutoff();
        for i in 0..k {
            let x = self.x[k * n + i] + self.least[(k * n + i) * self.width + left as usize];
            total = fold.join(total, law.gain(i, self.levels[i], self.picks[i], x));
            // A minimum can only decrease with further tasks, but a sum still increases.
            if fold == Fold::Min && total <= cutoff {
                break;
            }
        }
        total
    }

    fn leaf(&mut self) {
        self.points += 1;
        let law = self.law;
        let (n, fold) = (law.inst.n, law.inst.fold());
        let mut value = fold.start();
        for i in 0..n {
            let gain = law.gain(i, self.levels[i], self.picks[i], self.x[n * n + i]);
            value = fold.join(value, gain);
        }
        if value <= self.list.cutoff() || value == f64::NEG_INFINITY {
            return;
        }
        let point = Point {
            batch: self.picks.clone(),
            level: self.levels.clone(),
        };
        if law.inst.load.is_none() && law.inst.epsilon.is_finite() {
            // The mismatch of throughputs is only known once all tasks are chosen.
            let mut rates = vec![0.0; n];
            law.rates(&self.picks, &self.levels, &mut rates);
            if law.inst.judge(&point, &rates).violation > 0.0 {
                return;
            }
        }
        self.list.offer(value, &point);
    }
}
