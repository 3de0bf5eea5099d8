use cli::Failure;
use units::Batch;

use crate::cpu::Norms;

/// What a step says of itself.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// Mean loss over its samples before it.
    pub loss: f64,
    /// Norms of its gradients, where they were looked at.
    pub norms: Option<Norms>,
}

/// Something that trains one step at a time.
pub trait Trainer {
    /// Makes everything ready and does what only the first steps have to do. Returns what the
    /// ready line should tell beside `"mt":"ready"`, as members of a JSON object, or nothing.
    ///
    /// # Errors
    /// [`Failure::Environment`] if the device cannot do it.
    fn warm_up(&mut self, batch: Batch) -> Result<Vec<(&'static str, String)>, Failure>;

    /// Trains on `batch` samples.
    ///
    /// # Errors
    /// [`Failure::Environment`] if the device gave up.
    fn step(&mut self, batch: Batch) -> Result<Step, Failure>;
}
