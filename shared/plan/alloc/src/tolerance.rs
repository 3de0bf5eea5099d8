//! Tolerance within which two numbers count as equal.

/// Slack on constraints, relative where possible: rounding of sums of a few terms.
pub(crate) const TOLERANCE: f64 = units::search::SAME;
/// Half width of a 95 % interval in standard deviations.
pub(crate) const INTERVAL: f64 = 1.96;
