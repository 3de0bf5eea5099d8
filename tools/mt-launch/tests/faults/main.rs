//! What can go wrong with jobs, and what the user then sees, what remains and what is lost.
//!
//! Every scenario asserts that no process, control group and run directory remains
//! (`Corner::nothing_is_left`). With `MT_FAULTS=full` (`make test-faults`) the soak is as long as
//! a night is.
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
