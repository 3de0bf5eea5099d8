//! Statistical efficiency: what a sample is worth at each batch size.
//!
//! Training on a larger batch makes more samples per second and less progress per sample. [`Law`] says how
//! much less, from the gradient noise scale or from a table; [`NoiseScale`] estimates the noise scale from
//! squared norms of gradients; [`fit()`] learns it from steps that runs at several batch sizes took to the
//! same loss; [`Evidence`] takes the best of what profiles and runs show.
//!
//! This crate starts no process and reads no clock: it turns numbers into numbers.

mod curve;
mod evidence;
mod fit;
mod law;
mod noise;

pub use evidence::{Evidence, Finding};
pub use fit::{Fit, Reached, fit};
pub use law::Law;
pub use noise::{GradientNorms, Moments, NoiseScale, NormsError, Unknown};
