//! The estimator against gradients whose noise scale is known, and the law's properties.

#![expect(clippy::unwrap_used, reason = "a test fails by panic")]

mod estimate;
mod law;
