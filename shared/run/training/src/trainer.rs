use cli::Failure;
use units::Batch;

use crate::cpu::Norms;

/// Result of a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// Mean loss over its samples, before the update.
    pub loss: f64,
    /// Norms of its gradients, if they were measured.
    pub norms: Option<Norms>,
}

/// A model that can be trained one step at a time.
pub trait Trainer {
    /// Prepares the training, including all work that only the first steps cause. Returns additional members of the
    /// ready line, which follow `"mt":"ready"`; may be empty.
    ///
    /// # Errors
    /// [`Failure::Environment`] if the device cannot be used.
    fn warm_up(&mut self, batch: Batch) -> Result<Vec<(&'static str, String)>, Failure>;

    /// Trains on `batch` samples.
    ///
    /// # Errors
    /// [`Failure::Environment`] if the device failed.
    fn step(&mut self, batch: Batch) -> Result<Step, Failure>;
}
