//! Common parts of all searches: a [`Budget`] of work and time, and at the end a [`Certificate`] that states why the
//! search stopped, what is proven, and for which class of answers.

mod budget;
mod certificate;

pub use budget::Budget;
pub use certificate::{Certificate, Stop};

/// Relative tolerance within which two values of an answer count as equal: an answer this close to its bound is
/// proven, and a smaller gain is no improvement. It is far above the rounding of sums of a few hundred terms (some
/// 1e-14), and far below any measurement. All searches share it, so that one search does not lose a proof to
/// rounding that another tolerates.
pub const SAME: f64 = 1e-9;
