//! Gaussian-process regression with a Matern kernel and one length scale per feature.
//!
//! Rasmussen and Williams, *Gaussian Processes for Machine Learning*, equations 2.23-2.26 (mean
//! and variance), 2.30 and 5.9 (marginal likelihood and its gradient), 5.12 (leave-one-out).

mod effects;
mod hyper;
mod likelihood;
pub(crate) mod matern;
mod observations;
mod sets;
mod sparse;

use std::ops::Range;

use math::{Cholesky, NotPositiveDefinite, dot, wide};

pub(crate) use effects::Groups;
pub(crate) use hyper::{Hyper, Prior, Priors, TwoGroups};
pub(crate) use observations::Observations;
pub(crate) use sets::{MEMBER, Members, SetGp, SetHyper};
pub(crate) use sparse::sparse;

/// Maximum number of points of a Gaussian process; further measurements are projected on these
/// ([`mod@sparse`]).
pub(crate) const MOST_POINTS: usize = 256;

/// Points whose distances are computed together.
const TILE: usize = 8;

/// Number of points in whole tiles, `n` rounded up.
const fn padded(n: usize) -> usize {
    n.div_ceil(TILE) * TILE
}

/// A conditioned process: points, weights, and the factor of their covariance.
#[derive(Debug, Clone)]
pub(crate) struct Gp {
    pub hyper: Hyper,
    /// Inputs, each feature times its inverse length, in tiles of [`TILE`] points; a tile is stored
    /// feature by feature. The last tile is filled up with zeros.
    tiles: Vec<f64>,
    pub alpha: Vec<f64>,
    chol: Cholesky,
}

impl Gp {
    /// The process conditioned on observations.
    pub fn new(hyper: Hyper, obs: &Observations) -> Result<Self, NotPositiveDefinite> {
        let mut gp = Self::with_weights(hyper, obs, Vec::new())?;
        gp.alpha = obs.y.clone();
        gp.chol.solve(&mut gp.alpha);
        Ok(gp)
    }

    /// Uses the weights of a stored model, so that the mean is the same to the last bit even if the
    /// solver changes.
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
                let [cov, _] = likelihood::covariance(obs, &scaled, hyper.signal, hyper.noise);
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

    /// Writes the covariances of the function at `N` scaled inputs with all points to the first
    /// [`padded`] entries of each of `k`.
    #[inline(always)]
    fn covariances<const N: usize>(&self, x: [&[f64]; N], k: &mut [[f64; MOST_POINTS]; N]) {
        let (n, signal) = (padded(self.len()), self.hyper.signal);
        let Some(of) = self.hyper.groups else {
            let d = self.hyper.inverse_length.len();
            self.distances(x, 0..d, k);
            for k in k {
                matern::all(&mut k[..n], signal);
            }
            return;
        };
        let mut own = [[0.0; MOST_POINTS]; N];
        self.on_own(of, x, &mut own);
        self.beside(own.each_ref().map(|k| &k[..n]), x, k);
    }

    /// Writes the Matern kernel on the first group of features to the first [`padded`] entries of
    /// each of `k`.
    #[inline(always)]
    fn on_own<const N: usize>(
        &self,
        of: TwoGroups,
        x: [&[f64]; N],
        k: &mut [[f64; MOST_POINTS]; N],
    ) {
        self.distances(x, 0..of.own, k);
        for k in k {
            matern::of(of.matern, &mut k[..padded(self.len())]);
        }
    }

    /// Like [`Gp::covariances`] for a kernel of two groups, with known kernel values on the first
    /// group.
    #[inline(always)]
    fn beside<const N: usize>(
        &self,
        own: [&[f64]; N],
        x: [&[f64]; N],
        k: &mut [[f64; MOST_POINTS]; N],
    ) {
        let n = padded(self.len());
        let Some(of) = self.hyper.groups else { return };
        self.distances(x, of.own..self.hyper.inverse_length.len(), k);
        for (k, own) in k.iter_mut().zip(own) {
            matern::of(of.matern, &mut k[..n]);
            effects::join(&mut k[..n], &own[..n], self.hyper.signal);
        }
    }

    /// Squared distances to all points along a range of features.
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

    /// Multiplies features by their inverse lengths.
    pub fn scale(&self, x: &mut [f64]) {
        for (v, w) in x.iter_mut().zip(&self.hyper.inverse_length) {
            *v *= w;
        }
    }

    /// Posterior means at rows of `width` scaled features.
    pub fn means(&self, rows: &[f64], width: usize, out: &mut [f64]) {
        means(self, rows, width, out);
    }

    /// Kernel values on the first group alone, with all points, at scaled features.
    pub fn own_half(&self, x: &[f64]) -> Vec<f64> {
        let mut k = vec![0.0; padded(self.len())];
        own_half(self, x, &mut k);
        k
    }

    /// [`Gp::means`] with the values of [`Gp::own_half`] given for each row; bit-identical.
    pub fn means_beside(&self, own: &[&[f64]], rows: &[f64], width: usize, out: &mut [f64]) {
        means_beside(self, own, rows, width, out);
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
        let inverse = self.chol.inverse_diagonal();
        let each = self.alpha.iter().zip(inverse);
        each.map(|(a, q)| (a / q, 1.0 / q)).collect()
    }
}

wide! {
    fn means(gp: &Gp, rows: &[f64], width: usize, out: &mut [f64]) {
        let n = gp.len();
        let mut k = [[0.0; MOST_POINTS]; 2];
        for (x, o) in rows.chunks(2 * width).zip(out.chunks_mut(2)) {
            // Rows are computed in pairs; the last of an odd number is computed twice.
            gp.covariances([&x[..width], &x[x.len() - width..]], &mut k);
            for (o, k) in o.iter_mut().zip(&k) {
                *o = dot(&k[..n], &gp.alpha);
            }
        }
    }
}

wide! {
    fn own_half(gp: &Gp, x: &[f64], out: &mut [f64]) {
        let Some(of) = gp.hyper.groups else { return };
        let mut k = [[0.0; MOST_POINTS]];
        gp.on_own(of, [x], &mut k);
        out.copy_from_slice(&k[0][..out.len()]);
    }
}

wide! {
    fn means_beside(gp: &Gp, own: &[&[f64]], rows: &[f64], width: usize, out: &mut [f64]) {
        let n = gp.len();
        let mut k = [[0.0; MOST_POINTS]; 2];
        for ((x, own), o) in rows.chunks(2 * width).zip(own.chunks(2)).zip(out.chunks_mut(2)) {
            // Rows are computed in pairs; the last of an odd number is computed twice.
            let own = [own[0], own[own.len() - 1]];
            gp.beside(own, [&x[..width], &x[x.len() - width..]], &mut k);
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
