//! Compares a choice with others: simpler schemes, one task after another, and slightly larger or smaller shares.

mod baseline;
mod explain;
mod target;
mod verdict;

pub use baseline::{Scheme, SchemeResult};
pub use explain::{Change, marginals};
pub(crate) use target::target;
pub(crate) use verdict::verdict;
