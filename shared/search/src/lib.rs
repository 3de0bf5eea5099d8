//! What every search of the planners has: a [`Budget`] of work and time, and at its end a
//! [`Certificate`] that says why it stopped, what is proven, and for which class of answers.

mod budget;
mod certificate;

pub use budget::Budget;
pub use certificate::{Certificate, Stop};
