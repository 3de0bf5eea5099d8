//! Prediction of the throughput of every task of a co-run.
//!
//! `(P_1 .. P_n) = Pre((B_1, R_1) .. (B_n, R_n))`: given which tasks run together on one device,
//! at which batch sizes and shares, how many samples per second does each of them train?
//! [`fit`] learns a [`Predictor`] from measured co-runs (a [`Dataset`]).

mod anchor;
mod dataset;
mod error;
mod features;
mod fit;
mod gp;
mod model;
mod poly;
mod predictor;
mod structured;
mod training;

pub use anchor::Anchor;
pub use dataset::{Active, Dataset, Sample, TaskSpec};
pub use error::PredictError;
pub use fit::{FitOptions, Fitted, Method, fit};
pub use predictor::{Prediction, Predictor};
