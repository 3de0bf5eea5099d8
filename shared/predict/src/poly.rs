use math::Cholesky;

use crate::features::{FEATURES, Row};

/// Terms of the polynomial: one, each feature, and every product of two.
const TERMS: usize = 1 + FEATURES + FEATURES * (FEATURES + 1) / 2;

/// Ridge regression of `ln(P_i / S_i)` on a second-order polynomial of the features: the
/// paper's own kind of predictor, and the baseline.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Poly {
    weights: Vec<f64>,
    /// Standard deviation of the residuals, in log units.
    pub sigma: f64,
}

fn terms(x: &Row) -> [f64; TERMS] {
    let mut t = [1.0; TERMS];
    t[1..=FEATURES].copy_from_slice(x);
    let mut k = 1 + FEATURES;
    for i in 0..FEATURES {
        for j in i..FEATURES {
            t[k] = x[i] * x[j];
            k += 1;
        }
    }
    t
}

impl Poly {
    /// Fits one task; `None` without rows.
    pub fn fit(rows: &[(Row, f64)], ridge: f64) -> Option<Poly> {
        if rows.is_empty() {
            return None;
        }
        let mut a = vec![0.0; TERMS * TERMS];
        let mut weights = vec![0.0; TERMS];
        for (x, y) in rows {
            let t = terms(x);
            for i in 0..TERMS {
                weights[i] += t[i] * y;
                for j in 0..=i {
                    a[i * TERMS + j] += t[i] * t[j];
                }
            }
        }
        for i in 0..TERMS {
            a[i * TERMS + i] += ridge;
        }
        Cholesky::new(a, TERMS).ok()?.solve(&mut weights);
        let mut poly = Poly {
            weights,
            sigma: 0.0,
        };
        let square: f64 = rows.iter().map(|(x, y)| (y - poly.mean(x)).powi(2)).sum();
        poly.sigma = (square / rows.len() as f64).sqrt();
        Some(poly)
    }

    /// `ln(P / S)`.
    pub fn mean(&self, x: &Row) -> f64 {
        terms(x).iter().zip(&self.weights).map(|(t, w)| t * w).sum()
    }
}
