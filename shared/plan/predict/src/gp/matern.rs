//! Matern kernels (Rasmussen and Williams, *Gaussian Processes for Machine Learning*, equation 4.17).

use doc::params::Matern;
use math::exp;

const SQRT_3: f64 = 1.732_050_807_568_877_2;
const SQRT_5: f64 = 2.236_067_977_499_79;

/// Matern 5/2 kernel `s (1 + a + a^2/3) e^-a` with `a = sqrt(5 r2)`; `r2` is a squared distance in
/// length scales.
#[inline(always)]
pub(crate) fn matern(r2: f64, signal: f64) -> f64 {
    let a = SQRT_5 * r2.sqrt();
    signal * (1.0 + a + a * a * (1.0 / 3.0)) * exp(-a)
}

/// [`matern`] and its slope `-2 dk/d(r2) = 5/3 s (1 + a) e^-a`.
#[inline(always)]
pub(crate) fn with_slope(r2: f64, signal: f64) -> (f64, f64) {
    let a = SQRT_5 * r2.sqrt();
    (
        matern(r2, signal),
        signal * (5.0 / 3.0) * (1.0 + a) * exp(-a),
    )
}

/// Replaces each squared distance by the kernel of variance 1; the kernel of smoothness 3/2 is
/// `(1 + a) e^-a` with `a = sqrt(3 r2)`.
#[inline(always)]
pub(crate) fn of(smoothness: Matern, r2: &mut [f64]) {
    match smoothness {
        Matern::FiveHalves => all(r2, 1.0),
        Matern::ThreeHalves => {
            for v in r2 {
                let a = SQRT_3 * v.sqrt();
                *v = (1.0 + a) * exp(-a);
            }
        }
    }
}

/// Replaces each squared distance by [`matern`].
#[inline(always)]
pub(crate) fn all(r2: &mut [f64], signal: f64) {
    for v in r2 {
        *v = matern(*v, signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slope_is_the_derivative() {
        for r2 in [0.01_f64, 0.3, 1.0, 7.0] {
            let h = 1e-6 * r2;
            let difference = (matern(r2 + h, 2.0) - matern(r2 - h, 2.0)) / (2.0 * h);
            let (value, slope) = with_slope(r2, 2.0);
            assert_eq!(value, matern(r2, 2.0));
            assert!(
                (slope + 2.0 * difference).abs() < 1e-6,
                "{r2}: {slope} {difference}"
            );
        }
        assert_eq!(with_slope(0.0, 3.0), (3.0, 5.0));
    }

    #[test]
    fn the_rougher_kernel_falls_faster_at_first() {
        for r2 in [0.0, 0.01, 0.1, 1.0] {
            let value = |smoothness| {
                let mut k = [r2];
                of(smoothness, &mut k);
                k[0]
            };
            let [smooth, rough] = [Matern::FiveHalves, Matern::ThreeHalves].map(value);
            assert_eq!(smooth, matern(r2, 1.0));
            assert!(
                rough <= smooth && (r2 > 0.0 || rough == 1.0),
                "{r2}: {rough}"
            );
        }
    }
}
