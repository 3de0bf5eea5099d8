//! Choice of batch sizes and GPU shares.
//!
//! Given the predicted throughput of a co-run, [`solve()`] chooses for every task a batch size
//! `B_i` and a share `R_i` that maximise an objective under constraints ([`Problem`]), and says
//! whether the result is proven optimal.
//!
//! The search queries a [`Throughput`] and does not depend on how it predicts. If tasks affect each other only
//! through a sum over the others ([`Throughput::interference`]), branch and bound proves the best choice.
//!
//! Modules, from the bottom up: derived rates (`rates`, `compute`); the problem (`problem`, `round`,
//! `progress`, `target`); its precomputed instance, the only input of a search (`instance`, `search`); uses of
//! a search (`solve`, `least`, `infeasible`, `front`, `partition`); comparison of a choice with others
//! (`measured`, `judge`); and `pipeline`, which turns a workload into its plan and is what callers use.

mod answer;
mod by_model;
mod cap;
mod compute;
mod damping;
mod error;
mod federation;
mod front;
mod infeasible;
mod instance;
mod judge;
#[cfg(test)]
#[path = "../tests/properties/law.rs"]
mod law;
mod least;
mod measured;
pub mod notes;
mod only;
mod part;
mod partition;
mod penalty;
mod pipeline;
mod planner;
mod problem;
mod progress;
mod quantities;
mod rates;
mod replan;
mod request;
mod round;
mod search;
mod solve;
mod target;
mod tie;
mod tolerance;

pub use answer::{Effort, Report, SearchOptions, SearchOutcome, Solution};
pub use by_model::{partition_by_model, plan_by_model, solve_by_model, standings_by_model};
pub use damping::damped_load;
pub use error::AllocError;
pub use federation::{Decided, Targets, Way, Worth};
pub use front::{Front, fairness_front, mismatch_front};
pub use judge::{Change, Scheme, SchemeResult, marginals};
pub use measured::{MeasuredConfig, Standing};
pub use only::{OnlyError, plan_only};
pub use partition::{Partition, solve_partition};
pub use pipeline::plan_workload;
pub use planner::{Planner, PlannerError};
pub use problem::{Limits, Problem, Task};
pub use progress::TaskProgress;
pub use rates::Subset;
pub use replan::{replan, ways};
pub use request::{Asked, Request, default_policy};
pub use round::{NoRound, Round};
pub use solve::solve;
pub use target::time_to_target;
pub use units::corun::{SampleTime, Setting, Throughput};
