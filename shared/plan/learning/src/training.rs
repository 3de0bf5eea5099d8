use std::collections::BTreeSet;

use doc::{Arrival, TrainingBatch};
use units::Batch;

use crate::accuracy::ExpectedRate;
use crate::curve::{Remaining, WINDOW_STEPS, remaining};
use crate::history::{Fall, History, Noted};
use crate::noise::Noise;
use crate::problem::RemainingTraining;
use crate::speed::{ASSUMED_EXPONENT, HALF_LIFE_STEPS, Speed};
use crate::stuck::Stuck;

/// State of a training, according to its events.
#[derive(Debug, Clone)]
pub(crate) struct Training {
    pub(crate) arrival: Arrival,
    pub(crate) history: History,
    pub(crate) speed: Speed,
    pub(crate) noise: Noise,
    /// GPUs on which it reports to run; 0 before its first report, and while it is parked.
    pub(crate) gpus: u32,
    /// The last value of `gpus` that was not 0.
    had: u32,
    /// Numbers of GPUs with which it failed; they are not tried again.
    pub(crate) unable: BTreeSet<u32>,
    batch: Option<Batch>,
    samples: f64,
    last: Option<(u64, f64)>,
    parked_at: Option<f64>,
    window: u64,
    /// The speed that is expected of it, until enough steps have confirmed or refuted it.
    expected: Option<ExpectedRate>,
    /// Why it makes no progress, and since which step that is known.
    stuck: Option<(Stuck, u64)>,
}

/// Remaining length of a training.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Length {
    /// Its target is reached.
    Reached,
    /// Known or forecast: remaining steps.
    Trusted(Remaining),
    /// Neither declared nor forecast yet.
    Doubtful,
}

/// Consequences of a progress report.
pub(crate) struct Reported {
    /// Whether a new decision is worthwhile: a whole window of steps has been made since the last
    /// time, the loss has suddenly dropped, or the speed on a number of GPUs has become known.
    pub(crate) window: bool,
    /// Seconds of the pause that has just ended.
    pub(crate) pause_s: Option<f64>,
    /// Relative error of the speed that was expected since the last decision.
    pub(crate) error: Option<f64>,
}

/// A forecast is used from this many windows; before, the paper's order by loss delta decides. Noise and a wrong shape
/// widen its interval, so there is no limit on how well a shape must fit: with one of nine tenths of the variance, mixed
/// trainings with 10 % of noise took 0.994 and not 0.984 of equal shares.
const TRUSTED_WINDOWS: u64 = 3;

/// Number of steps after which the speed on a number of GPUs counts as known: a tenth of them in the first report,
/// which may be slow, changes the mean little. A wrong assumption is then dropped after a fifth of a window, not
/// after a whole one.
const SURE_STEPS: f64 = 20.0;

impl Training {
    /// A training that arrives at a machine with this many GPUs.
    pub(crate) fn new(arrival: Arrival, most: u32) -> Self {
        let batch = match arrival.training_batch() {
            Some(TrainingBatch::Global(batch)) => Some(batch),
            _ => None,
        };
        let mut speed = Speed::default();
        for (&gpus, &rate) in arrival.steps_per_s.range(..=most) {
            speed.push(gpus, HALF_LIFE_STEPS, HALF_LIFE_STEPS / rate);
        }
        Self {
            arrival,
            history: History::default(),
            speed,
            noise: Noise::default(),
            gpus: 0,
            had: 0,
            unable: BTreeSet::new(),
            batch,
            samples: 0.0,
            last: None,
            parked_at: None,
            window: 0,
            expected: None,
            stuck: None,
        }
    }

    pub(crate) fn progress(
        &mut self,
        time: f64,
        step: u64,
        gpus: u32,
        loss: Option<f64>,
        batch: Option<Batch>,
    ) -> Reported {
        self.batch = batch.or(self.batch);
        let made = self
            .last
            .map_or(step, |(last, _)| step.saturating_sub(last));
        self.samples += made as f64 * self.samples_per_step(gpus).unwrap_or(0.0);
        let mut pause_s = None;
        let mut timed = false;
        let mut error = None;
        if let Some(parked) = self.parked_at.take() {
            // The time of the steps up to this first report is not part of the pause. On a new
            // number of GPUs the model predicts that time.
            let trained = match self.speed.is_known() {
                true => made as f64 / self.speed.rates(gpus, ASSUMED_EXPONENT)[gpus as usize],
                false => 0.0,
            };
            pause_s = Some((time - parked - trained).max(0.0));
        } else if let Some((last, at)) = self.last
            && gpus == self.gpus
            && step > last
        {
            let before = self.speed.steps_on(gpus);
            self.speed.push(gpus, made as f64, time - at);
            error = self.check_rate(gpus, made as f64, time - at);
            timed = before < SURE_STEPS && self.speed.steps_on(gpus) >= SURE_STEPS;
        }
        self.gpus = gpus;
        self.had = gpus;
        self.last = Some((step, time));
        let dropped = self.history.push(step, loss) == Noted::Dropped;
        let window = self.history.windows();
        let whole = window != self.window;
        self.window = window;
        // A loss that is not a number is reported at once, a trend with the window that shows it.
        let numberless = loss.is_none_or(|l| !l.is_finite());
        let turned = (whole || dropped || numberless) && self.look_at_losses(step);
        Reported {
            window: whole || dropped || timed || turned,
            pause_s,
            error,
        }
    }

    /// Expects its measured speed on these GPUs from now on; expects nothing if too few steps were
    /// measured.
    pub(crate) fn expect(&mut self, gpus: u32) {
        let known = self.speed.steps_on(gpus) >= SURE_STEPS;
        let step_s = self.speed.measured_step_s(gpus).filter(|_| known);
        self.expected = step_s.map(|step_s| ExpectedRate::new(gpus, 1.0 / step_s));
    }

    /// Compares the speed with the expected one; returns the error once there are enough steps.
    /// After that, and if nothing was expected, the speed measured so far becomes the expected one:
    /// where moves are rare, this shows how steady speeds are.
    fn check_rate(&mut self, gpus: u32, steps: f64, seconds: f64) -> Option<f64> {
        let expected = self.expected.as_mut().filter(|e| e.gpus == gpus);
        let error = match expected {
            Some(expected) => Some(expected.push(steps, seconds)?),
            None => None,
        };
        self.expect(gpus);
        error
    }

    /// Checks whether the loss still makes progress; returns whether that has changed.
    fn look_at_losses(&mut self, step: u64) -> bool {
        let declared = self.arrival.total_steps.is_some() || self.arrival.total_samples.is_some();
        let found = self.history.stuck(self.arrival.target_loss, !declared);
        // A training with a declared length ends when that is reached, so only a loss that is not a number shows that
        // its steps are useless.
        let found = found.filter(|why| !declared || *why == Stuck::NoNumber);
        let before = self.stuck.map(|s| s.0);
        self.stuck = found.map(|why| (why, self.stuck.map_or(step, |s| s.1.min(step))));
        found != before
    }

    /// Why it makes no progress, and the steps that it has made since that was first known.
    pub(crate) fn stuck(&self) -> Option<(Stuck, u64)> {
        let made = self.history.last_step().unwrap_or(0);
        self.stuck
            .map(|(why, since)| (why, made.saturating_sub(since)))
    }

    pub(crate) fn parked(&mut self, time: f64) {
        self.parked_at = Some(time);
        self.gpus = 0;
    }

    /// Samples of a step on `gpus` GPUs.
    fn samples_per_step(&self, gpus: u32) -> Option<f64> {
        match self.arrival.training_batch() {
            Some(TrainingBatch::PerGpu(batch)) => Some(batch.as_f64() * f64::from(gpus)),
            _ => self.batch.map(Batch::as_f64),
        }
    }

    /// Batch size of every process on `gpus` GPUs; empty if unknown.
    pub(crate) fn batches(&self, gpus: u32) -> Vec<Batch> {
        match (self.arrival.training_batch(), self.batch) {
            (Some(TrainingBatch::PerGpu(batch)), _) => vec![batch; gpus as usize],
            (_, Some(batch)) => split_batch(batch, gpus).unwrap_or_default(),
            (_, None) => Vec::new(),
        }
    }

    /// Minimum and maximum number of GPUs, of `total`, so that every process has a sample.
    fn limits(&self, total: u32) -> (u32, u32) {
        let most = self.arrival.max_gpus.unwrap_or(total).min(total);
        let global = match self.arrival.training_batch() {
            Some(TrainingBatch::PerGpu(_)) => None,
            _ => self.batch,
        };
        let most = global.map_or(most, |b| most.min(b.get()));
        (self.arrival.min_gpus.unwrap_or(1).min(most), most)
    }

    /// Fewest GPUs that it runs on.
    pub(crate) fn least(&self) -> u32 {
        self.arrival.min_gpus.unwrap_or(1)
    }

    /// Its measured speed-up exponent.
    pub(crate) fn exponent(&self) -> Option<f64> {
        self.speed.measured_exponent()
    }

    /// Whether a length that is not known will be: it is too new for a forecast.
    pub(crate) fn is_length_unknown(&self) -> bool {
        self.history.windows() < TRUSTED_WINDOWS || self.arrival.target_loss.is_some()
    }

    /// The training as a job of `length`, on a machine of `total` GPUs with the speed-up exponent `assumed` of the
    /// others.
    pub(crate) fn job(&self, length: Length, total: u32, assumed: f64) -> RemainingTraining {
        let (least, most) = self.limits(total);
        let mut rates = self.speed.rates(total, assumed);
        for (g, rate) in (0..).zip(&mut rates) {
            if g < least || g > most || self.unable.contains(&g) {
                *rate = 0.0;
            }
            *rate *= self.worth(g);
        }
        RemainingTraining {
            work: match length {
                Length::Reached => 0.0,
                Length::Trusted(left) => left.steps.max(1.0),
                Length::Doubtful => 1.0,
            },
            weight: self.arrival.weight.map_or(1.0, units::Weight::get),
            rates,
            delta: self.delta(),
        }
    }

    /// Progress of a step on `gpus` GPUs relative to one on its last number of GPUs, which is the unit of its length.
    /// With a fixed batch per GPU, the batch grows with the GPUs, and the noise scale says how much faster the loss
    /// then falls. If that is unknown, or the goal is a number of steps, all steps count equally.
    fn worth(&self, gpus: u32) -> f64 {
        let aims_at_loss = self.arrival.target_loss.is_some() && self.arrival.total_steps.is_none();
        match self.arrival.training_batch() {
            Some(TrainingBatch::PerGpu(batch)) if aims_at_loss && self.had > 0 => {
                self.noise.worth(batch, gpus, self.had)
            }
            _ => 1.0,
        }
    }

    /// Whether its target or its declared length is reached.
    pub(crate) fn is_reached(&self) -> bool {
        let left = self.declared_left(self.made());
        self.target_reached() || left.is_some_and(|left| left <= 0.0)
    }

    /// Its remaining length: from a declared length if there is one, otherwise from a fit with its error.
    pub(crate) fn length(&self) -> Length {
        let made = self.made();
        let declared = self.declared_left(made);
        if self.is_reached() {
            return Length::Reached;
        }
        let fitted = self
            .target(made)
            .and_then(|target| remaining(&self.history.curve(), target, declared));
        let fitted = fitted.filter(|_| self.history.windows() >= TRUSTED_WINDOWS);
        match (fitted, declared) {
            (Some(fit), _) => Length::Trusted(fit),
            (None, Some(left)) => Length::Trusted(Remaining {
                steps: left,
                // Without a target loss, the declared length is exact.
                low: if self.arrival.target_loss.is_some() {
                    0.0
                } else {
                    left
                },
                high: left,
            }),
            (None, None) => Length::Doubtful,
        }
    }

    /// Remaining steps of a declared number of steps or samples, whichever ends first.
    fn declared_left(&self, made: f64) -> Option<f64> {
        let steps = self.arrival.total_steps.map(|total| total as f64 - made);
        let each = self.samples_per_step(self.gpus.max(1));
        let samples = self
            .arrival
            .total_samples
            .zip(each)
            .map(|(total, each)| (total.as_f64() - self.samples) / each);
        match (steps, samples) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    fn target_reached(&self) -> bool {
        let mean = self.history.recent_mean();
        let by_loss = self
            .arrival
            .target_loss
            .zip(mean)
            .is_some_and(|(target, mean)| mean <= target);
        let rises = self.stuck.is_some_and(|s| s.0 == Stuck::Rising);
        let by_plateau = self.arrival.plateau.is_some_and(|part| {
            // A rising loss falls by less than any fraction, but has not reached a plateau.
            if rises {
                return false;
            }
            let level = mean.filter(|_| self.history.windows() >= TRUSTED_WINDOWS);
            level
                .zip(self.history.delta())
                .is_some_and(|(level, delta)| delta < part * level.abs())
        });
        by_loss || by_plateau
    }

    /// The loss at which it ends. For a plateau, the loss at which a curve `c + A/k` falls by less than the given
    /// fraction over a window.
    fn target(&self, made: f64) -> Option<f64> {
        if self.arrival.target_loss.is_some() {
            return self.arrival.target_loss;
        }
        let part = self.arrival.plateau?;
        let level = self.history.recent_mean()?;
        let delta = self.history.delta()?;
        let slope_left = part * level.abs() / delta;
        if !(slope_left > 0.0 && slope_left < 1.0) {
            return None;
        }
        // On c + A/k the slope A/k^2 falls to `slope_left` times its current value at k / sqrt(slope_left).
        let still_to_lose = delta * made / WINDOW_STEPS as f64;
        Some(level - still_to_lose * (1.0 - slope_left.sqrt()))
    }

    /// Decrease of the loss over the last window as a fraction of the loss, so that trainings with losses of
    /// different size can be ranked; infinite before the first window.
    pub(crate) fn loss_slope(&self) -> Fall {
        let level = self.history.recent_mean().filter(|l| *l != 0.0);
        match self.history.fall().zip(level) {
            Some((fall, level)) => Fall {
                loss: fall.loss / level.abs(),
                error: fall.error / level.abs(),
            },
            None => Fall {
                loss: f64::INFINITY,
                error: 0.0,
            },
        }
    }

    /// Steps that it has made.
    pub(crate) fn made(&self) -> f64 {
        self.history.last_step().unwrap_or(0) as f64
    }

    /// Decrease of the loss over the last window, by which the paper ranks; infinite before the first window.
    fn delta(&self) -> f64 {
        self.history.delta().unwrap_or(f64::INFINITY)
    }

    /// Whether its speed on some number of GPUs is known.
    pub(crate) fn is_timed(&self) -> bool {
        self.speed.most_steps() >= SURE_STEPS
    }

    /// Whether enough losses have been reported to rank it.
    pub(crate) fn is_ranked(&self) -> bool {
        self.history.recent_mean().is_some()
    }
}

/// Splits a global batch over processes, with the remainder on the first ones: 512 over 3 is 171, 171, 170. `None` if
/// a process would get none.
#[must_use]
pub fn split_batch(batch: Batch, processes: u32) -> Option<Vec<Batch>> {
    let total = batch.get();
    if processes == 0 || processes > total {
        return None;
    }
    let size = |rank: u32| u64::from(total / processes + u32::from(rank < total % processes));
    (0..processes)
        .map(|rank| Batch::new(size(rank)).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_paper_s_split() {
        let split = split_batch(Batch::new(512).unwrap(), 3).unwrap();
        assert_eq!(
            split.iter().map(|b| b.get()).collect::<Vec<_>>(),
            [171, 171, 170]
        );
        assert_eq!(split_batch(Batch::new(2).unwrap(), 3), None);
        assert_eq!(split_batch(Batch::new(2).unwrap(), 0), None);
    }

    #[test]
    fn noise_leaves_a_forecast_with_an_interval() {
        let name = units::TaskId::new("a").expect("a name");
        let mut training = Training::new(
            Arrival {
                target_loss: Some(0.5),
                ..Arrival::new(name)
            },
            4,
        );
        for report in 1..=12_u32 {
            let step = 50.0 * f64::from(report);
            let noise = 2.0 * (f64::from(report) * 12.9898).sin().fract();
            let loss = 2.0 / (1.0 + step / 1000.0) * (1.0 + 0.2 * noise);
            training.progress(f64::from(report), step as u64, 2, Some(loss), None);
        }
        let length = training.length();
        let wide = |r: &Remaining| r.low < r.steps && r.steps < r.high;
        assert!(
            matches!(&length, Length::Trusted(r) if wide(r)),
            "{length:?}"
        );
    }

    proptest! {
        #[test]
        fn a_split_keeps_every_sample(total in 1u64..5000, processes in 1u32..300) {
            let batch = Batch::new(total).unwrap();
            if let Some(split) = split_batch(batch, processes) {
                let sizes: Vec<u32> = split.iter().map(|b| b.get()).collect();
                prop_assert_eq!(u64::from(sizes.iter().sum::<u32>()), total);
                prop_assert!(sizes[0] - sizes[sizes.len() - 1] <= 1);
            } else {
                prop_assert!(u64::from(processes) > total);
            }
        }
    }
}
