/// 97.5 % quantile of Student's t for `f` degrees of freedom, as a series in `1/f` (Abramowitz and
/// Stegun 26.7.5).
pub fn student(f: f64) -> f64 {
    let z = 1.96_f64;
    z + (z.powi(3) + z) / (4.0 * f)
        + (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / (96.0 * f * f)
}
