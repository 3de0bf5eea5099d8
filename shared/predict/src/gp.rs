//! Gaussian-process regression with a Matern kernel and one length per feature.
//!
//! Rasmussen and Williams, *Gaussian Processes for Machine Learning*, equations 2.23-2.26 (mean
//! and variance), 2.30 and 5.9 (marginal likelihood and its gradient), 5.12 (leave-one-out).

mod effects;
pub(crate) mod matern;
mod sparse;

use std::ops::Range;

use crate::model::MOST_POINTS;

use math::optimise::minimise;
use math::{Cholesky, NotPositiveDefinite, dot, wide};

/// Hyper-parameters: all positive.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Hyper {
    /// One over the length of each feature, in the feature's own unit.
    pub inverse_length: Vec<f64>,
    /// Prior variance of the function.
    pub signal: f64,
    /// Variance of the noise of one observation.
    pub noise: f64,
    /// In the kernel of two groups ([`effects`]); `None`: one Matern 5/2 kernel of all features.
    pub groups: Option<TwoGroups>,
}

/// Observations: feature-major inputs, targets, and a factor on the noise variance of each.
#[derive(Debug, Clone)]
pub(crate) struct Observations {
    pub features: usize,
    /// `features` columns of `len` numbers.
    pub columns: Vec<f64>,
    pub y: Vec<f64>,
    pub noise_factor: Vec<f64>,
}

impl Observations {
    /// From rows of equal length.
    pub fn new(rows: &[Vec<f64>], y: Vec<f64>) -> Self {
        let n = rows.len();
        let features = rows.first().map_or(0, Vec::len);
        let mut columns = vec![0.0; n * features];
        for (i, row) in rows.iter().enumerate() {
            for (k, v) in row.iter().enumerate() {
                columns[k * n + i] = *v;
            }
        }
        Self {
            features,
            columns,
            noise_factor: vec![1.0; n],
            y,
        }
    }

    pub fn len(&self) -> usize {
        self.y.len()
    }

    fn column(&self, k: usize) -> &[f64] {
        let n = self.len();
        &self.columns[k * n..(k + 1) * n]
    }

    /// The observations at the given places.
    pub fn subset(&self, at: &[usize]) -> Self {
        let pick = |v: &[f64]| at.iter().map(|&i| v[i]).collect::<Vec<f64>>();
        Self {
            features: self.features,
            columns: (0..self.features)
                .flat_map(|k| pick(self.column(k)))
                .collect(),
            y: pick(&self.y),
            noise_factor: pick(&self.noise_factor),
        }
    }
}

pub(crate) use effects::{Groups, TwoGroups};
pub(crate) use sparse::sparse;

/// Added to the noise so that repeated configurations keep the covariance definite.
const LEAST_NOISE: f64 = 1e-9;

/// Part of the log posterior whose gain ends the search for hyper-parameters: a thousandth or two
/// of what one observation is worth.
const SLIGHT: f64 = 1e-5;

/// Prior on the logarithm of a hyper-parameter: normal.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Prior {
    pub mean: f64,
    pub sd: f64,
}

/// Priors of the hyper-parameters; they keep small data sets from silly optima.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Priors {
    /// Of `ln(inverse_length * spread of the feature)`.
    pub inverse_length: Prior,
    /// Of `ln signal`.
    pub signal: Prior,
    /// Of `ln noise`.
    pub noise: Prior,
}

/// `sum_j w_j (at - x_j)^2`, in eight independent sums.
#[inline(always)]
fn weighted_gaps(w: &[f64], x: &[f64], at: f64) -> f64 {
    let mut acc = [0.0; 8];
    let (cw, cx) = (w.chunks_exact(8), x.chunks_exact(8));
    let rest = cw.remainder().iter().zip(cx.remainder());
    let rest: f64 = rest.map(|(w, x)| w * (at - x) * (at - x)).sum();
    for (w, x) in cw.zip(cx) {
        for k in 0..8 {
            acc[k] += w[k] * (at - x[k]) * (at - x[k]);
        }
    }
    acc.iter().sum::<f64>() + rest
}

wide! {
/// Lower triangles of the covariance (noise included) and of its slope, row-major: `-2 dK/d(r2)`,
/// which multiplied by the squared distance along a feature gives minus the derivative by the
/// logarithm of that feature's inverse length.
fn covariance(obs: &Observations, scaled: &[f64], signal: f64, noise: f64) -> [Vec<f64>; 2] {
    let n = obs.len();
    let mut cov = vec![0.0; n * n];
    let mut slope = vec![0.0; n * n];
    for i in 0..n {
        let (row, h) = (&mut cov[i * n..i * n + i], &mut slope[i * n..i * n + i]);
        for x in scaled.chunks_exact(n) {
            let at = x[i];
            for (r, v) in row.iter_mut().zip(x) {
                *r += (at - v) * (at - v);
            }
        }
        for (r, s) in row.iter_mut().zip(h) {
            (*r, *s) = matern::with_slope(*r, signal);
        }
        cov[i * n + i] = signal + (noise + LEAST_NOISE) * obs.noise_factor[i];
    }
    [cov, slope]
}
}

/// What the gradient of the likelihood is made of; lower triangles, row-major.
struct Evaluation<'a> {
    scaled: &'a [f64],
    kernel: &'a [f64],
    slope: &'a [f64],
    inverse: &'a [f64],
    alpha: &'a [f64],
    signal: f64,
    noise: f64,
}

wide! {
/// Adds the derivatives of `(y^T K^-1 y + ln det K) / 2`: each is `tr (K^-1 - a a^T) dK / 2` with
/// `a = K^-1 y`.
fn gradient(obs: &Observations, e: &Evaluation<'_>, grad: &mut [f64]) {
    let (n, d) = (obs.len(), obs.features);
    let mut m = vec![0.0; n];
    for i in 0..n {
        // Up to here `m` is still zero: nothing is added, and no loop runs over what is left.
        let whole = i.next_multiple_of(8).min(n);
        let m = &mut m[..whole];
        for ((m, inv), a) in m[..i].iter_mut().zip(&e.inverse[i * n..]).zip(e.alpha) {
            *m = inv - e.alpha[i] * a;
        }
        let diagonal = 0.5 * (e.inverse[i * n + i] - e.alpha[i] * e.alpha[i]);
        grad[d + 1] += diagonal * e.noise * obs.noise_factor[i];
        grad[d] += diagonal * e.signal + dot(&m[..i], &e.kernel[i * n..i * n + i]);
        for (m, h) in m[..i].iter_mut().zip(&e.slope[i * n..]) {
            *m *= h;
        }
        for (g, x) in grad.iter_mut().zip(e.scaled.chunks_exact(n)) {
            *g -= weighted_gaps(m, &x[..whole], x[i]);
        }
    }
}
}

/// Negative log posterior of the logarithms `theta` of the hyper-parameters and its gradient.
/// Infinite where the covariance has no factor.
fn objective(
    obs: &Observations,
    spread: &[f64],
    priors: &Priors,
    theta: &[f64],
    grad: &mut [f64],
) -> f64 {
    let (n, d) = (obs.len(), obs.features);
    let (signal, noise) = (theta[d].exp(), theta[d + 1].exp());
    let mut scaled = obs.columns.clone();
    for k in 0..d {
        let w = theta[k].exp() / spread[k];
        for v in &mut scaled[k * n..(k + 1) * n] {
            *v *= w;
        }
    }
    let [cov, slope] = covariance(obs, &scaled, signal, noise);
    let kernel = cov.clone();
    let Ok(chol) = Cholesky::new(cov, n) else {
        return f64::INFINITY;
    };
    let mut alpha = obs.y.clone();
    chol.solve(&mut alpha);
    let inverse = chol.inverse();
    let fit: f64 = obs.y.iter().zip(&alpha).map(|(a, b)| a * b).sum();
    let mut cost = 0.5 * (fit + chol.log_det());
    grad.fill(0.0);
    let now = Evaluation {
        scaled: &scaled,
        kernel: &kernel,
        slope: &slope,
        inverse: &inverse,
        alpha: &alpha,
        noise,
        signal,
    };
    gradient(obs, &now, grad);
    let mut prior = |k: usize, p: Prior| {
        let z = (theta[k] - p.mean) / p.sd;
        cost += 0.5 * z * z;
        grad[k] += z / p.sd;
    };
    for k in 0..d {
        prior(k, priors.inverse_length);
    }
    prior(d, priors.signal);
    prior(d + 1, priors.noise);
    cost
}

/// Standard deviation of each feature; 1 where it is constant.
pub(crate) fn spreads(obs: &Observations) -> Vec<f64> {
    let n = obs.len() as f64;
    (0..obs.features)
        .map(|k| {
            let x = obs.column(k);
            let mean = x.iter().sum::<f64>() / n;
            let sd = (x.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / n).sqrt();
            if sd > 1e-9 { sd } else { 1.0 }
        })
        .collect()
}

impl Hyper {
    /// The most probable hyper-parameters given the observations, by L-BFGS on the marginal
    /// likelihood; `start` continues from earlier ones.
    pub fn most_probable(
        obs: &Observations,
        priors: &Priors,
        start: Option<&Hyper>,
        evaluations: usize,
    ) -> Hyper {
        let d = obs.features;
        let spread = spreads(obs);
        let mut theta = vec![priors.inverse_length.mean; d + 2];
        (theta[d], theta[d + 1]) = (priors.signal.mean, priors.noise.mean);
        if let Some(h) = start {
            for k in 0..d {
                theta[k] = (h.inverse_length[k] * spread[k]).ln();
            }
            (theta[d], theta[d + 1]) = (h.signal.ln(), h.noise.ln());
        }
        let best = minimise(
            |t, g| objective(obs, &spread, priors, t, g),
            &theta,
            evaluations,
            SLIGHT,
        );
        Hyper {
            inverse_length: (0..d).map(|k| best.x[k].exp() / spread[k]).collect(),
            signal: best.x[d].exp(),
            noise: best.x[d + 1].exp(),
            groups: None,
        }
    }
}

/// Points whose distances are worked out together.
const TILE: usize = 8;

/// Points of whole tiles.
const fn padded(n: usize) -> usize {
    n.div_ceil(TILE) * TILE
}

/// A conditioned process: points, weights, and the factor of their covariance.
#[derive(Debug, Clone)]
pub(crate) struct Gp {
    pub hyper: Hyper,
    /// Inputs, each feature times its inverse length, in tiles of [`TILE`] points: within a tile
    /// feature by feature. The last tile is filled up with zeros.
    tiles: Vec<f64>,
    pub alpha: Vec<f64>,
    chol: Cholesky,
}

impl Gp {
    /// Conditions on observations.
    pub fn new(hyper: Hyper, obs: &Observations) -> Result<Self, NotPositiveDefinite> {
        let mut gp = Self::with_weights(hyper, obs, Vec::new())?;
        gp.alpha = obs.y.clone();
        gp.chol.solve(&mut gp.alpha);
        Ok(gp)
    }

    /// With weights found earlier (a stored model): the mean is then the same to the last bit,
    /// whatever later versions do to the solver.
    pub fn with_weights(
        hyper: Hyper,
        obs: &Observations,
        alpha: Vec<f64>,
    ) -> Result<Self, NotPositiveDefinite> {
        let n = obs.len();
        let mut scaled = obs.columns.clone();
        for (k, w) in hyper.inverse_length.iter().enumerate() {
            for v in &mut scaled[k * n..(k + 1) * n] {
                *v *= w;
            }
        }
        let cov = match hyper.groups {
            Some(of) => effects::covariance(obs, &scaled, of, hyper.signal, hyper.noise),
            None => {
                let [cov, _] = covariance(obs, &scaled, hyper.signal, hyper.noise);
                cov
            }
        };
        let mut tiles = Vec::with_capacity(padded(n) * obs.features);
        for first in (0..n).step_by(TILE) {
            for x in scaled.chunks_exact(n) {
                tiles.extend((first..first + TILE).map(|i| x.get(i).copied().unwrap_or(0.0)));
            }
        }
        Ok(Self {
            chol: Cholesky::new(cov, n)?,
            hyper,
            tiles,
            alpha,
        })
    }

    pub fn len(&self) -> usize {
        self.alpha.len()
    }

    /// Covariances with the points of the function at each of `N` places, already scaled, into
    /// the first [`padded`] of each of `k`.
    #[inline(always)]
    fn covariances<const N: usize>(&self, x: [&[f64]; N], k: &mut [[f64; MOST_POINTS]; N]) {
        let (n, signal) = (padded(self.len()), self.hyper.signal);
        let d = self.hyper.inverse_length.len();
        let Some(TwoGroups { own, matern }) = self.hyper.groups else {
            self.distances(x, 0..d, k);
            for k in k {
                matern::all(&mut k[..n], signal);
            }
            return;
        };
        let mut others = [[0.0; MOST_POINTS]; N];
        self.distances(x, 0..own, k);
        self.distances(x, own..d, &mut others);
        for (k, others) in k.iter_mut().zip(&mut others) {
            matern::of(matern, &mut k[..n]);
            matern::of(matern, &mut others[..n]);
            effects::join(&mut k[..n], &others[..n], signal);
        }
    }

    /// Squared distances to the points along some of the features.
    #[inline(always)]
    fn distances<const N: usize>(
        &self,
        x: [&[f64]; N],
        features: Range<usize>,
        k: &mut [[f64; MOST_POINTS]; N],
    ) {
        let d = self.hyper.inverse_length.len();
        let x = x.map(|x| &x[features.clone()]);
        for (t, tile) in self.tiles.chunks_exact(d * TILE).enumerate() {
            let tile = &tile[features.start * TILE..features.end * TILE];
            let mut r2 = [[0.0; TILE]; N];
            for (f, column) in tile.chunks_exact(TILE).enumerate() {
                for (r2, x) in r2.iter_mut().zip(x) {
                    for (r, c) in r2.iter_mut().zip(column) {
                        *r += (x[f] - c) * (x[f] - c);
                    }
                }
            }
            for (k, r2) in k.iter_mut().zip(r2) {
                k[t * TILE..(t + 1) * TILE].copy_from_slice(&r2);
            }
        }
    }

    /// Features times inverse lengths.
    pub fn scale(&self, x: &mut [f64]) {
        for (v, w) in x.iter_mut().zip(&self.hyper.inverse_length) {
            *v *= w;
        }
    }

    /// Posterior means at rows of `width` scaled features.
    pub fn means(&self, rows: &[f64], width: usize, out: &mut [f64]) {
        means(self, rows, width, out);
    }

    /// Posterior mean at scaled features.
    pub fn mean(&self, x: &[f64]) -> f64 {
        mean(self, x)
    }

    /// Posterior mean and variance of the function (without noise) at scaled features.
    pub fn mean_variance(&self, x: &[f64]) -> (f64, f64) {
        mean_variance(self, x)
    }

    /// Leave-one-out residual and variance (noise included) of every observation.
    pub fn leave_one_out(&self) -> Vec<(f64, f64)> {
        let n = self.len();
        let inverse = self.chol.inverse();
        (0..n)
            .map(|i| {
                let q = inverse[i * n + i];
                (self.alpha[i] / q, 1.0 / q)
            })
            .collect()
    }
}

wide! {
    fn means(gp: &Gp, rows: &[f64], width: usize, out: &mut [f64]) {
        let n = gp.len();
        let mut k = [[0.0; MOST_POINTS]; 2];
        for (x, o) in rows.chunks(2 * width).zip(out.chunks_mut(2)) {
            // The last of an odd number is worked out twice.
            gp.covariances([&x[..width], &x[x.len() - width..]], &mut k);
            for (o, k) in o.iter_mut().zip(&k) {
                *o = dot(&k[..n], &gp.alpha);
            }
        }
    }
}

wide! {
    fn mean(gp: &Gp, x: &[f64]) -> f64 {
        let mut k = [[0.0; MOST_POINTS]];
        gp.covariances([x], &mut k);
        dot(&k[0][..gp.len()], &gp.alpha)
    }
}

wide! {
    fn mean_variance(gp: &Gp, x: &[f64]) -> (f64, f64) {
        let mut k = [[0.0; MOST_POINTS]];
        gp.covariances([x], &mut k);
        let k = &mut k[0][..gp.len()];
        let mean = dot(k, &gp.alpha);
        gp.chol.solve_lower(k);
        (mean, (gp.hyper.signal - dot(k, k)).max(0.0))
    }
}

#[cfg(test)]
mod tests;
