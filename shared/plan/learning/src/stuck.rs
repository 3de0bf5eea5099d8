//! Whether the loss of a training still moves towards its target.
//!
//! Wei and Shudo rank trainings by how much the loss fell over a window: the smaller the fall, the
//! older the training, and the more GPUs it gets. The loss of a broken training does not fall, or
//! even rises, so it would keep three of four GPUs for ever. So its loss is checked first.

use crate::curve::{Point, WINDOW_STEPS};

/// Why a training makes no progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stuck {
    /// Its loss is no longer a number, or was never reported although nothing else shows its
    /// length.
    NoNumber,
    /// Its loss rises.
    Rising,
    /// Its loss stays above its target.
    Flat,
}

impl Stuck {
    /// The reason as text, to follow the name of the training.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Stuck::NoNumber => "reports no loss that is a number",
            Stuck::Rising => "has a rising loss",
            Stuck::Flat => "has a loss that stays above its target",
        }
    }
}

/// Fraction of the steps made that is examined, at least two windows: a training that stagnates for a third of its
/// life does so by its own measure, whatever the length of its steps. Forecasts use the same stretch for the current
/// rate.
const STRETCH: f64 = 0.35;
const LEAST_STRETCH: f64 = 2.0 * WINDOW_STEPS as f64;
/// No verdict before this many steps: the loss may rise during warm-up.
const LEAST_STEPS: f64 = 3.0 * WINDOW_STEPS as f64;
/// A loss that falls no slower than on average since its beginning is not stagnating before this many steps, however far
/// its target: a learning rate that falls along a cosine leaves the loss almost flat at first.
const LEAST_FLAT: f64 = 20.0 * WINDOW_STEPS as f64;
/// Number of means through which the trend line is fitted. Unlike that of single reports, their scatter includes
/// noise that lasts for several reports.
const BLOCKS: usize = 8;
/// Student's t at 99 % two-sided with `BLOCKS - 2` degrees of freedom: the steepest fall compatible with the noise is
/// the slope minus this many standard errors.
const SURE: f64 = 3.71;
/// A loss is stagnating if, even at its steepest, it needs this many times the steps made so far to reach its target.
/// All of the 136 AlgoPerf trainings with 40 reports or more reach theirs; 0.10 % of 19,364 checks on them are false
/// alarms (9 trainings at some moment). With 3 these would be 0.42 %, with 10 0.04 %; with `SURE` 2.45 (95 %) 0.89 %.
const HOPELESS: f64 = 5.0;

/// Whether the curve rises or stagnates, from its points since its beginning or its last sudden drop; `None` if it
/// falls, or this is unclear. Without a target only a rise is reported: a stagnating loss may be as low as it can
/// get.
#[must_use]
pub fn trend(points: &[Point], target: Option<f64>) -> Option<Stuck> {
    let made = points.last()?.step;
    if made < LEAST_STEPS {
        return None;
    }
    let from = made - (STRETCH * made).max(LEAST_STRETCH);
    // If reports are rare, the stretch reaches further back: a falling loss is then taken for flat
    // later, never sooner.
    let begin = points
        .partition_point(|p| p.step < from)
        .min(points.len().checked_sub(BLOCKS)?);
    let blocks = blocks(&points[begin..]);
    let (slope, error) = line(&blocks)?;
    let steepest = SURE * error - slope;
    // A loss that never fell needs less evidence: all reports count, not only those of the last stretch.
    let whole = self::blocks(points);
    let (since_begin, its_error) = line(&whole)?;
    if steepest <= 0.0 || (slope >= error && since_begin >= SURE * its_error) {
        return Some(Stuck::Rising);
    }
    let last = blocks[BLOCKS - 1];
    let average = (whole[0].loss - last.loss) / (last.step - whole[0].step);
    // Of a fall that noise may have made, nothing follows.
    let middle = mean(&blocks).step;
    let spread: f64 = blocks.iter().map(|p| (p.step - middle).powi(2)).sum();
    let fell = whole[0].loss - last.loss > 3.0 * error * spread.sqrt();
    // One standard error: with none, one of 240 draws of mixed trainings was 8 % behind equal shares; with `SURE`, beside
    // a flat loss the gain is 2.6 % smaller.
    let slowed = fell && error - slope < average;
    let sped_up = -slope - SURE * error > average;
    if !slowed && (sped_up || made < LEAST_FLAT) {
        return None;
    }
    let left = last.loss - target?;
    (left > HOPELESS * steepest * made).then_some(Stuck::Flat)
}

/// Means of consecutive points, in equal numbers; there must be at least as many points.
fn blocks(points: &[Point]) -> Vec<Point> {
    let n = points.len();
    (0..BLOCKS)
        .map(|k| mean(&points[k * n / BLOCKS..(k + 1) * n / BLOCKS]))
        .collect()
}

fn mean(points: &[Point]) -> Point {
    let n = points.len() as f64;
    Point {
        step: points.iter().map(|p| p.step).sum::<f64>() / n,
        loss: points.iter().map(|p| p.loss).sum::<f64>() / n,
    }
}

/// Slope of the least-squares line through the points, and its standard error.
fn line(points: &[Point]) -> Option<(f64, f64)> {
    let centre = mean(points);
    let square: f64 = points.iter().map(|p| (p.step - centre.step).powi(2)).sum();
    let product = |p: &Point| (p.step - centre.step) * (p.loss - centre.loss);
    let slope = points.iter().map(product).sum::<f64>() / square;
    let residual = |p: &Point| p.loss - centre.loss - slope * (p.step - centre.step);
    let rss: f64 = points.iter().map(|p| residual(p).powi(2)).sum();
    let error = (rss / (points.len() - 2) as f64 / square).sqrt();
    (slope.is_finite() && error.is_finite()).then_some((slope, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(n: usize, of: impl Fn(f64) -> f64) -> Vec<Point> {
        let noise = |k: f64| 2.0 * (k * 12.9898).sin().fract();
        (1..=n)
            .map(|k| k as f64)
            .map(|step| Point {
                step,
                loss: of(step) + 0.01 * noise(step),
            })
            .collect()
    }

    #[test]
    fn what_falls_is_not_stuck() {
        for law in [
            (|k| 1.0 / (0.01 * k + 0.5) + 0.3) as fn(f64) -> f64,
            |k| 3.0 * (k + 5.0).powf(-0.5),
            |k| 2.0 - 0.001 * k,
        ] {
            for n in [300, 500, 900] {
                assert_eq!(trend(&curve(n, law), Some(law(1500.0))), None, "{n}");
            }
        }
    }

    #[test]
    fn what_rises_or_stands_is() {
        let rising = curve(400, |k| 1.0 + 0.002 * k);
        assert_eq!(trend(&rising, Some(0.5)), Some(Stuck::Rising));
        assert_eq!(trend(&rising, None), Some(Stuck::Rising));
        let flat = curve(600, |k| (2.0 - 0.01 * k).max(1.2));
        assert_eq!(trend(&flat, Some(0.5)), Some(Stuck::Flat));
        assert_eq!(trend(&flat, None), None, "it may be as low as it gets");
        assert_eq!(trend(&flat, Some(1.3)), None, "it is below its target");
    }

    #[test]
    fn a_slow_start_is_not_flat_even_if_noise_hides_the_fall() {
        let cosine = |k: f64| 0.45 + 0.775 * (1.0 + (std::f64::consts::PI * k / 3500.0).cos());
        let noise = |k: f64| 2.0 * (k * 12.9898).sin().fract();
        for n in (31..90).step_by(10) {
            for phase in 0..20 {
                let noisy = |k: i32| Point {
                    step: 10.0 * f64::from(k),
                    loss: cosine(10.0 * f64::from(k))
                        * (1.0 + 0.05 * noise(f64::from(k + 100 * phase))),
                };
                let points: Vec<Point> = (1..=n).map(noisy).collect();
                assert_eq!(trend(&points, Some(0.5)), None, "{n} reports, {phase}");
            }
        }
    }

    #[test]
    fn a_loss_that_always_rose_is_noticed_sooner_than_by_its_last_stretch() {
        let noise = |k: f64| 2.0 * (k * 12.9898).sin().fract();
        let (mut noticed, mut by_stretch) = (0, 0);
        for phase in 0..20 {
            let rising = |k: i32| Point {
                step: 10.0 * f64::from(k),
                loss: 1.0 + 0.01 * f64::from(k) + 0.1 * noise(f64::from(k + 100 * phase)),
            };
            let points: Vec<Point> = (1..=60).map(rising).collect();
            noticed += u32::from(trend(&points, None) == Some(Stuck::Rising));
            let (slope, error) = line(&blocks(&points[60 - 21..])).expect("eight means");
            by_stretch += u32::from(slope >= SURE * error);
        }
        assert!(
            noticed >= by_stretch + 5,
            "{noticed} and {by_stretch} of 20"
        );
    }

    #[test]
    fn nothing_is_said_of_the_first_steps_or_of_few_reports() {
        assert_eq!(trend(&curve(299, |k| k), Some(0.5)), None);
        let few: Vec<Point> = curve(600, |k| k).into_iter().step_by(90).collect();
        assert_eq!(trend(&few, Some(0.5)), None);
        assert_eq!(trend(&[], Some(0.5)), None);
    }
}
