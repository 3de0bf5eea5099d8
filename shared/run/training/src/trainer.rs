use cli::Failure;
use units::Batch;

use crate::cpu::Norms;

/// Result of a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// Mean loss over its samples before it.
    pub loss: f64,
    /// Norms of its gradients, if they were measured.
    pub norms: Option<Norms>,
}

/// Something that trains one step at a time.
pub trait Trainer {
    /// Prepares everything and does what only the first steps have to do. Returns additional members of the ready
    /// line, after `"mt":"ready"`, or nothing.
    ///
    /// # Errors
    /// [`Failure::Environment`] if the device cannot do it.
    fn warm_up(&mut self, batch: Batch) -> Result<Vec<(&'static str, String)>, Failure>;

    /// Trains on `batch` samples.
    ///
    /// # Errors
    /// [`Failure::Environment`] if the device failed.
    fn step(&mut self, batch: Batch) -> Result<Step, Failure>;
}
