//! Least squares, linear algebra, statistics, and parallel work; independent of domain types.

mod cholesky;
mod exp;
pub mod optimise;
mod parallel;
pub mod stats;
mod wide;

pub use cholesky::{Cholesky, NotPositiveDefinite, dot};
pub use exp::exp;
pub use parallel::{in_parallel, processors};
