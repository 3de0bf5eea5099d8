//! Choice of batch sizes and GPU shares.
//!
//! Given the predicted throughput of a co-run, [`solve()`] chooses for every task a batch size
//! `B_i` and a share `R_i` that maximise an objective under constraints ([`Problem`]), and says
//! whether the result is proven optimal.
//!
//! The search queries a [`Throughput`] and does not depend on how it predicts. If tasks affect each other only
//! through a sum over the others ([`Throughput::interference`]), branch and bound proves the best choice.
//!
//! Modules, from the bottom up, each using those before it: derived rates (`rates`); the problem (`problem`); searches
//! for its best choices (`search`), whose only input is its precomputed `search::instance`; comparison of a choice with
//! others (`judge`); and `plan`, from a workload and a request to the plan, which is what callers use.

mod error;
mod judge;
#[cfg(test)]
#[path = "../tests/properties/law.rs"]
mod law;
mod plan;
mod problem;
mod quantities;
mod rates;
mod search;
mod tolerance;

pub use error::AllocError;
pub use judge::explain::{Change, marginals};
pub use judge::measured::{MeasuredConfig, Standing};
pub use judge::schemes::{Scheme, SchemeResult};
pub use plan::by_model::{partition_by_model, plan_by_model, solve_by_model, standings_by_model};
pub use plan::federation::{Decided, Targets, Way, Worth};
pub use plan::notes;
pub use plan::only::{OnlyError, plan_only};
pub use plan::pipeline::plan_workload;
pub use plan::planner::{Planner, PlannerError};
pub use plan::pose::time_to_target;
pub use plan::replan::{replan, ways};
pub use plan::request::{Asked, Request, default_policy};
pub use problem::progress::TaskProgress;
pub use problem::round::{NoRound, Round};
pub use problem::{Limits, Problem, Task};
pub use rates::Subset;
pub use search::answer::{Effort, Report, SearchOptions, SearchOutcome, Solution};
pub use search::front::{Front, fairness_front, mismatch_front};
pub use search::partition::{Partition, solve_partition};
pub use search::solve::solve;
pub use units::corun::{SampleTime, Setting, Throughput};
