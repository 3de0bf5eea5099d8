//! How far predictions can be trusted.

use units::{Batch, Share};

/// Factor on the standard deviation of what lies outside what was measured. Chosen, not fitted: how far a user
/// will go beyond is unknown. Errors of held-out throughputs are counted with it, so that it widens the
/// intervals outside against those inside, and not those of all.
const BEYOND: f64 = 2.0;

/// That factor for `running` tasks where at most `most` ran together; `outside`: a share or batch size lies
/// outside, or a task never ran with others.
///
/// The fraction `(m - M) / m` of the slow-down of `m` tasks was never measured, so the factor is
/// [`BEYOND`] for twice the measured number, less for fewer, and never below 1.
pub(crate) fn beyond(outside: bool, running: usize, most: usize) -> f64 {
    let unmeasured = running.saturating_sub(most) as f64 / running as f64;
    let crowd = (2.0 * BEYOND * unmeasured).max(1.0);
    if outside { crowd.max(BEYOND) } else { crowd }
}

/// How sure a task's predictions are, and where they are interpolation.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Trust {
    /// Standard deviation of the logarithm, beside the variance of the Gaussian process.
    pub spread: f64,
    /// Factor that makes intervals hold what they say.
    pub interval_scale: f64,
    /// The same at shares and numbers of tasks that were not measured; `None`: none could be held
    /// out to learn it.
    pub far_scale: Option<f64>,
    /// For solo rates at a part of the device.
    pub part_spread: PartSpread,
    /// Cross-validated mean absolute error, percent.
    pub error_percent: Option<f64>,
    /// Smallest and largest batch size measured.
    pub batches: Option<(Batch, Batch)>,
    /// Smallest and largest share measured.
    pub shares: Option<(Share, Share)>,
}

/// Standard deviations of the logarithm with which 90 % intervals of solo rates at part shares hold.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct PartSpread {
    /// At a share at which the task ran alone, with another batch size.
    pub near: Option<f64>,
    /// At another share.
    pub far: Option<f64>,
}
