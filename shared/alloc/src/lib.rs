//! Choice of batch sizes and GPU shares.
//!
//! Given the predicted throughput of a co-run, [`solve`] chooses for every task a batch size
//! `B_i` and a share `R_i` such that an objective is largest and constraints hold
//! ([`Problem`]), and says whether the result is proven to be the best there is.
//!
//! The search knows nothing of how throughput is predicted: it asks a [`CoRun`]. Where that says
//! that tasks act on each other only through a sum over their shares ([`CoRun::interference`]),
//! batch sizes are chosen exactly at any shares, and shares by branch and bound.
//!
//! [`brute_force`] is the slow twin: plain loops, for tests.

mod additive;
mod ascent;
mod bounded;
mod brute;
mod chooser;
mod corun;
mod error;
mod exhaustive;
mod infeasible;
mod instance;
mod law;
mod problem;
mod shortlist;
mod solve;

pub use brute::brute_force;
pub use corun::{CoRun, SampleTime};
pub use error::AllocError;
pub use law::{InterferenceLaw, TaskLaw};
pub use problem::{Limits, MAX_TASKS, Problem, Setting, Task};
pub use solve::{Effort, Options, Outcome, Report, Solution, solve};
