//! Searches: the best choice of an instance, and other questions that searches answer.
//!
//! [`best`] finds the best choices by the [`methods`]: by branch and bound if interference is additive, otherwise by
//! evaluating every point; by local search if the instance is too large for either. The questions: the best choice
//! with its ties broken or the reason why there is none ([`solve`]), the division among GPUs ([`partition`]), the
//! tightest bound ([`least`]), and the choices that are best in two criteria ([`front`]).

pub(crate) mod answer;
pub(crate) mod best;
pub(crate) mod front;
pub(crate) mod infeasible;
pub(crate) mod instance;
pub(crate) mod least;
mod methods;
pub(crate) mod partition;
pub(crate) mod point;
pub(crate) mod solve;
mod tie;
