//! Least squares, linear algebra and statistics; knows no domain type.

mod cholesky;
pub mod optimise;
pub mod stats;

pub use cholesky::{Cholesky, NotPositiveDefinite};
