//! The predictor: models written for ever, robustness, round trips.

mod copies;
mod forever;
mod robust;
mod written;
