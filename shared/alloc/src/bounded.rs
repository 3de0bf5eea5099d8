use crate::CoRun;
use crate::additive::Additive;
use crate::instance::{Fold, Point};
use crate::shortlist::Shortlist;

/// Outcome of a search that may be cut short.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Effort {
    /// Nodes and points looked at.
    pub points: u64,
    /// Whether everything else was excluded.
    pub complete: bool,
    /// No point is better than this.
    pub bound: f64,
}

/// Branch and bound over the shares of an [`Additive`] problem.
///
/// For a fixed sum `V` of levels the interference on task `i` at level `l` is at least what the
/// other `V - l` levels add when they go to the tasks that disturb `i` least. So a table
/// `suffix[k][v]` of what tasks `k..` gain at most on `v` levels bounds every completion; with
/// the levels of tasks `..k` chosen, their interference is known up to the least that the
/// remaining levels must add. Both bounds are relaxations: whatever they exclude cannot beat the
/// incumbent.
struct Tree<'t, 'a, 'b, C: CoRun + ?Sized> {
    law: &'t mut Additive<'a, 'b, C>,
    list: &'t mut Shortlist,
    /// `least[(k * n + i) * width + v]`: least interference on task `i` by the tasks `k..` but
    /// `i` when these have `v` levels.
    least: Vec<f64>,
    /// Largest number of levels plus 1.
    width: usize,
    suffix: Vec<f64>,
    levels: Vec<u16>,
    /// Interference by the tasks chosen so far, one row for each depth.
    x: Vec<f64>,
    points: u64,
    most_points: u64,
}

/// Finds the best points, or as many as `most_points` allows.
pub(crate) fn branch_and_bound<C: CoRun + ?Sized>(
    law: &mut Additive<'_, '_, C>,
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
        x: vec![0.0; (n + 1) * n],
        points: 0,
        most_points,
        law,
        list,
    };
    // Sums in order of promise: the first good ones make the rest fall at their root.
    let mut roots: Vec<(f64, u32)> = sums
        .into_iter()
        .map(|sum| (tree.root(sum), sum))
        .filter(|(bound, _)| *bound > f64::NEG_INFINITY)
        .collect();
    roots.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let top = roots.first().map_or(f64::NEG_INFINITY, |r| r.0);
    let mut complete = true;
    for (bound, sum) in roots {
        if bound <= tree.list.cutoff() {
            break;
        }
        tree.root(sum);
        tree.descend(0, sum);
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

fn least_interference<C: CoRun + ?Sized>(law: &Additive<'_, '_, C>, width: usize) -> Vec<f64> {
    let n = law.inst.n;
    let mut least = vec![0.0; n * n * width];
    for k in 0..n {
        for i in 0..n {
            let row = &mut least[(k * n + i) * width..][..width];
            let mut others: Vec<f64> = (k..n)
                .filter(|&j| j != i)
                .map(|j| law.coupling[i * n + j])
                .collect();
            others.sort_by(f64::total_cmp);
            // One level each, then the cheapest first.
            let base: f64 = others.iter().sum();
            let spare = usize::from(law.inst.levels) - 1;
            let mut added = others.iter().flat_map(|&c| std::iter::repeat_n(c, spare));
            let mut x = base;
            for cell in row.iter_mut().skip(others.len()) {
                *cell = x;
                x += added.next().unwrap_or(0.0);
            }
        }
    }
    least
}

impl<C: CoRun + ?Sized> Tree<'_, '_, '_, C> {
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
                let (gain, _) = self.law.top(i, level as u16, x);
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
    fn descend(&mut self, k: usize, left: u32) {
        let n = self.law.inst.n;
        let most = u32::from(self.law.inst.levels);
        let rest = (n - 1 - k) as u32;
        let from = left.saturating_sub(rest * most).max(1);
        let to = most.min(left.saturating_sub(rest));
        for level in from..=to {
            if self.points >= self.most_points {
                return;
            }
            self.levels[k] = level as u16;
            for i in 0..n {
                self.x[(k + 1) * n + i] =
                    self.x[k * n + i] + self.law.coupling[i * n + k] * f64::from(level);
            }
            if k + 1 == n {
                self.leaf();
            } else if self.bound(k + 1, left - level) > self.list.cutoff() {
                self.descend(k + 1, left - level);
            }
        }
    }

    /// Most that any completion of levels `..k` reaches with `left` levels for the rest.
    fn bound(&mut self, k: usize, left: u32) -> f64 {
        let n = self.law.inst.n;
        let fold: Fold = self.law.inst.fold();
        let mut total = self.suffix[k * self.width + left as usize];
        self.points += 1;
        let cutoff = self.list.cutoff();
        for i in 0..k {
            let x = self.x[k * n + i] + self.least[(k * n + i) * self.width + left as usize];
            total = fold.join(total, self.law.top(i, self.levels[i], x).0);
            if fold == Fold::Min && total <= cutoff {
                break;
            }
        }
        total
    }

    fn leaf(&mut self) {
        let n = self.law.inst.n;
        self.points += 1;
        let x = &self.x[n * n..];
        let cutoff = self.list.cutoff();
        if self.list.most() == 1 {
            if let Some(value) = self.law.best_at(&self.levels, x, cutoff) {
                let point = Point {
                    batch: self.law.picks().to_vec(),
                    level: self.levels.clone(),
                };
                self.list.offer(value, &point);
            }
            return;
        }
        let list = &mut *self.list;
        self.law.offer_all(&self.levels, x, cutoff, |value, point| {
            list.offer(value, point);
            list.cutoff()
        });
    }
}
