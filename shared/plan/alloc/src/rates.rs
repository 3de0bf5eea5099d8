//! Derived rates.

mod changed;
mod nearby;
mod subset;

pub(crate) use changed::{KnownRates, Remembered, Shifted};
pub(crate) use nearby::{Nearby, Rows};
pub use subset::Subset;
