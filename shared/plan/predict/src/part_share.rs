//! Solo steps at a part of the device: measured deviations from the law.
//!
//! The law has one bend `phi(R)` for each task. Measured solo steps differ from the law by a few percent, and co-runs
//! at the same share differ by the same factor. A process with fixed length scales (Matern 5/2; Rasmussen and
//! Williams, equation 2.25) interpolates the difference between the measured batch sizes and shares. It is 0 on the
//! whole device, where the solo steps themselves are used.

use math::Cholesky;

use crate::gp::matern::matern;

/// Length scale along `ln B`: the effect of a share changes slowly with the batch size, so one batch size measured at
/// a few shares helps the others. A length of 2 is a factor of 7 in batch size.
const BATCH_LENGTH: f64 = 2.0;
/// Length scale along `ln R`: a factor of 2.7, about two of the usual levels 20, 40, 80 %.
const SHARE_LENGTH: f64 = 1.0;
/// Variance of a measurement relative to that of the difference: standard deviations of 1.5 % and 15 %.
const NOISE: f64 = 0.01;
/// Maximum number of points; if there are more, a subset is kept, spread evenly. Each point adds an exponential to
/// every prediction.
const MOST: usize = 48;

/// A measured difference: `ln(step)` minus the prediction of anchor and law.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Difference {
    pub batch: f64,
    pub share: f64,
    pub ln: f64,
    /// Measured step in seconds.
    pub step: Option<f64>,
}

/// The process of one task; empty if no solo run at a partial share was measured.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct PartShares {
    pub points: Vec<Point>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Point {
    pub batch: f64,
    pub share: f64,
    pub weight: f64,
    /// Step seconds measured there; `None` on the whole device, and in models without this field.
    pub step: Option<f64>,
}

impl PartShares {
    /// Learns from measured differences; `whole` are the batch sizes measured on the whole device, where the
    /// difference is 0.
    pub fn learn(measured: &[Difference], whole: impl Iterator<Item = f64>) -> Self {
        if measured.is_empty() {
            return Self::default();
        }
        let none = |batch| Difference {
            batch,
            share: 1.0,
            ln: 0.0,
            step: None,
        };
        let all: Vec<Difference> = measured.iter().copied().chain(whole.map(none)).collect();
        let kept: Vec<Difference> = math::stats::evenly(all.len(), MOST)
            .into_iter()
            .map(|k| all[k])
            .collect();
        let n = kept.len();
        let mut covariance = vec![0.0; n * n];
        for (i, a) in kept.iter().enumerate() {
            for (j, b) in kept[..=i].iter().enumerate() {
                covariance[i * n + j] = kernel(a.batch, a.share, b.batch, b.share);
            }
            covariance[i * n + i] += NOISE;
        }
        let mut weights: Vec<f64> = kept.iter().map(|d| d.ln).collect();
        // With noise on the diagonal, the covariance is positive definite.
        let Ok(factor) = Cholesky::new(covariance, n) else {
            return Self::default();
        };
        factor.solve(&mut weights);
        let point = |(d, weight): (&Difference, f64)| Point {
            batch: d.batch,
            share: d.share,
            weight,
            step: d.step,
        };
        Self {
            points: kept.iter().zip(weights).map(point).collect(),
        }
    }

    /// Whether the task was measured alone at this share, to half a percent of the device.
    pub fn has_share(&self, share: f64) -> bool {
        let near = |p: &Point| (p.share - share).abs() < 0.005;
        self.points.iter().any(near)
    }

    /// Solo step in seconds, interpolated between the two neighbouring shares at which this batch size was measured;
    /// one may be the whole device. It is linear in `1 / R`, like the step of the law `g0 + g1 / R`. With both
    /// neighbours known, this is better than the law, whose bend is the same for all batch sizes. `None` if only two
    /// shares were measured and one is the whole device, because a line through these is worse than the law.
    pub fn between(&self, batch: f64, share: f64, whole: f64) -> Option<f64> {
        let own = |p: &&Point| p.batch == batch && p.step.is_some();
        let shares = || self.points.iter().filter(own).map(|p| p.share);
        let low = shares().filter(|s| *s <= share).reduce(f64::max)?;
        shares().find(|s| *s != low)?;
        let high = shares().filter(|s| *s > share).fold(1.0, f64::min);
        // Mean of the repeats.
        let at = |share: f64| {
            let steps = self.points.iter().filter(own).filter(|p| p.share == share);
            let (n, sum) = steps.fold((0.0, 0.0), |(n, sum), p| {
                (n + 1.0, sum + p.step.unwrap_or(0.0))
            });
            if n > 0.0 { sum / n } else { whole }
        };
        let (slow, fast) = (at(low), at(high));
        let part = (1.0 / low - 1.0 / share) / (1.0 / low - 1.0 / high);
        Some(slow + part * (fast - slow))
    }

    /// `ln` of the factor on the solo step at a share.
    pub fn ln_factor(&self, batch: f64, share: f64) -> f64 {
        if share >= 1.0 {
            return 0.0;
        }
        let one = |p: &Point| p.weight * kernel(batch, share, p.batch, p.share);
        self.points.iter().map(one).sum()
    }
}

fn kernel(batch: f64, share: f64, of_batch: f64, of_share: f64) -> f64 {
    let x = (batch / of_batch).ln() / BATCH_LENGTH;
    let y = (share / of_share).ln() / SHARE_LENGTH;
    matern(x * x + y * y, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn between_two_measured_shares_a_step_is_linear_in_one_over_the_share() {
        let step = |share: f64| 0.01 + 0.02 / share;
        let measured = [0.2, 0.5].map(|share| Difference {
            batch: 64.0,
            share,
            ln: 0.1,
            step: Some(step(share)),
        });
        let parts = PartShares::learn(&measured, [64.0].into_iter());
        for share in [0.2, 0.3, 0.5, 0.8] {
            let between = parts.between(64.0, share, step(1.0)).unwrap();
            assert!(
                (between / step(share) - 1.0).abs() < 1e-9,
                "{share} {between}"
            );
        }
        assert_eq!(
            parts.between(64.0, 0.1, step(1.0)),
            None,
            "below the smallest"
        );
        assert_eq!(
            parts.between(32.0, 0.3, step(1.0)),
            None,
            "another batch size"
        );
        let single = PartShares::learn(&measured[..1], [64.0].into_iter());
        assert_eq!(single.between(64.0, 0.5, step(1.0)), None);
    }

    #[test]
    fn carries_a_difference_to_its_neighbours_and_none_to_the_whole_device() {
        let measured = [0.1, 0.2, 0.5].map(|share| Difference {
            batch: 64.0,
            share,
            ln: 0.1,
            step: None,
        });
        let parts = PartShares::learn(&measured, [32.0, 64.0].into_iter());
        let ln = |batch, share| parts.ln_factor(batch, share);
        assert!((ln(64.0, 0.2) - 0.1).abs() < 0.01, "{}", ln(64.0, 0.2));
        assert!((ln(32.0, 0.3) - 0.1).abs() < 0.04, "{}", ln(32.0, 0.3));
        assert_eq!(ln(64.0, 1.0), 0.0);
        assert!(ln(64.0, 0.97).abs() < 0.02);
        assert_eq!(PartShares::default().ln_factor(1.0, 0.1), 0.0);
    }
}
