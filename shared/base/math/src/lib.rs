//! Least squares, linear algebra and statistics; knows no domain type.

mod cholesky;
mod exp;
pub mod optimise;
pub mod stats;
mod wide;

pub use cholesky::{Cholesky, NotPositiveDefinite, dot};
pub use exp::exp;
