//! Lower bounds on `sum w C` that hold for every schedule.

mod prices;
mod unrelated;

pub use prices::{Effort, Equilibrium, prices};
pub use unrelated::unrelated;

/// A relaxation solved as a linear program.
#[derive(Debug, Clone, PartialEq)]
pub struct Relaxed {
    /// Its value: no schedule costs less.
    pub bound: f64,
    /// Middle of the training of every round of every job in it.
    pub midpoints: Vec<Vec<f64>>,
    /// Completion of every job in it, to order jobs by.
    pub completions: Vec<f64>,
}
