//! Choice of batch sizes and GPU shares.
//!
//! Given the predicted throughput of a co-run, [`solve()`] chooses for every task a batch size
//! `B_i` and a share `R_i` such that an objective is largest and constraints hold
//! ([`Problem`]), and says whether the result is proven to be the best there is.
//!
//! The search knows nothing of how throughput is predicted: it asks a [`Throughput`]. Where that says
//! that tasks act on each other only through a sum over the others ([`Throughput::interference`]),
//! the best choice is proven by branch and bound.
//!
//! [`brute_force`] is the slow twin: plain loops, for tests.

mod additive;
mod ascent;
mod baseline;
mod bounded;
mod brute;
mod cap;
mod changed;
mod chooser;
mod damping;
mod document;
mod error;
mod exhaustive;
mod explain;
mod front;
mod infeasible;
mod instance;
mod law;
mod least;
mod measured;
pub mod notes;
mod only;
mod partition;
mod penalty;
mod planner;
mod problem;
mod replan;
mod round;
mod shortlist;
mod solve;
mod subset;
mod tie;
mod verdict;

pub use baseline::{Scheme, SchemeResult};
pub use brute::{Feasible, brute_force, every_feasible};
pub use corun::{SampleTime, Setting, Throughput};
pub use damping::damped_load;
pub use document::{Request, plan_workload};
pub use error::AllocError;
pub use explain::{Change, marginals};
pub use front::{Front, fairness_front, mismatch_front};
pub use law::{InterferenceLaw, TaskLaw};
pub use measured::Known;
pub use only::{OnlyError, plan_only};
pub use partition::{Partition, solve_partition};
pub use planner::{Planner, PlannerError};
pub use problem::{Limits, Problem, Task};
pub use replan::replan;
pub use round::{NoRound, Round};
pub use solve::{Effort, Options, Outcome, Report, Solution, solve};
