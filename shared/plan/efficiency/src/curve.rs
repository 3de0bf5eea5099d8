use crate::level::{Level, levelled};

/// Losses of one training over the samples that it has trained on.
#[derive(Debug, Clone, Default)]
pub(crate) struct LossCurve {
    /// Total samples, and the loss there.
    points: Vec<(f64, f64)>,
    round: u32,
    /// Samples of earlier rounds.
    before: u64,
    /// Samples in the current round.
    now: u64,
    ended: bool,
}

/// Minimum number of losses of a training for smoothing.
const FEWEST_POINTS: usize = 10;
/// Minimum number of losses in the last level: the minimum of a few noisy ones is too low.
const FEWEST_AT_END: usize = 3;

impl LossCurve {
    /// Adds a report: `samples` since the round began.
    pub(crate) fn add(&mut self, round: u32, samples: u64, loss: Option<f64>) {
        if round != self.round {
            self.before = self.before.saturating_add(self.now);
            (self.round, self.now) = (round, 0);
        }
        // A restarted process repeats samples, but no event says from which one.
        if samples < self.now {
            self.end();
        }
        if self.ended {
            return;
        }
        self.now = samples;
        if let Some(loss) = loss.filter(|l| l.is_finite()) {
            self.points
                .push((self.before.saturating_add(samples) as f64, loss));
        }
    }

    /// Ends the curve: later reports are unusable.
    pub(crate) fn end(&mut self) {
        self.ended = true;
    }

    /// The curve without its noise; `None` if it is too short, or does not fall.
    ///
    /// Losses of single batches are noisy, those of small batches more so. The least-squares fit among non-increasing
    /// curves (pool-adjacent-violators) smooths each training as much as necessary, without a window length that
    /// would have to be chosen.
    pub(crate) fn falling(&self) -> Option<Falling> {
        if self.points.len() < FEWEST_POINTS {
            return None;
        }
        let mut levels = levelled(self.points.iter().map(|&(_, loss)| (loss, 1)));
        let mut dropped = 0;
        while let Some(last) = levels.last()
            && dropped + last.items < FEWEST_AT_END
        {
            dropped += last.items;
            levels.pop();
        }
        let mut points = self.points.iter();
        let mean = |level: &Level| {
            let samples: f64 = points.by_ref().take(level.items).map(|p| p.0).sum();
            (samples / level.items as f64, level.mean())
        };
        let levels: Vec<(f64, f64)> = levels.iter().map(mean).collect();
        (levels.len() > 1).then_some(Falling(levels))
    }
}

/// Samples and loss, at least two points, with a strictly falling loss.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Falling(Vec<(f64, f64)>);

impl Falling {
    /// The loss at the end.
    pub(crate) fn lowest(&self) -> f64 {
        self.0.last().map_or(f64::INFINITY, |l| l.1)
    }

    /// Samples until the loss has fallen to `target`; `None` if it began below or does not reach it.
    pub(crate) fn reaches(&self, target: f64) -> Option<f64> {
        let below = self.0.iter().position(|l| l.1 <= target)?;
        let ((x1, y1), (x0, y0)) = (self.0[below], *self.0.get(below.checked_sub(1)?)?);
        Some(x0 + (x1 - x0) * (y0 - target) / (y0 - y1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(rounds: &[(u32, u64, f64)]) -> LossCurve {
        let mut curve = LossCurve::default();
        for &(round, samples, loss) in rounds {
            curve.add(round, samples, Some(loss));
        }
        curve
    }

    #[test]
    fn samples_count_on_over_rounds_and_noise_is_smoothed() {
        let noise = [0.0, 0.3, -0.2, 0.1, -0.3];
        let points: Vec<(u32, u64, f64)> = (0..40_u32)
            .map(|k| {
                let noise = noise[k as usize % 5];
                (
                    k / 10,
                    u64::from(k % 10 + 1) * 100,
                    10.0 - 0.2 * f64::from(k) + noise,
                )
            })
            .collect();
        let falling = curve(&points).falling().unwrap();
        // 10 - 0.2 k is 5 at the 25th point, which has 2600 samples.
        let reached = falling.reaches(5.0).unwrap();
        assert!((reached - 2600.0).abs() < 200.0, "{reached}");
        assert!((falling.lowest() - 2.4).abs() < 0.5, "{falling:?}");
        assert_eq!(falling.reaches(0.0), None);
        assert_eq!(falling.reaches(20.0), None);
    }

    #[test]
    fn a_restart_ends_what_can_be_compared() {
        let mut points: Vec<(u32, u64, f64)> = (1..=12)
            .map(|k| (0, 100 * k, 5.0 - 0.1 * k as f64))
            .collect();
        points.push((0, 50, 0.1));
        let falling = curve(&points).falling();
        assert!(falling.is_none_or(|f| f.lowest() > 3.0));
        assert!(curve(&points[..9]).falling().is_none(), "too short");
        let flat: Vec<(u32, u64, f64)> = (1..=20).map(|k| (0, 100 * k, 2.0)).collect();
        assert!(curve(&flat).falling().is_none(), "does not fall");
    }
}
