//! A Gaussian process on sets of tasks: predicts the result of the set as a whole, regardless of each task's part.
//!
//! ```text
//! k(A, A') = s (c + c^4) / 2,   c = <A, A'> / sqrt(<A, A> <A', A'>),   <A, A'> = mean of m(a, a')
//! ```
//!
//! `m` is a Matern kernel of smoothness 3/2 between two members, and `c` the cosine of the mean embeddings of two
//! sets (Muandet et al. 2017, section 3.1): it captures the contribution of each member regardless of its
//! co-runners. For two pairs that share one member, `c` is a half and its fourth power a sixteenth, so the fourth
//! power captures effects that are specific to a pair. On pairs of trainings (Gavel, three GPUs, 3 draws of 20 to
//! 125 that no table uses), the square instead of the fourth power gave an error of 19.1 % instead of 17.7 with 20
//! pairs of a V100, and the same elsewhere; `c` alone gave 16.8 with 125 pairs, instead of 10.1 with both terms.

use doc::params::Matern;
use math::{Cholesky, wide};

use super::effects::{IDENTITIES, LENGTHS, NOISES, Tried, most_probable};
use super::{MOST_POINTS, matern};

/// Numbers that describe a member: its kind, then its coordinates.
pub(crate) const MEMBER: usize = 5;
/// Maximum number of distinct members in all sets of a process, which bounds the buffer of a prediction: that of
/// [`MOST_POINTS`] pairs.
const MOST_MEMBERS: usize = 2 * MOST_POINTS;

/// Sets of members, each stored once.
#[derive(Debug, Clone, Default)]
pub(crate) struct Members {
    /// Column by column: the kind, then the coordinates.
    columns: [Vec<f64>; MEMBER],
    /// Positions of the members of all sets, one set after another; `ends`: the end of each set.
    of: Vec<usize>,
    ends: Vec<usize>,
}

impl Members {
    /// Adds a set; returns `false` if there is no room for it.
    pub fn push(&mut self, set: &[[f64; MEMBER]]) -> bool {
        let new = |m: &&[f64; MEMBER]| self.position(m).is_none();
        if self.len() == MOST_POINTS
            || self.columns[0].len() + set.iter().filter(new).count() > MOST_MEMBERS
        {
            return false;
        }
        for member in set {
            let at = self.position(member).unwrap_or_else(|| {
                for (column, v) in self.columns.iter_mut().zip(member) {
                    column.push(*v);
                }
                self.columns[0].len() - 1
            });
            self.of.push(at);
        }
        self.ends.push(self.of.len());
        true
    }

    fn position(&self, member: &[f64; MEMBER]) -> Option<usize> {
        let same = |k: &usize| self.columns.iter().zip(member).all(|(c, v)| c[*k] == *v);
        (0..self.columns[0].len()).find(same)
    }

    /// Number of sets.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    fn set(&self, k: usize) -> &[usize] {
        let first = k.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.of[first..self.ends[k]]
    }

    fn member(&self, k: usize) -> [f64; MEMBER] {
        std::array::from_fn(|c| self.columns[c][k])
    }

    /// One over the standard deviation of each coordinate; 1 for the kind.
    fn units(&self) -> [f64; MEMBER] {
        let mut units = [1.0; MEMBER];
        let n = self.of.len() as f64;
        for (unit, column) in units.iter_mut().zip(&self.columns).skip(1) {
            let of = || self.of.iter().map(|k| column[*k]);
            let mean = of().sum::<f64>() / n;
            let sd = (of().map(|v| (v - mean) * (v - mean)).sum::<f64>() / n).sqrt();
            *unit = if sd > 1e-9 { 1.0 / sd } else { 1.0 };
        }
        units
    }

    /// Cosines of every two sets, row-major.
    fn cosines(&self, inverse_length: &[f64; MEMBER]) -> Vec<f64> {
        let (m, n) = (self.columns[0].len(), self.len());
        let mut alike = vec![0.0; m * m];
        for (k, row) in alike.chunks_exact_mut(m).enumerate() {
            row_of(self, inverse_length, &self.member(k), row);
        }
        let alike = &alike;
        let mut all = vec![0.0; n * n];
        for i in 0..n {
            for j in 0..=i {
                let (a, b) = (self.set(i), self.set(j));
                let sum: f64 = a
                    .iter()
                    .flat_map(|a| b.iter().map(move |b| alike[a * m + b]))
                    .sum();
                all[i * n + j] = sum;
            }
        }
        // Sums instead of means, because the number of members cancels in the cosine.
        let norm: Vec<f64> = (0..n).map(|i| all[i * n + i].sqrt()).collect();
        for i in 0..n {
            for j in 0..=i {
                all[i * n + j] /= norm[i] * norm[j];
                all[j * n + i] = all[i * n + j];
            }
        }
        all
    }
}

wide! {
    /// Kernel of a member with all members, written to `row`.
    fn row_of(members: &Members, inverse_length: &[f64; MEMBER], member: &[f64; MEMBER], row: &mut [f64]) {
        let (who, w) = (&members.columns[0], inverse_length[0]);
        // Two different kinds differ by one unit in each of their two indicators, as in the kernel of two groups.
        for (r, v) in row.iter_mut().zip(who) {
            *r = if *v == member[0] { 0.0 } else { 2.0 * w * w };
        }
        for c in 1..MEMBER {
            let (w, at) = (inverse_length[c], member[c]);
            for (r, v) in row.iter_mut().zip(&members.columns[c]) {
                let d = w * (v - at);
                *r += d * d;
            }
        }
        matern::of(Matern::ThreeHalves, row);
    }
}

/// `(c + c^4) / 2`.
fn kernel(cosine: f64) -> f64 {
    let square = cosine * cosine;
    0.5 * (cosine + square * square)
}

/// Lengths and noise of the process.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct SetHyper {
    pub inverse_length: [f64; MEMBER],
    /// Variance of the noise over that of the function.
    pub noise: f64,
    pub signal: f64,
}

impl SetHyper {
    /// The most probable hyper-parameters, on the same grid as for the process of all tasks.
    pub fn most_probable(members: &Members, y: &[f64], factors: &[f64]) -> Self {
        let units = members.units();
        let lengths = |[length, _, identity]: [usize; 3]| {
            let mut w = units.map(|u| u / LENGTHS[length]);
            w[0] *= IDENTITIES[identity];
            w
        };
        // Grid points that differ only in the noise have the same cosines, so keep the last ones.
        let mut last: Option<([f64; MEMBER], Vec<f64>)> = None;
        let (at, signal) = most_probable(|place| {
            let w = lengths(place);
            let cosines = match last.take() {
                Some((of, cosines)) if of == w => cosines,
                _ => members.cosines(&w),
            };
            let tried = Tried::of(y, covariance(&cosines, NOISES[place[1]], factors));
            last = Some((w, cosines));
            tried
        });
        Self {
            inverse_length: lengths(at),
            noise: NOISES[at[1]],
            signal,
        }
    }
}

fn covariance(cosines: &[f64], noise: f64, factors: &[f64]) -> Vec<f64> {
    let mut all: Vec<f64> = cosines.iter().map(|c| kernel(*c)).collect();
    for (i, f) in factors.iter().enumerate() {
        all[i * (factors.len() + 1)] += noise * f;
    }
    all
}

/// A conditioned process, which gives the mean at any set.
#[derive(Debug, Clone)]
pub(crate) struct SetGp {
    pub inverse_length: [f64; MEMBER],
    pub weights: Vec<f64>,
    members: Members,
    /// One over the norm of each set, times its weight.
    cosine: Vec<f64>,
}

impl SetGp {
    /// Uses the weights of a stored model.
    pub fn with_weights(
        members: Members,
        inverse_length: [f64; MEMBER],
        weights: Vec<f64>,
    ) -> Self {
        let norm = |k| {
            let set: Vec<_> = members.set(k).iter().map(|m| members.member(*m)).collect();
            1.0 / norm(&set, &inverse_length)
        };
        Self {
            cosine: (0..members.len()).map(norm).collect(),
            inverse_length,
            weights,
            members,
        }
    }

    /// The process conditioned on an observation of each set, and the leave-one-out residual and variance of each
    /// (Rasmussen and Williams, equation 5.12).
    pub fn condition(
        members: &Members,
        hyper: &SetHyper,
        y: &[f64],
        factors: &[f64],
    ) -> Option<(Self, Vec<(f64, f64)>)> {
        let n = y.len();
        let cosines = members.cosines(&hyper.inverse_length);
        let factor = Cholesky::new(covariance(&cosines, hyper.noise, factors), n).ok()?;
        let mut weights = y.to_vec();
        factor.solve(&mut weights);
        let each = weights.iter().zip(factor.inverse_diagonal());
        let left_out = each.map(|(w, q)| (w / q, hyper.signal / q)).collect();
        Some((
            Self::with_weights(members.clone(), hyper.inverse_length, weights),
            left_out,
        ))
    }

    /// Mean at a set. Allocates nothing.
    pub fn mean(&self, set: &[[f64; MEMBER]]) -> f64 {
        let m = self.members.columns[0].len();
        let mut sum = [0.0; MOST_MEMBERS];
        let mut row = [0.0; MOST_MEMBERS];
        for member in set {
            row_of(&self.members, &self.inverse_length, member, &mut row[..m]);
            for (s, r) in sum[..m].iter_mut().zip(&row) {
                *s += r;
            }
        }
        let own = 1.0 / norm(set, &self.inverse_length);
        let mut first = 0;
        let each = self
            .members
            .ends
            .iter()
            .zip(&self.cosine)
            .zip(&self.weights);
        each.map(|((end, cosine), weight)| {
            let of = &self.members.of[first..*end];
            first = *end;
            weight * kernel(own * cosine * of.iter().map(|k| sum[*k]).sum::<f64>())
        })
        .sum()
    }
}

/// `sqrt(<A, A>)`, with sums instead of means.
fn norm(set: &[[f64; MEMBER]], inverse_length: &[f64; MEMBER]) -> f64 {
    let mut sum = set.len() as f64;
    for (k, a) in set.iter().enumerate() {
        for b in &set[..k] {
            let w = inverse_length;
            let mut r2 = if a[0] == b[0] { 0.0 } else { 2.0 * w[0] * w[0] };
            for c in 1..MEMBER {
                r2 += (w[c] * (a[c] - b[c])).powi(2);
            }
            let mut alike = [r2];
            matern::of(Matern::ThreeHalves, &mut alike);
            sum += 2.0 * alike[0];
        }
    }
    sum.sqrt()
}
