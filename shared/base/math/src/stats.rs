//! Order statistics and means.

/// Arithmetic mean; `None` of an empty slice.
#[must_use]
pub fn mean(v: &[f64]) -> Option<f64> {
    (!v.is_empty()).then(|| v.iter().sum::<f64>() / v.len() as f64)
}

/// Quantile `q` in 0..=1 by linear interpolation between order statistics; `None` of an empty slice.
#[must_use]
pub fn quantile(v: &[f64], q: f64) -> Option<f64> {
    if v.is_empty() {
        return None;
    }
    let mut s = v.to_vec();
    s.sort_by(f64::total_cmp);
    let at = q.clamp(0.0, 1.0) * (s.len() - 1) as f64;
    let (lo, hi) = (at.floor() as usize, at.ceil() as usize);
    Some(s[lo] + (s[hi] - s[lo]) * (at - lo as f64))
}

/// Median; `None` of an empty slice.
#[must_use]
pub fn median(v: &[f64]) -> Option<f64> {
    quantile(v, 0.5)
}

/// Robust standard deviation: 1.4826 times the median absolute deviation from `centre`.
#[must_use]
pub fn mad_sigma(v: &[f64], centre: f64) -> Option<f64> {
    let d: Vec<f64> = v.iter().map(|x| (x - centre).abs()).collect();
    median(&d).map(|m| 1.4826 * m)
}

/// 95 % quantile of Student's t, by the Cornish-Fisher expansion (Abramowitz and Stegun 26.7.5, three terms): 2.88 at
/// 2 degrees of freedom, where 2.92 is exact; at 1, the minimum, 5.57 instead of 6.31.
#[must_use]
pub fn student_95(freedom: usize) -> f64 {
    let (z, f) = (1.645_f64, freedom.max(1) as f64);
    let first = (z.powi(3) + z) / 4.0;
    let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0;
    let third = (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / 384.0;
    z + first / f + second / (f * f) + third / f.powi(3)
}

/// At most `most` of the positions `0..n`, spread evenly.
#[must_use]
pub fn evenly(n: usize, most: usize) -> Vec<usize> {
    let m = n.min(most);
    (0..m).map(|k| k * n / m).collect()
}

/// Density of the standard normal distribution.
#[must_use]
pub fn normal_pdf(z: f64) -> f64 {
    (-0.5 * z * z).exp() / (2.0 * std::f64::consts::PI).sqrt()
}

/// Distribution function of the standard normal distribution, absolute error below 8e-8
/// (Abramowitz and Stegun, *Handbook of Mathematical Functions*, 26.2.17).
#[must_use]
pub fn normal_cdf(z: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * z.abs());
    let series = [
        1.330_274_429,
        -1.821_255_978,
        1.781_477_937,
        -0.356_563_782,
        0.319_381_530,
    ]
    .iter()
    .fold(0.0, |sum, c| (sum + c) * t);
    let tail = normal_pdf(z) * series;
    if z >= 0.0 { 1.0 - tail } else { tail }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_statistics() {
        let v = [4.0, 1.0, 3.0, 2.0];
        assert_eq!(median(&v), Some(2.5));
        assert_eq!(quantile(&v, 0.0), Some(1.0));
        assert_eq!(quantile(&v, 1.0), Some(4.0));
        assert_eq!(mean(&v), Some(2.5));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn normal_distribution_at_known_points() {
        for (z, p) in [(0.0, 0.5), (1.0, 0.841_344_746), (-1.96, 0.024_997_895)] {
            assert!((normal_cdf(z) - p).abs() < 1e-7, "{z}");
        }
        assert!((normal_pdf(0.0) - 0.398_942_280_4).abs() < 1e-10);
    }

    #[test]
    fn mad_of_a_normal_sample_ignores_an_outlier() {
        let v = [-1.0, 0.0, 1.0, 0.5, -0.5, 1000.0];
        assert!(mad_sigma(&v, 0.0).unwrap() < 2.0);
    }

    #[test]
    fn the_quantile_is_students() {
        for (freedom, exact) in [(2, 2.920), (3, 2.353), (5, 2.015), (10, 1.812), (60, 1.671)] {
            let error = student_95(freedom) / exact - 1.0;
            assert!(error.abs() < 0.02, "{freedom}: {error}");
        }
    }
}
