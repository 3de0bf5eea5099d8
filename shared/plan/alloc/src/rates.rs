//! Derived rates, and rates by a law.

mod changed;
mod law;
mod nearby;
mod subset;

pub(crate) use changed::{KnownRates, Remembered, Shifted};
pub use law::{InterferenceLaw, TaskLaw};
pub(crate) use nearby::{Nearby, Rows};
pub use subset::Subset;
