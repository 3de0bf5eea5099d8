//! Statistical efficiency: the value of a sample at each batch size.
//!
//! Larger batches train more samples per second, but make less progress per sample. [`Law`] gives the loss of
//! progress, from the gradient noise scale or from a table; [`NoiseScale`] estimates the noise scale from squared
//! norms of gradients; [`fit()`] learns either from the samples that runs at several batch sizes took to the same
//! loss; [`Evidence`] chooses the best evidence in profiles and runs.
//!
//! This crate starts no process and reads no clock: it turns numbers into numbers.

mod curve;
mod evidence;
mod fit;
mod law;
mod level;
mod noise;

pub use evidence::{Evidence, Finding};
pub use fit::{Fit, FittedScale, Reached, fit};
pub use law::Law;
pub use noise::{GradientNorms, Moments, NoiseScale, NormsError, Unknown};
