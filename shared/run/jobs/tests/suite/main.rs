//! Supervision of processes, and MPS with a fake control program.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bench;
mod ending;
mod fuzz;
mod mps;
mod origin;
mod supervision;
