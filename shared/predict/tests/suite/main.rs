//! The predictor: models written for ever, robustness, round trips.

mod forever;
mod robust;
mod written;
