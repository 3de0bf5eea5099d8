//! The nouns that every crate shares: quantities with units, a co-run ([`corun`]), and how a search
//! ends ([`search`]).
//!
//! Quantities are finite and in range by construction: a value of these types has been checked once,
//! where it entered the program, and needs no second check. Each constructor returns a [`UnitError`]
//! that says which quantity was out of range, what it was, and what would be right.

pub mod corun;
mod quantity;
pub mod search;
mod share;
mod task;

pub use quantity::{Bandwidth, Bytes, Flops, MOST, SamplesPerSec, Seconds, UnitError, Weight};
pub use share::{Share, TotalShare};
pub use task::{Batch, Samples, TaskId};
