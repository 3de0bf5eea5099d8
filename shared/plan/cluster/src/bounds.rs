//! Lower bounds on `sum w C` that hold for every schedule.

mod fluid;
mod prices;
mod queyranne;
mod unrelated;

pub use fluid::fluid;
pub use prices::{Effort, Equilibrium, prices};
pub use queyranne::queyranne;
pub use unrelated::unrelated;

/// A relaxation solved as a linear program.
#[derive(Debug, Clone, PartialEq)]
pub struct Relaxed {
    /// Its value: no schedule costs less.
    pub bound: f64,
    /// Mean completion of training of every round of every job in it; empty where the relaxation
    /// does not know rounds.
    pub midpoints: Vec<Vec<f64>>,
    /// Completion of every job in it, to order jobs by.
    pub completions: Vec<f64>,
}
