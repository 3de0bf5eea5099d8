//! Common parts of all searches: a [`Budget`] of work and time, and at the end a [`Certificate`]
//! that says why the search stopped, what is proven, and for which class of answers.

mod budget;
mod certificate;

pub use budget::Budget;
pub use certificate::{Certificate, Stop};

/// Relative tolerance within which two values of an answer count as equal: an answer this close to its bound is
/// proven, and one that is better by less is not better. It is far above the rounding of sums of a few hundred terms
/// (some 1e-14), and far below any measurement. All searches share it, so that no proof is lost to rounding that
/// another search tolerates.
pub const SAME: f64 = 1e-9;
