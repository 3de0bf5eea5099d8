//! Tolerance within which two numbers count as equal.

/// Slack on constraints, relative where they are: sums of a few rounded terms.
pub(crate) const TOLERANCE: f64 = units::search::SAME;
/// Half width of a 95 % interval in standard deviations.
pub(crate) const INTERVAL: f64 = 1.96;
