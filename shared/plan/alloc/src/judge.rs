//! Compares a choice with others: measured co-runs, simpler schemes, one task after another, and slightly larger or
//! smaller shares.

pub(crate) mod explain;
pub(crate) mod measured;
pub(crate) mod schemes;
pub(crate) mod target;
pub(crate) mod verdict;
