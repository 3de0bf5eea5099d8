//! The marginal likelihood of the Matern 5/2 kernel of all features, its gradient, and the hyper-parameters that
//! maximise it (Rasmussen and Williams, equations 2.30 and 5.9).

use math::optimise::minimise;
use math::{Cholesky, dot, wide};

use super::hyper::{Hyper, LEAST_NOISE, Prior, Priors};
use super::matern;
use super::observations::Observations;

/// Relative gain of the log posterior below which the search for hyper-parameters ends: a thousandth or two of the
/// contribution of one observation.
const SLIGHT: f64 = 1e-5;

/// `sum_j w_j (at - x_j)^2`, in eight independent sums, so that the compiler may use vector registers: it must not
/// reorder one sum of floating-point numbers.
#[inline(always)]
fn weighted_gaps(w: &[f64], x: &[f64], at: f64) -> f64 {
    let mut acc = [0.0; 8];
    let (cw, cx) = (w.chunks_exact(8), x.chunks_exact(8));
    let rest: f64 = cw
        .remainder()
        .iter()
        .zip(cx.remainder())
        .map(|(w, x)| w * (at - x) * (at - x))
        .sum();
    for (w, x) in cw.zip(cx) {
        for k in 0..8 {
            acc[k] += w[k] * (at - x[k]) * (at - x[k]);
        }
    }
    acc.iter().sum::<f64>() + rest
}

wide! {
/// Lower triangles, row-major, of the covariance (noise included) and of its slope `-2 dK/d(r2)`. The slope times
/// the squared distance along a feature is minus the derivative by the logarithm of that feature's inverse length.
pub(super) fn covariance(obs: &Observations, scaled: &[f64], signal: f64, noise: f64) -> [Vec<f64>; 2] {
    let n = obs.len();
    let mut cov = vec![0.0; n * n];
    let mut slope = vec![0.0; n * n];
    for i in 0..n {
        let row = &mut cov[i * n..i * n + i];
        let h = &mut slope[i * n..i * n + i];
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

/// Parts of the gradient of the likelihood; lower triangles, row-major.
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
        // Round the length up to whole vectors: entries of `m` from `i` on are zero and add nothing, and no
        // remainder loop is needed.
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

/// Negative log posterior of the logarithms `theta` of the hyper-parameters and its gradient. Infinite if the
/// covariance cannot be factorised.
pub(super) fn objective(
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
    // The covariance is not positive definite to working precision if lengths are so long, and noise so low, that
    // two rows coincide. The search turns back from an infinite cost.
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
        let spread = obs.spreads();
        // Start from the mode of the priors: with few rows the posterior stays near it, so the search finds the
        // local optimum that the priors favour. There is only one start; others were not compared.
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
