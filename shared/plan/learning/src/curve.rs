//! The remaining length of a training, from its reported losses.
//!
//! No single family of curves fits real trainings: when the learning rate decays, the loss falls again after it
//! seemed to have settled. A fit of `1/(a k + b) + c` predicts "never" for a fifth to a half of real trainings at
//! their halfway point. So many shapes are weighted against each other, each of which reaches the target (a user who
//! sets a target expects that), and the answer is a distribution, given by its quantiles.

use std::sync::LazyLock;

use crate::shape::{Shape, shapes};

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
/// Standard deviation of the prior. That of the residual of the regression is 0.95; the weights of the shapes narrow the
/// result, and with 1.1, 84, 92 and 90 % of the 90 % intervals contain the true value at 25, 50 and 75 % (77, 92 and 91
/// with 0.95).
const SIGMA: f64 = 1.1;
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

/// Maximum number of points in a fit; if there are more, they are averaged first, so that a fit takes a quarter of a
/// millisecond.
const MOST_POINTS: usize = 32;
/// Minimum number of points in a fit: two parameters and a floor need one more to show an error.
const LEAST_POINTS: usize = 4;

/// A fit counts as at most this many independent points. The residuals of a wrong shape are correlated, and count as
/// fewer; but a shape that fits the past of a real training well may still be wrong about its future. With 5, the
/// median forecasts of the AlgoPerf trainings are as good as with 1, and power laws with 3 % of noise take 0.983 of equal
/// shares instead of 1.000; with 12, three in four 90 % intervals of real trainings contain the truth instead of nine in
/// ten.
const MOST_INDEPENDENT: f64 = 5.0;

/// Fits that leave less than this fraction of the variance count as equal: on a smooth curve without noise, the
/// nearest grid point would otherwise get all the weight.
const INDISTINCT: f64 = 1e-4;

/// The remaining steps are divided into cells of equal width in their logarithm, from 0.003 to 100 times the steps made.
const CELLS: usize = 64;
const SHORTEST: f64 = 0.003;
const CELL: f64 = 10.4 / CELLS as f64;

/// The shapes, prepared for every cell.
static GRID: LazyLock<Grid> = LazyLock::new(Grid::new);

struct Grid {
    /// Remaining steps in the middle of each cell, in units of the steps made.
    parts: Vec<f64>,
    rows: Vec<Row>,
}

struct Row {
    shape: Shape,
    prior: f64,
    /// The shape at the end of each cell that it can reach.
    ends: Vec<f64>,
}

impl Grid {
    fn new() -> Self {
        let part = |cell| SHORTEST * ((f64::from(cell) + 0.5) * CELL).exp();
        let parts: Vec<f64> = (0..CELLS as u32).map(part).collect();
        let row = |(shape, prior): (Shape, f64)| {
            let ends = parts.iter().map(|p| 1.0 + p);
            let reached = ends.take_while(|end| shape.reaches(*end));
            let ends = reached.map(|end| shape.at(end)).collect();
            Row { shape, prior, ends }
        };
        let rows = shapes().into_iter().map(row).collect();
        Self { parts, rows }
    }
}

/// Steps until the loss reaches `target`, from the points of a curve in order of step, and from the remaining steps
/// of a declared length; `None` if there are too few points, or none of the shapes falls.
///
/// For every shape `phi` and number of remaining steps `r`, the curve is `target + a (phi(x) - phi(1 + r))` with `a` by
/// weighted least squares (recent points weigh more). The weight of `r` is its prior multiplied by the likelihoods
/// `rss^(-n/2)` of the shapes, where `n` is the number of independent points.
#[must_use]
pub fn remaining(points: &[Point], target: f64, declared: Option<f64>) -> Option<Remaining> {
    let prior = match declared {
        Some(left) => Prior::from_declared(left),
        None => Prior::from_rate(points, target)?,
    };
    let fit = Fit::new(points, target)?;
    let candidates = fit.candidates();
    let best = candidates.iter().min_by(|a, b| a.rss.total_cmp(&b.rss))?;
    let power = fit.independent(best) / 2.0;
    let least = fit.indistinct();
    let mut weights = vec![0.0; CELLS];
    for c in &candidates {
        let like = ((best.rss + least) / (c.rss + least)).powf(power);
        weights[c.cell] += GRID.rows[c.row].prior * like;
    }
    for (weight, part) in weights.iter_mut().zip(&GRID.parts) {
        let z = (part * fit.now / prior.centre.max(1.0)).ln() / prior.sigma;
        *weight *= (-0.5 * z * z).exp();
    }
    let sum: f64 = weights.iter().sum();
    let most = prior.most.unwrap_or(f64::INFINITY);
    let quantile = |q: f64| {
        let mut seen = 0.0;
        let cell = weights.iter().position(|weight| {
            seen += weight;
            seen >= q * sum
        })?;
        let inside = 1.0 - (seen - q * sum) / weights[cell].max(f64::MIN_POSITIVE);
        let part = SHORTEST * ((cell as f64 + inside) * CELL).exp();
        Some((part * fit.now).min(most))
    };
    Some(Remaining {
        steps: quantile(0.5)?,
        low: quantile(0.05)?,
        high: quantile(0.95)?,
    })
}

/// A prepared curve: thinned, scaled to `x = 1` now, weighted.
struct Fit {
    now: f64,
    /// Steps, and also the weights: the future depends more on the last stretch than on the first. With even weights, 66
    /// and not 70 % of the AlgoPerf trainings are within a factor of two at the halfway point.
    xs: Vec<f64>,
    /// Losses above the target.
    above: Vec<f64>,
    /// Weighted sums of 1, the losses and their squares.
    sums: [f64; 3],
}

/// A shape and a number of remaining steps.
struct Candidate {
    row: usize,
    cell: usize,
    /// Factor of the shape.
    factor: f64,
    /// Weighted residual sum of squares.
    rss: f64,
}

impl Fit {
    fn new(points: &[Point], target: f64) -> Option<Self> {
        let now = points.last()?.step;
        let points = thinned(points, MOST_POINTS);
        if points.len() < LEAST_POINTS || now <= 0.0 {
            return None;
        }
        let xs: Vec<f64> = points.iter().map(|p| p.step / now).collect();
        let above: Vec<f64> = points.iter().map(|p| p.loss - target).collect();
        let sum = |of: fn(f64) -> f64| xs.iter().zip(&above).map(|(w, y)| w * of(*y)).sum();
        Some(Self {
            now,
            sums: [sum(|_| 1.0), sum(|y| y), sum(|y| y * y)],
            xs,
            above,
        })
    }

    /// The residual sum of squares below which fits count as equal. The second term is for a constant loss.
    fn indistinct(&self) -> f64 {
        let [one, loss, square] = self.sums;
        let variance = (square - loss * loss / one).max(0.0);
        INDISTINCT * variance + 1e-12 * square
    }

    fn candidates(&self) -> Vec<Candidate> {
        let mut all = Vec::with_capacity(GRID.rows.len() * CELLS);
        let [one, loss, square] = self.sums;
        for (row, of) in GRID.rows.iter().enumerate() {
            let [mut p, mut pp, mut py] = [0.0; 3];
            for (x, y) in self.xs.iter().zip(&self.above) {
                let phi = of.shape.at(*x);
                p += x * phi;
                pp += x * phi * phi;
                py += x * phi * y;
            }
            all.extend(of.ends.iter().enumerate().filter_map(|(cell, end)| {
                // Sums of the squares of `phi - end`, and of its products with the losses.
                let own = pp - 2.0 * end * p + end * end * one;
                let product = py - end * loss;
                (own > 0.0 && product > 0.0).then(|| Candidate {
                    row,
                    cell,
                    factor: product / own,
                    rss: (square - product * product / own).max(0.0),
                })
            }));
        }
        all
    }

    /// The number of independent points that the fit is worth: `n (1 - r) / (1 + r)`, where `r` is the correlation of
    /// neighbouring residuals (Bartlett, *Journal of the Royal Statistical Society* 98, 1935), within 1 and
    /// [`MOST_INDEPENDENT`].
    fn independent(&self, best: &Candidate) -> f64 {
        let row = &GRID.rows[best.row];
        let fitted = |x: f64| best.factor * (row.shape.at(x) - row.ends[best.cell]);
        let rows = self.xs.iter().zip(&self.above);
        let residuals: Vec<f64> = rows.map(|(x, y)| y - fitted(*x)).collect();
        let square: f64 = residuals.iter().map(|r| r * r).sum();
        let product: f64 = residuals.windows(2).map(|w| w[0] * w[1]).sum();
        let r = match square > 0.0 {
            true => (product / square).clamp(0.0, 1.0),
            false => 0.0,
        };
        (residuals.len() as f64 * (1.0 - r) / (1.0 + r)).clamp(1.0, MOST_INDEPENDENT)
    }
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
            assert!(r.is_none_or(|r| r.high > 3.0 * r.low), "{r:?}");
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
