//! Supervision of processes, and MPS with a fake control program.

mod fuzz;
mod mps;
mod supervision;
