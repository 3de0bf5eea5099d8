//! Uncertainty of predictions.

use units::{Batch, Share};

/// Factor on the standard deviation of configurations outside the measured ones. It was chosen by hand, because it is
/// unknown how far users will go beyond. Calibration applies it to held-out throughputs, too, so it only widens
/// intervals outside relative to those inside.
const BEYOND: f64 = 2.0;

/// The factor on the standard deviation for `running` tasks if at most `most` were measured together. `outside` is
/// whether a share or batch size lies outside the measured ones, or a task never ran with others.
///
/// The fraction `(m - M) / m` of the slow-down of `m` tasks was never measured, so the factor is
/// [`BEYOND`] for twice the measured number, less for fewer, and never below 1.
pub(crate) fn beyond(outside: bool, running: usize, most: usize) -> f64 {
    let unmeasured = running.saturating_sub(most) as f64 / running as f64;
    let crowd = (2.0 * BEYOND * unmeasured).max(1.0);
    if outside { crowd.max(BEYOND) } else { crowd }
}

/// The uncertainty of a task's predictions, and the measured ranges within which they interpolate.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Trust {
    /// Standard deviation of the logarithm, in addition to the variance of the Gaussian process.
    pub spread: f64,
    /// Factor on standard deviations that calibrates intervals.
    pub interval_scale: f64,
    /// The same at shares and numbers of tasks that were not measured; `None` if none could be held out to learn it.
    pub far_scale: Option<f64>,
    /// Spread of solo rates at partial shares.
    pub part_spread: PartSpread,
    /// Cross-validated mean absolute error, percent.
    pub error_percent: Option<f64>,
    /// Smallest and largest batch size measured.
    pub batches: Option<(Batch, Batch)>,
    /// Smallest and largest share measured.
    pub shares: Option<(Share, Share)>,
}

/// Standard deviations of the logarithm that calibrate the 90 % intervals of solo rates at partial shares.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct PartSpread {
    /// At a share at which the task ran alone, but with another batch size.
    pub near: Option<f64>,
    /// At another share.
    pub far: Option<f64>,
}
