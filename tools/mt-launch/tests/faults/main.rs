//! What can go wrong with jobs: what the user sees, what is left behind and what is lost.
//!
//! Every scenario asserts that no process, control group and run directory is left (`Corner::nothing_is_left`). With
//! `MT_FAULTS=full` (`make test-faults`) the soak takes as long as a night.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod contain;
mod elastic;
mod exec;
mod exec_faults;
mod jobs_that_fail;
mod mps;
mod output;
mod rounds;
mod signals;
mod soak;
mod support;
