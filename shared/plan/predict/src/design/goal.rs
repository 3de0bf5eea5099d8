//! The objectives of a design.

use math::stats::{normal_cdf, normal_pdf};

/// Goal of the measurements.
#[derive(Debug, Clone, PartialEq)]
pub enum Goal {
    /// Total throughput.
    Raw,
    /// Sum of throughputs relative to solo.
    Fairness,
    /// Total throughput, with a weight for each task.
    Weighted(Vec<f64>),
    /// Smallest throughput relative to solo.
    MaxMin,
    /// Samples of each task; the time until all are done is minimised.
    Round(Vec<f64>),
}

impl Goal {
    /// Value of throughputs; larger is better. `solo` are the solo rates.
    #[must_use]
    pub fn value(&self, rates: &[f64], solo: &[f64]) -> f64 {
        let relative = rates.iter().zip(solo).map(|(p, s)| p / s);
        match self {
            Goal::Raw => rates.iter().sum(),
            Goal::Fairness => relative.sum(),
            Goal::Weighted(w) => rates.iter().zip(w).map(|(p, w)| p * w).sum(),
            Goal::MaxMin => relative.fold(f64::INFINITY, f64::min),
            // Rounds per second of the slowest task.
            Goal::Round(d) => rates
                .iter()
                .zip(d)
                .map(|(p, d)| p / d)
                .fold(f64::INFINITY, f64::min),
        }
    }

    /// Expected improvement of the value over `best`, if each throughput is normal with the given standard deviation
    /// and they are independent.
    pub(super) fn expected_improvement(
        &self,
        rates: &[f64],
        errors: &[f64],
        solo: &[f64],
        best: f64,
    ) -> f64 {
        let sum = |weight: &dyn Fn(usize) -> f64| {
            let square = errors
                .iter()
                .enumerate()
                .map(|(i, e)| (weight(i) * e).powi(2));
            expected_above(self.value(rates, solo) - best, square.sum::<f64>().sqrt())
        };
        let least = |weight: &dyn Fn(usize) -> f64| {
            let each = rates
                .iter()
                .zip(errors)
                .enumerate()
                .map(|(i, (rate, error))| (weight(i) * rate, weight(i) * error));
            of_least(&each.collect::<Vec<_>>(), best)
        };
        match self {
            Goal::Raw => sum(&|_| 1.0),
            Goal::Fairness => sum(&|i| 1.0 / solo[i]),
            Goal::Weighted(w) => sum(&|i| w[i]),
            Goal::MaxMin => least(&|i| 1.0 / solo[i]),
            Goal::Round(d) => least(&|i| 1.0 / d[i]),
        }
    }
}

/// `E max(0, gap + s Z)` of a standard normal `Z` (Jones, Schonlau and Welch 1998, equation 15).
#[must_use]
pub fn expected_above(gap: f64, s: f64) -> f64 {
    if s <= 0.0 {
        return gap.max(0.0);
    }
    let z = gap / s;
    // Far below the best, the two terms cancel, and the rounding error may be negative.
    (s * (z * normal_cdf(z) + normal_pdf(z))).max(0.0)
}

/// Points of the numerical integral in [`of_least`]: a fifth of a deviation apart if all deviations are alike.
const POINTS: usize = 48;
/// Standard deviations beyond which the value of a normal variable is treated as certain.
const TAIL: f64 = 5.0;

/// `E max(0, min_i X_i - best)` of normal `X_i` with the given means and standard deviations: the integral of `prod_i
/// P(X_i > t)` from `best`.
fn of_least(each: &[(f64, f64)], best: f64) -> f64 {
    let top = each
        .iter()
        .map(|(m, s)| m + TAIL * s)
        .fold(f64::INFINITY, f64::min);
    if top <= best {
        return 0.0;
    }
    // Below this value, all variables are certain to be larger.
    let certain = each.iter().map(|(m, s)| m - TAIL * s);
    let from = certain.fold(f64::INFINITY, f64::min).clamp(best, top);
    let width = (top - from) / POINTS as f64;
    let above = |t: f64| -> f64 {
        let each = each.iter().map(|&(m, s)| match s {
            s if s > 0.0 => normal_cdf((m - t) / s),
            _ => f64::from(u8::from(m > t)),
        });
        each.product()
    };
    let points = (0..POINTS).map(|k| above(from + (k as f64 + 0.5) * width));
    (from - best) + width * points.sum::<f64>()
}
