//! Gaussian-process regression with a Matern 5/2 kernel and one length per feature.
//!
//! Rasmussen and Williams, *Gaussian Processes for Machine Learning*, equations 2.23-2.26 (mean
//! and variance), 2.30 and 5.9 (marginal likelihood and its gradient), 5.12 (leave-one-out).

mod sparse;

use math::optimise::minimise;
use math::{Cholesky, NotPositiveDefinite, exp};

/// Hyper-parameters: all positive.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Hyper {
    /// One over the length of each feature, in the feature's own unit.
    pub inverse_length: Vec<f64>,
    /// Prior variance of the function.
    pub signal: f64,
    /// Variance of the noise of one observation.
    pub noise: f64,
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

pub(crate) use sparse::sparse;

const SQRT_5: f64 = 2.236_067_977_499_79;

/// Added to the noise so that repeated configurations keep the covariance definite.
const LEAST_NOISE: f64 = 1e-9;

/// Turns squared scaled distances into kernel values, in place: Matern 5/2,
/// `(1 + a + a^2/3) e^-a` with `a = sqrt(5 r2)`.
fn matern(r2: &mut [f64], signal: f64) {
    for v in r2 {
        let a = SQRT_5 * v.sqrt();
        *v = signal * (1.0 + a + a * a * (1.0 / 3.0)) * exp(-a);
    }
}

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
    let mut cov = vec![0.0; n * n];
    // -dK/d(r2) * 2, row by row: multiplied by the squared distance along a feature it gives
    // minus the derivative by the logarithm of that feature's inverse length.
    let mut slope = vec![0.0; n * n];
    for i in 0..n {
        let (row, h) = (&mut cov[i * n..i * n + i], &mut slope[i * n..i * n + i]);
        for k in 0..d {
            let x = &scaled[k * n..k * n + n];
            for (r, v) in row.iter_mut().zip(x) {
                *r += (x[i] - v) * (x[i] - v);
            }
        }
        for (r, s) in row.iter_mut().zip(h) {
            let a = SQRT_5 * r.sqrt();
            let e = signal * exp(-a);
            *r = (1.0 + a + a * a * (1.0 / 3.0)) * e;
            *s = (5.0 / 3.0) * (1.0 + a) * e;
        }
        cov[i * n + i] = signal + (noise + LEAST_NOISE) * obs.noise_factor[i];
    }
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
    for i in 0..n {
        let m: Vec<f64> = (0..i)
            .map(|j| inverse[i * n + j] - alpha[i] * alpha[j])
            .collect();
        let diagonal = 0.5 * (inverse[i * n + i] - alpha[i] * alpha[i]);
        grad[d + 1] += diagonal * noise * obs.noise_factor[i];
        grad[d] += diagonal * signal
            + m.iter()
                .zip(&kernel[i * n..i * n + i])
                .map(|(a, b)| a * b)
                .sum::<f64>();
        let mh: Vec<f64> = m
            .iter()
            .zip(&slope[i * n..i * n + i])
            .map(|(a, b)| a * b)
            .collect();
        for k in 0..d {
            let x = &scaled[k * n..k * n + n];
            grad[k] -= mh
                .iter()
                .zip(x)
                .map(|(w, v)| w * (x[i] - v) * (x[i] - v))
                .sum::<f64>();
        }
    }
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
        );
        Hyper {
            inverse_length: (0..d).map(|k| best.x[k].exp() / spread[k]).collect(),
            signal: best.x[d].exp(),
            noise: best.x[d + 1].exp(),
        }
    }
}

/// A conditioned process: points, weights, and the factor of their covariance.
#[derive(Debug, Clone)]
pub(crate) struct Gp {
    pub hyper: Hyper,
    /// Feature-major inputs, each feature times its inverse length.
    scaled: Vec<f64>,
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
        let mut cov = vec![0.0; n * n];
        for i in 0..n {
            let row = &mut cov[i * n..i * n + i];
            for x in scaled.chunks_exact(n) {
                for (r, v) in row.iter_mut().zip(x) {
                    *r += (x[i] - v) * (x[i] - v);
                }
            }
            matern(row, hyper.signal);
            cov[i * n + i] = hyper.signal + (hyper.noise + LEAST_NOISE) * obs.noise_factor[i];
        }
        Ok(Self {
            chol: Cholesky::new(cov, n)?,
            hyper,
            scaled,
            alpha,
        })
    }

    pub fn len(&self) -> usize {
        self.alpha.len()
    }

    /// Covariances of the function at `x` with the points, into `k`.
    fn covariances(&self, x: &[f64], k: &mut [f64]) {
        let n = self.len();
        k.fill(0.0);
        for ((col, v), w) in self
            .scaled
            .chunks_exact(n)
            .zip(x)
            .zip(&self.hyper.inverse_length)
        {
            let at = v * w;
            for (r, c) in k.iter_mut().zip(col) {
                *r += (at - c) * (at - c);
            }
        }
        matern(k, self.hyper.signal);
    }

    /// Posterior mean at `x`; `scratch` holds at least as many numbers as there are points.
    pub fn mean(&self, x: &[f64], scratch: &mut [f64]) -> f64 {
        let k = &mut scratch[..self.len()];
        self.covariances(x, k);
        math::dot(k, &self.alpha)
    }

    /// Posterior mean and variance of the function (without noise) at `x`.
    pub fn mean_variance(&self, x: &[f64]) -> (f64, f64) {
        let mut k = vec![0.0; self.len()];
        self.covariances(x, &mut k);
        let mean = math::dot(&k, &self.alpha);
        self.chol.solve_lower(&mut k);
        let explained: f64 = k.iter().map(|v| v * v).sum();
        (mean, (self.hyper.signal - explained).max(0.0))
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

#[cfg(test)]
mod tests;
