//! Supervision of processes, and MPS with a fake control program.

mod mps;
mod supervision;
