//! Errors of expected speeds, measured by the progress of trainings after decisions.

use crate::curve::WINDOW_STEPS;

/// The expected speed of a training, and its progress since then.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ExpectedRate {
    /// Number of GPUs for which the speed is expected.
    pub(crate) gpus: u32,
    /// Expected steps per second on these GPUs.
    rate: f64,
    steps: f64,
    seconds: f64,
}

impl ExpectedRate {
    pub(crate) fn new(gpus: u32, rate: f64) -> Self {
        Self {
            gpus,
            rate,
            steps: 0.0,
            seconds: 0.0,
        }
    }

    /// Adds steps made on these GPUs. Returns the relative error of the expected speed once the
    /// steps fill a window: with fewer, the noise of single reports would count as error (5 % per
    /// report of ten steps is 1.6 % in the mean of a window).
    pub(crate) fn push(&mut self, steps: f64, seconds: f64) -> Option<f64> {
        self.steps += steps;
        self.seconds += seconds;
        let enough = self.steps >= WINDOW_STEPS as f64;
        enough.then(|| (self.rate * self.seconds / self.steps - 1.0).abs())
    }
}

/// Moving average of the relative errors of expected speeds; a new one has weight one third, so
/// that expectations on a machine that has become quiet are trusted again after a few decisions.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RateError(Option<f64>);

/// The error that is assumed before any is measured. In `make elastic` on two processors, after
/// moves of three to six trainings, the time left until a training was complete was 4 to 16 %
/// longer than expected, while the moves were expected to gain 3 to 10 % of the times left, and
/// gained nothing. With 0.05 and the speeds measured there, some of these moves are still made. On
/// random quiet machines the gain over equal shares is 2.42 % with 0.1, and 2.53, 2.46 and 2.34 %
/// with 0, 0.05 and 0.15: it hardly matters, since a few windows that go as expected show that the
/// error is smaller.
pub(crate) const PRIOR: f64 = 0.1;

impl RateError {
    /// Adds a measured error; `prior` is the error that is assumed before the first one.
    pub(crate) fn push(&mut self, error: f64, prior: f64) {
        let old = self.get(prior);
        self.0 = Some(old + (error - old) / 3.0);
    }

    /// The average error; `prior` before the first measurement.
    pub(crate) fn get(self, prior: f64) -> f64 {
        self.0.unwrap_or(prior)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_that_of_a_whole_window() {
        let mut expected = ExpectedRate::new(2, 10.0);
        for _ in 0..9 {
            assert_eq!(expected.push(10.0, 1.05), None);
        }
        let error = expected.push(10.0, 1.05).expect("a hundred steps");
        assert!((error - 0.05).abs() < 1e-9, "{error}");
    }

    #[test]
    fn a_quiet_machine_is_believed_again() {
        let mut error = RateError::default();
        assert_eq!(error.get(PRIOR), PRIOR);
        error.push(0.3, PRIOR);
        for _ in 0..8 {
            error.push(0.0, PRIOR);
        }
        assert!(error.get(PRIOR) < 0.015);
    }
}
