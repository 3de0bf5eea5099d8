//! Types that every crate shares: quantities with units, co-runs ([`corun`]), and budgets and
//! certificates of searches ([`search`]).
//!
//! Quantities are finite and in range by construction: values are checked once, on entry, and need
//! no second check. Each constructor returns a [`UnitError`] with the quantity, its value, and the
//! valid range.

pub mod corun;
mod quantity;
pub mod search;
mod share;
mod task;
mod value;

pub use quantity::{
    Bandwidth, Bytes, Flops, MOST, SamplesPerSec, Seconds, UnitError, Weight, shown,
};
pub use share::{Share, TotalShare};
pub use task::{Batch, Samples, TaskId};
