use math::Cholesky;

/// Ridge regression on a second-order polynomial of standardised features: the kind of predictor of the paper, and
/// the baseline.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Poly {
    /// Mean of each feature over the training rows.
    pub centre: Vec<f64>,
    /// One over the standard deviation of each feature; 0 where it is constant.
    pub scale: Vec<f64>,
    /// Weights: one, each feature, every product of two features (`i <= j`).
    pub weights: Vec<f64>,
}

impl Poly {
    /// Terms of a polynomial in `d` features.
    pub fn count(d: usize) -> usize {
        1 + d + d * (d + 1) / 2
    }

    /// Fits rows of equal length; `weight` of each row is at least 0. `None` without rows.
    pub fn fit(rows: &[&[f64]], y: &[f64], weight: &[f64], ridge: f64) -> Option<Poly> {
        let d = rows.first()?.len();
        let n = rows.len() as f64;
        let mut poly = Poly {
            centre: vec![0.0; d],
            scale: vec![0.0; d],
            weights: vec![0.0; Self::count(d)],
        };
        for k in 0..d {
            let mean = rows.iter().map(|r| r[k]).sum::<f64>() / n;
            let sd = (rows.iter().map(|r| (r[k] - mean).powi(2)).sum::<f64>() / n).sqrt();
            poly.centre[k] = mean;
            poly.scale[k] = if sd > 1e-9 { 1.0 / sd } else { 0.0 };
        }
        let m = Self::count(d);
        let mut a = vec![0.0; m * m];
        let mut b = vec![0.0; m];
        let mut t = Vec::with_capacity(m);
        for ((x, y), w) in rows.iter().zip(y).zip(weight) {
            poly.terms(x, &mut t);
            for i in 0..m {
                b[i] += w * t[i] * y;
                for j in 0..=i {
                    a[i * m + j] += w * t[i] * t[j];
                }
            }
        }
        // The penalty of the constant is only large enough to keep the matrix definite.
        a[0] += 1e-9;
        for i in 1..m {
            a[i * m + i] += ridge;
        }
        Cholesky::new(a, m).ok()?.solve(&mut b);
        poly.weights = b;
        Some(poly)
    }

    fn terms(&self, x: &[f64], t: &mut Vec<f64>) {
        t.clear();
        t.push(1.0);
        for ((v, c), s) in x.iter().zip(&self.centre).zip(&self.scale) {
            t.push((v - c) * s);
        }
        let d = self.centre.len();
        for i in 1..=d {
            for j in i..=d {
                t.push(t[i] * t[j]);
            }
        }
    }

    /// Value at `x`.
    pub fn mean(&self, x: &[f64]) -> f64 {
        let d = self.centre.len();
        let mut z = [0.0; crate::features::SUMS];
        for (k, v) in x.iter().enumerate().take(d) {
            z[k] = (v - self.centre[k]) * self.scale[k];
        }
        let mut sum = self.weights[0];
        let mut at = 1 + d;
        for i in 0..d {
            let mut slope = self.weights[1 + i];
            for v in &z[i..d] {
                slope += self.weights[at] * v;
                at += 1;
            }
            sum += slope * z[i];
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reproduces_a_polynomial_and_ignores_a_constant_feature() {
        let f = |a: f64, b: f64| 1.0 + 2.0 * a - b + 0.5 * a * b + b * b;
        let rows: Vec<Vec<f64>> = (0..40)
            .map(|i| vec![f64::from(i % 7), f64::from(i % 5), 3.0])
            .collect();
        let y: Vec<f64> = rows.iter().map(|r| f(r[0], r[1])).collect();
        let rows: Vec<&[f64]> = rows.iter().map(Vec::as_slice).collect();
        let p = Poly::fit(&rows, &y, &vec![1.0; 40], 1e-9).unwrap();
        assert!((p.mean(&[2.5, 1.5, 3.0]) - f(2.5, 1.5)).abs() < 1e-5);
        assert!((p.mean(&[2.5, 1.5, 9.0]) - f(2.5, 1.5)).abs() < 1e-5);
    }
}
