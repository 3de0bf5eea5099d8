//! The remaining length of a training, from its reported losses.
//!
//! No single family of curves fits real trainings: when the learning rate decays, the loss falls again after it
//! seemed to have settled. A fit of `1/(a k + b) + c` predicts "never" for a fifth to a half of real trainings at
//! their halfway point. So many shapes are weighted against each other, each with a floor below the target (a user
//! who sets a target expects it to be reached), and the answer is a distribution, given by its quantiles.

use crate::shape::{SHAPES, Shape};

/// Number of reports whose mean loss decides that a target is reached (Wei and Shudo: 10 iterations).
pub const REACHED_REPORTS: usize = 10;

/// Steps of a window over which the loss delta is computed, as in Wei and Shudo.
pub const WINDOW_STEPS: u64 = 100;

/// A point of a loss curve: the mean of some consecutive steps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Steps since the curve began.
    pub step: f64,
    /// Mean loss there.
    pub loss: f64,
}

/// Remaining steps, as a distribution.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Remaining {
    /// Median, steps.
    pub steps: f64,
    /// 5 % quantile, steps.
    pub low: f64,
    /// 95 % quantile, steps.
    pub high: f64,
    /// Fraction of the weighted variance of the loss that the best shape explains.
    pub r_squared: f64,
}

/// Prior of the remaining steps, before the shapes are weighted: log-normal.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Prior {
    /// Median, steps.
    centre: f64,
    /// Standard deviation of the logarithm.
    sigma: f64,
    /// Maximum number of remaining steps, if known.
    most: Option<f64>,
}

/// `ln(remaining / made) = INTERCEPT + SLOPE ln(r / d)`, where `r` is the loss still to be lost and `d` the loss that
/// would be lost over as many steps as were made, at the current rate.
///
/// `SLOPE` 1 would be a curve `r ~ (K - k)^m` known without error; noise in `r` and `d` lowers it. By regression over
/// 10 to 90 % of the AlgoPerf trainings, leaving one workload out at a time, it is .33, with a mean error of `|ln|`
/// of .90 and an answer that hardly changes. If it is doubled, a usual correction for errors in the regressor, the
/// mean error is .83 and the answer follows the training. .5 (85 % within a factor of two at the halfway point, 50 %
/// at three quarters) and .66 (75 and 61) were tried. With only the number of steps made as prior (Gott, *Nature*
/// 363, 1993), these are 84 and 13: it is right at the halfway point by construction, and nowhere else.
const SLOPE: f64 = 0.6;
const INTERCEPT: f64 = 0.22;
/// Standard deviation of the residual of the regression: 90 % intervals contain nine true values in ten.
const SIGMA: f64 = 0.95;
/// Fraction of the steps made whose fitted line gives the current rate. .2 follows noise (54 % at the halfway point),
/// .65 old steps (33 % at three quarters).
const LATELY: f64 = 0.35;

impl Prior {
    /// If the length of the training is declared, the target is expected towards its end. A fifth of the AlgoPerf
    /// trainings reach their final loss before 60 % of the steps that remained at the halfway point; sigma 0.5 leaves
    /// room for them.
    fn from_declared(left: f64) -> Self {
        Self {
            centre: left,
            sigma: 0.5,
            most: Some(left),
        }
    }

    /// If only the target is declared: from the current rate, by the regression above. `None` if there are too few
    /// points.
    ///
    /// A loss below its target, or one that does not fall, counts as above it, or falling, by half of the noise: a
    /// plateau above the target gives a long remaining length, not an infinite one.
    fn from_rate(points: &[Point], target: f64) -> Option<Self> {
        if points.len() < LEAST_POINTS {
            return None;
        }
        let now = points.last()?.step;
        let since = |part: f64, least: usize| {
            let from = points.partition_point(|p| p.step < part * now);
            &points[from.min(points.len().saturating_sub(least))..]
        };
        let mean = |part: &[Point]| part.iter().map(|p| p.loss).sum::<f64>() / part.len() as f64;
        let head = &points[..points.len().min(REACHED_REPORTS)];
        let tail = &points[points.len().saturating_sub(REACHED_REPORTS)..];
        // A small fraction of the whole fall, for a loss that is exactly at its target, or flat
        // without noise.
        let least = (1e-4 * (mean(head) - target).abs()).max(1e-12 * target.abs().max(1e-300));
        let losses: Vec<f64> = since(0.5, 8).iter().map(|p| p.loss).collect();
        let noise = noise(&losses);
        let lately = since(1.0 - LATELY, 5);
        let at = mean(lately);
        let middle = lately.iter().map(|p| p.step).sum::<f64>() / lately.len() as f64;
        let (mut xx, mut xy) = (0.0, 0.0);
        for p in lately {
            let x = (p.step - middle) / now;
            xx += x * x;
            xy += x * (p.loss - at);
        }
        let xx = xx.max(1e-9);
        let falls = (-xy / xx).max(0.5 * noise / xx.sqrt()).max(least);
        let togo = (mean(tail) - target).max(0.5 * noise).max(least);
        let centre = now * (INTERCEPT + SLOPE * (togo / falls).ln()).exp();
        (centre.is_finite() && centre > 0.0).then_some(Self {
            centre,
            sigma: SIGMA,
            most: None,
        })
    }
}

/// Maximum number of points in a fit; if there are more, they are averaged first, so that a fit takes less than half
/// a millisecond.
const MOST_POINTS: usize = 64;
/// Number of means whose variance a shape must explain. No shape explains nine tenths of the
/// variance of single reports with 10 % of noise, however many there are; it explains nine tenths
/// of the variance of their means once there are enough reports.
const MEANS: usize = 16;
/// Minimum number of points in a fit: two parameters and a floor need one more to show an error.
const LEAST_POINTS: usize = 4;

/// Residuals of neighbouring points of a smooth curve are correlated, so `n` points contain less information than `n`
/// independent ones. On the AlgoPerf trainings, whose learning rates decay, a shape that fits the past better
/// forecasts no better than another: 0, 1, 2 and 4 effective points put 75, 68, 67 and 60 % within a factor of two at
/// the halfway point. With 1, a smooth curve still determines its shape.
const EFFECTIVE_POINTS: f64 = 1.0;

/// Candidates count as equal within this distance of the logarithm of their remaining steps. The grid has many
/// candidates that give about the steps made, and few that give a tenth or ten times; this is due to the grid, and is
/// not evidence. .35 and .7 differ by a percent.
const ALIKE: f64 = 0.5;

/// Fits that leave less than this fraction of the variance count as equal: on a smooth curve without noise, the
/// nearest grid point would otherwise get all the weight, together with its floor.
const INDISTINCT: f64 = 3e-3;

/// Distances of the floor below the target, in units of the loss that is still to be lost.
const FLOORS: [f64; 7] = [0.01, 0.05, 0.2, 0.5, 1.0, 2.0, 6.0];

/// The remaining part of a curve is at least this fraction of the part so far: otherwise a loss at its target would
/// give a remaining time of zero and hide its noise.
const LEAST_PART: f64 = 0.005;

/// Steps until the loss reaches `target`, from the points of a curve in order of step, and from the remaining steps
/// of a declared length; `None` if there are too few points, or none of the shapes falls.
///
/// For every shape `phi` and floor `c` below the target, the loss is `c + a phi(k / k_now)` with `a` by weighted
/// least squares (recent points weigh more). A candidate's weight is its likelihood `(rss_best / rss)^(n/2)`
/// multiplied by the prior of its remaining steps, divided by the number of candidates with similar remaining steps.
#[must_use]
pub fn remaining(points: &[Point], target: f64, declared: Option<f64>) -> Option<Remaining> {
    let prior = match declared {
        Some(left) => Prior::from_declared(left),
        None => Prior::from_rate(points, target)?,
    };
    let fit = Fit::new(points, MOST_POINTS)?;
    let mut candidates = fit.candidates(target);
    candidates.sort_by(|a, b| a.part.total_cmp(&b.part));
    let best = candidates
        .iter()
        .map(|c| c.rss)
        .fold(f64::INFINITY, f64::min);
    let least = INDISTINCT * fit.total;
    let near = |part: f64| {
        let below = |limit: f64| candidates.partition_point(|c| c.part < limit);
        (below(part * ALIKE.exp()) - below(part * (-ALIKE).exp())).max(1) as f64
    };
    let weighed: Vec<(f64, f64)> = candidates
        .iter()
        .map(|c| {
            let steps = (c.part * fit.now).min(prior.most.unwrap_or(f64::INFINITY));
            let like = (best.max(least) / c.rss.max(least)).powf(EFFECTIVE_POINTS / 2.0);
            let z = (c.part * fit.now / prior.centre.max(1.0)).ln() / prior.sigma;
            (steps, like * (-0.5 * z * z).exp() / near(c.part))
        })
        .filter(|(steps, weight)| steps.is_finite() && *weight > 0.0)
        .collect();
    let sum: f64 = weighed.iter().map(|c| c.1).sum();
    let quantile = |q: f64| {
        let mut seen = 0.0;
        let at = weighed.iter().find(|c| {
            seen += c.1;
            seen >= q * sum
        });
        at.or(weighed.last()).map(|c| c.0)
    };
    Some(Remaining {
        steps: quantile(0.5)?,
        low: quantile(0.05)?,
        high: quantile(0.95)?,
        r_squared: explained(points, target)?,
    })
}

/// Fraction of the weighted variance of the loss that the best shape explains, for means over
/// [`MEANS`] stretches.
fn explained(points: &[Point], target: f64) -> Option<f64> {
    let fit = Fit::new(points, MEANS)?;
    let rss = fit.candidates(target).into_iter().map(|c| c.rss);
    let best = rss.fold(f64::INFINITY, f64::min);
    Some(match fit.total > 0.0 {
        true => 1.0 - (best / fit.total).min(1.0),
        false => 0.0,
    })
}

/// A prepared curve: thinned, scaled to `x = 1` now, weighted.
struct Fit {
    now: f64,
    xs: Vec<f64>,
    losses: Vec<f64>,
    weights: Vec<f64>,
    /// Weighted sum of squares about the mean.
    total: f64,
    /// Mean of the last points.
    level: f64,
    /// Standard deviation of a thinned point.
    noise: f64,
}

struct Candidate {
    /// Remaining steps, in units of the steps made.
    part: f64,
    /// Weighted residual sum of squares.
    rss: f64,
}

impl Fit {
    fn new(points: &[Point], most: usize) -> Option<Self> {
        let points = thinned(points, most);
        let now = points.last()?.step;
        if points.len() < LEAST_POINTS || now <= 0.0 {
            return None;
        }
        let tail = &points[points.len() - (points.len() / 16).max(2)..];
        let level = tail.iter().map(|p| p.loss).sum::<f64>() / tail.len() as f64;
        let xs: Vec<f64> = points.iter().map(|p| p.step / now).collect();
        let losses: Vec<f64> = points.iter().map(|p| p.loss).collect();
        // Weights grow with the step: the future depends more on the last stretch than on the first. Even weights
        // were worse at 25 %, quadratic ones at the halfway point.
        let weights = xs.clone();
        let mean = weighted(&weights, &losses, |l| l) / weights.iter().sum::<f64>();
        Some(Self {
            now,
            total: weighted(&weights, &losses, |l| (l - mean) * (l - mean)),
            noise: noise(&losses[losses.len() / 2..]),
            xs,
            losses,
            weights,
            level,
        })
    }

    fn candidates(&self, target: f64) -> Vec<Candidate> {
        // A loss at its target within its noise has not been seen to reach it yet.
        let togo = (self.level - target)
            .max(0.5 * self.noise)
            .max(1e-9 * self.level.abs());
        let mut all = Vec::with_capacity(SHAPES.len() * FLOORS.len());
        let mut phi = vec![0.0; self.xs.len()];
        for &shape in SHAPES {
            for (p, x) in phi.iter_mut().zip(&self.xs) {
                *p = shape.at(*x);
            }
            let power: f64 = phi.iter().zip(&self.weights).map(|(p, w)| w * p * p).sum();
            for gamma in FLOORS {
                let reach = self.level - togo;
                all.extend(self.candidate(shape, &phi, power, reach - gamma * togo, reach));
            }
        }
        all
    }

    fn candidate(
        &self,
        shape: Shape,
        phi: &[f64],
        power: f64,
        floor: f64,
        target: f64,
    ) -> Option<Candidate> {
        let rows = || phi.iter().zip(&self.weights).zip(&self.losses);
        let a = rows().map(|((p, w), l)| w * p * (l - floor)).sum::<f64>() / power;
        if !(a > 0.0 && a.is_finite()) {
            return None;
        }
        let rss = rows()
            .map(|((p, w), l)| w * (l - floor - a * p).powi(2))
            .sum();
        let part = (shape.inverse((target - floor) / a) - 1.0).max(LEAST_PART);
        part.is_finite().then_some(Candidate { part, rss })
    }
}

fn weighted(weights: &[f64], losses: &[f64], of: impl Fn(f64) -> f64) -> f64 {
    weights.iter().zip(losses).map(|(w, l)| w * of(*l)).sum()
}

/// Robust standard deviation of the noise: second differences of a smooth curve are only noise, with variance 6
/// sigma^2; 1.4826 turns a median into a standard deviation.
fn noise(losses: &[f64]) -> f64 {
    let mut second: Vec<f64> = losses
        .windows(3)
        .map(|w| (w[0] - 2.0 * w[1] + w[2]).abs())
        .collect();
    second.sort_by(f64::total_cmp);
    let median = second.get(second.len() / 2).copied().unwrap_or(0.0);
    median * 1.4826 / 6f64.sqrt()
}

/// Means over equal stretches of steps, not over equal numbers of points: many trainings report each of their first
/// steps and then every hundredth, so the points would all be from the beginning.
fn thinned(points: &[Point], most: usize) -> Vec<Point> {
    let Some(now) = points.last().map(|p| p.step) else {
        return Vec::new();
    };
    let stretch = |p: &Point| (p.step / now * most as f64).ceil() as usize;
    let mean = |c: &[Point], of: fn(&Point) -> f64| c.iter().map(of).sum::<f64>() / c.len() as f64;
    points
        .chunk_by(|a, b| stretch(a) == stretch(b))
        .map(|c| Point {
            step: mean(c, |p| p.step),
            loss: mean(c, |p| p.loss),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(n: usize, of: impl Fn(f64) -> f64) -> Vec<Point> {
        (1..=n)
            .map(|k| Point {
                step: k as f64,
                loss: of(k as f64),
            })
            .collect()
    }

    fn left(points: &[Point], target: f64) -> Remaining {
        remaining(points, target, None).unwrap()
    }

    #[test]
    fn smooth_curves_are_forecast_within_their_interval() {
        let inverse = |k: f64| 1.0 / (0.01 * k + 0.5) + 0.3;
        let power = |k: f64| 3.0 * (k + 5.0).powf(-0.5) + 0.1;
        let exponential = |k: f64| 2.0 * (-k / 150.0).exp() + 0.05;
        let laws: [&dyn Fn(f64) -> f64; 3] = [&inverse, &power, &exponential];
        for law in laws {
            for at in [100, 200] {
                let r = left(&curve(at, law), law(400.0));
                let truth = 400.0 - at as f64;
                assert!(r.low <= truth && truth <= r.high, "{at}: {r:?}");
                // The floor is unknown, and this uncertainty moves the median.
                assert!((r.steps / truth).ln().abs() < 4f64.ln(), "{at}: {r:?}");
                assert!(r.r_squared > 0.9);
            }
        }
    }

    #[test]
    fn twice_the_steps_give_twice_the_answer() {
        let law = |k: f64| 1.0 / (0.01 * k + 0.5) + 0.3;
        let points = curve(200, law);
        let slow: Vec<Point> = points
            .iter()
            .map(|p| Point {
                step: 2.0 * p.step,
                loss: p.loss,
            })
            .collect();
        let (one, two) = (left(&points, 0.5), left(&slow, 0.5));
        assert!((two.steps / one.steps - 2.0).abs() < 1e-9);
    }

    #[test]
    fn a_scaled_loss_gives_the_same_answer() {
        let law = |k: f64| 1.0 / (0.01 * k + 0.5) + 0.3;
        let points = curve(200, law);
        let scaled = curve(200, |k| 7.0 * law(k));
        let ratio = left(&points, 0.5).steps / left(&scaled, 3.5).steps;
        assert!((ratio - 1.0).abs() < 1e-6);
    }

    #[test]
    fn plateaus_and_rising_losses_leave_a_wide_interval() {
        for law in [(|_| 2.0) as fn(f64) -> f64, |k| 1.0 + 0.01 * k] {
            let points = curve(100, law);
            let r = remaining(&points, 0.5, None);
            assert!(
                r.is_none_or(|r| r.r_squared < 0.9 && r.high > 3.0 * r.low),
                "{r:?}"
            );
        }
    }

    #[test]
    fn a_declared_length_is_never_exceeded() {
        let points = curve(100, |k| 3.0 - 0.001 * k);
        let r = remaining(&points, 0.1, Some(50.0)).unwrap();
        assert!(r.high <= 50.0 && r.steps > 25.0, "{r:?}");
    }

    #[test]
    fn too_few_points_have_no_answer() {
        assert_eq!(remaining(&curve(3, |k| 1.0 / k), 0.1, None), None);
        assert_eq!(remaining(&[], 0.1, None), None);
    }
}
