//! Lower bounds on `sum w C` that hold for every schedule.

mod prices;
mod unrelated;

pub use prices::{Effort, Equilibrium, prices};
pub use unrelated::unrelated;

/// A relaxation solved as a linear program.
#[derive(Debug, Clone, PartialEq)]
pub struct Relaxed {
    /// Value of the relaxation: no schedule costs less.
    pub bound: f64,
    /// Midpoint in time of the training of every round in the relaxation, by job and round.
    pub midpoints: Vec<Vec<f64>>,
    /// Completion time of every job in the relaxation; used to order jobs.
    pub completions: Vec<f64>,
}
