use cli::Failure;
use units::Batch;

/// Something that trains one step at a time.
pub trait Trainer {
    /// Makes everything ready and does what only the first steps have to do. Returns what the
    /// ready line should tell beside `"mt":"ready"`, as members of a JSON object, or nothing.
    ///
    /// # Errors
    /// [`Failure::Environment`] if the device cannot do it.
    fn warm_up(&mut self, batch: Batch) -> Result<Vec<(&'static str, String)>, Failure>;

    /// Trains on `batch` samples and returns the mean loss over them.
    ///
    /// # Errors
    /// [`Failure::Environment`] if the device gave up.
    fn step(&mut self, batch: Batch) -> Result<f64, Failure>;
}
