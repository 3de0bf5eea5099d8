//! The kernel of two groups of features, for one process of all tasks.
//!
//! ```text
//! k(x, x') = s (m(own) + m(others) + m(own) m(others)) / 3
//! ```
//!
//! `m` is a Matern kernel on one group of features: those of the task itself, or those of its co-runners. The
//! function is thus a sum: how much the task is slowed by any co-runner, how much any task is slowed by these
//! co-runners, and an effect of the combination (an additive kernel: Duvenaud, Nickisch and Rasmussen 2011,
//! equation 7). With few co-runs, the two single terms are learnt long before the product: a task that ran with
//! two others informs predictions with a third. On pairs of trainings on a V100 (Gavel), the error was 27 % with
//! 20 pairs and 20 % with 40, against 32 and 24 % with one kernel of all features. The smoothness is 3/2,
//! because the effect of a co-run may change abruptly between batch sizes: with 40 and 125 pairs the error was 4
//! to 5 % lower than with 5/2 on a P100, 2 to 3 % lower on a K80, 1 % lower on a V100 (7 draws that no table
//! uses).

use std::collections::HashMap;

use doc::params::Matern;
use math::Cholesky;

use super::hyper::{Hyper, LEAST_NOISE, Prior, TwoGroups};
use super::matern;
use super::observations::Observations;

/// Grid of length scales, in standard deviations of a feature: from a function that changes with every batch
/// size to one that hardly depends on them. All features share one length: with one length each, twenty pairs of
/// two tasks would have more lengths to learn than co-runs to learn them from.
pub(super) const LENGTHS: [f64; 8] = [0.7, 1.0, 1.5, 2.2, 3.3, 5.0, 8.0, 12.0];
/// Grid of noise variances relative to that of the function: from measurements that repeat to 3 % of the
/// differences between co-runs, to co-runs that no feature explains. At the end of the list the process predicts
/// little more than the mean slow-down.
pub(super) const NOISES: [f64; 7] = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0];
/// Grid of identity distances: the distance between two otherwise equal tasks in each of their indicators, in
/// the unit in which other features have a standard deviation of 1, to be divided by the length. With a choice
/// of three, the error of 10 to 125 pairs (Gavel, three GPUs, 8 draws of each that no table uses) was 2 % lower
/// than with 2 for all; with 0.5 as a fourth choice, 1 % lower.
pub(super) const IDENTITIES: [f64; 3] = [1.0, 2.0, 4.0];
/// Start of the search: the grid point with the highest prior density.
const START: [usize; 3] = [4, 2, 0];
/// Priors of the logarithms of length, noise and identity distance. Unless measurements say otherwise, the
/// length is 3.3, the noise 1 %, and the identity distance 1: with ten pairs, the likelihood alone often prefers
/// an end of the lists. The priors reduced the error from 35.8 to 34.5 % with 10 pairs of a V100, from 25.6 to
/// 23.9 with 20, from 11.4 to 10.9 with 10 of a P100, and changed it by less than 1 % with 40 (Gavel, 16 draws
/// that no table uses).
const PRIORS: [Prior; 3] = [
    Prior {
        mean: 1.2,
        sd: 0.25,
    },
    Prior {
        mean: -4.6,
        sd: 0.7,
    },
    Prior { mean: 0.0, sd: 1.0 },
];
/// Prior of the signal: an inverse gamma distribution that has the weight of `PRIOR_COUNT` observations with
/// variance `PRIOR_VARIANCE`, a spread of 20 % between co-runs. It matters with fewer observations than that,
/// where the fit could drive the signal to 0. Chosen by hand. On six simulated mixes with 10, 40 and 80 co-runs,
/// half and a quarter of the variance changed no held-out error; twice the variance changed one of 18 by 0.02 %,
/// and four times raised three of the six errors with 10 co-runs, by 0.4 % at most.
const PRIOR_COUNT: f64 = 4.0;
const PRIOR_VARIANCE: f64 = 0.04;

/// The two groups of features: the task's own first, then those of the others.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Groups<'a> {
    /// Features of the task itself, which come first.
    pub own: usize,
    /// Whether each feature identifies a task. The unit of such a feature is 1 and not its spread.
    pub identity: &'a [bool],
}

/// `s (a + b + a b) / 3`.
#[inline(always)]
pub(super) fn join(own: &mut [f64], others: &[f64], signal: f64) {
    for (a, b) in own.iter_mut().zip(others) {
        *a = signal * (1.0 / 3.0) * (*a + b + *a * b);
    }
}

math::wide! {
/// Lower triangle of the covariance, noise included, row-major. `scaled` are the columns, each
/// times its inverse length.
pub(super) fn covariance(obs: &Observations, scaled: &[f64], of: TwoGroups, signal: f64, noise: f64) -> Vec<f64> {
    let n = obs.len();
    let mut cov = vec![0.0; n * n];
    let mut rest = vec![0.0; n];
    for i in 0..n {
        let row = &mut cov[i * n..i * n + i];
        let rest = &mut rest[..i];
        rest.fill(0.0);
        for (f, x) in scaled.chunks_exact(n).enumerate() {
            let into = if f < of.own { &mut *row } else { &mut *rest };
            let at = x[i];
            for (r, v) in into.iter_mut().zip(x) {
                *r += (at - v) * (at - v);
            }
        }
        matern::of(of.matern, row);
        matern::of(of.matern, rest);
        join(row, rest, signal);
        cov[i * n + i] = signal + (noise + LEAST_NOISE) * obs.noise_factor[i];
    }
    cov
}
}

/// Result of trying a grid point: minus the logarithm of the posterior density at the most probable signal, and
/// that signal.
pub(super) struct Tried {
    cost: f64,
    signal: f64,
}

impl Tried {
    /// For `y` with this covariance of signal 1, noise included (Rasmussen and Williams, equation 5.8),
    /// at the best signal under an inverse-gamma prior.
    pub(super) fn of(y: &[f64], covariance: Vec<f64>) -> Self {
        let n = y.len();
        let Ok(factor) = Cholesky::new(covariance, n) else {
            return Tried {
                cost: f64::INFINITY,
                signal: PRIOR_VARIANCE,
            };
        };
        let mut alpha = y.to_vec();
        factor.solve(&mut alpha);
        let fit: f64 = y.iter().zip(&alpha).map(|(a, b)| a * b).sum();
        let count = n as f64 + PRIOR_COUNT;
        let signal = (fit + PRIOR_COUNT * PRIOR_VARIANCE) / count;
        Tried {
            cost: 0.5 * (count * signal.ln() + factor.log_det()),
            signal,
        }
    }
}

impl Hyper {
    /// The most probable hyper-parameters of the kernel of two groups, from a grid.
    pub fn of_groups(obs: &Observations, groups: Groups<'_>) -> Hyper {
        let spread = obs.spreads();
        let unit = |[length, _, identity]: [usize; 3]| -> Vec<f64> {
            let each = spread.iter().zip(groups.identity);
            each.map(|(s, named)| {
                if *named {
                    IDENTITIES[identity]
                } else {
                    1.0 / s
                }
            })
            .map(|w| w / LENGTHS[length])
            .collect()
        };
        let of = TwoGroups {
            own: groups.own,
            matern: Matern::ThreeHalves,
        };
        let (at, signal) = most_probable(|place| try_out(obs, &unit(place), of, NOISES[place[1]]));
        Hyper {
            inverse_length: unit(at),
            signal,
            noise: NOISES[at[1]] * signal,
            groups: Some(of),
        }
    }
}

/// The most probable place of the grid of lengths, noises and identities, and the signal there.
pub(super) fn most_probable(mut try_out: impl FnMut([usize; 3]) -> Tried) -> ([usize; 3], f64) {
    let ends = [LENGTHS.len(), NOISES.len(), IDENTITIES.len()];
    let mut tried: HashMap<[usize; 3], Tried> = HashMap::new();
    let mut at = START;
    // Coordinate search: go to the best neighbour along one axis until none is better, instead of trying all 168
    // grid points, each of which costs a factorisation. This assumes that the posterior has one mode.
    loop {
        let mut best = (f64::INFINITY, at);
        for place in neighbours(at, ends) {
            let found = tried.entry(place).or_insert_with(|| {
                let mut found = try_out(place);
                found.cost += improbable(place);
                found
            });
            if found.cost < best.0 {
                best = (found.cost, place);
            }
        }
        if best.1 == at {
            break;
        }
        at = best.1;
    }
    (at, tried.get(&at).map_or(PRIOR_VARIANCE, |t| t.signal))
}

/// Minus the logarithm of the prior density at a place of the grid.
fn improbable([length, noise, identity]: [usize; 3]) -> f64 {
    let at = [LENGTHS[length], NOISES[noise], IDENTITIES[identity]];
    let of = |(value, p): (f64, Prior)| 0.5 * ((value.ln() - p.mean) / p.sd).powi(2);
    at.into_iter().zip(PRIORS).map(of).sum()
}

/// A place of a grid, and those one step away along one axis.
fn neighbours(at: [usize; 3], ends: [usize; 3]) -> Vec<[usize; 3]> {
    let mut all = vec![at];
    for axis in 0..3 {
        for to in [at[axis].wrapping_sub(1), at[axis] + 1] {
            if to < ends[axis] {
                let mut place = at;
                place[axis] = to;
                all.push(place);
            }
        }
    }
    all
}

/// The posterior at one grid point.
fn try_out(obs: &Observations, inverse_length: &[f64], of: TwoGroups, noise: f64) -> Tried {
    let n = obs.len();
    let mut scaled = obs.columns.clone();
    for (k, w) in inverse_length.iter().enumerate() {
        for v in &mut scaled[k * n..(k + 1) * n] {
            *v *= w;
        }
    }
    Tried::of(&obs.y, covariance(obs, &scaled, of, 1.0, noise))
}
