use doc::{OtherTasks, PlanTask};
use units::TaskId;

use crate::instance::set::MAX_TASKS;

/// Longest round, in seconds: 30,000 years. In a longer one, the 15 digits of a number can no longer distinguish the
/// start and the end of a phase of one second.
pub const LONGEST_ROUND_S: f64 = 1e12;

/// Why a round cannot be simulated or ordered.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum OverlapError {
    /// No tasks at all.
    #[error("there is no task to order")]
    NoTasks,
    /// More tasks than a set of active tasks can hold.
    #[error("{0} tasks are too many: at most {max}", max = MAX_TASKS)]
    TooManyTasks(usize),
    /// A time or an amount of work is negative or not finite.
    #[error("task {task}: {what} is {value}, but must be finite and 0 or more")]
    BadQuantity {
        /// Index of the task.
        task: usize,
        /// Which quantity.
        what: &'static str,
        /// Its value.
        value: f64,
    },
    /// A set of active tasks has no rates.
    #[error("no rates are given for the set of active tasks {active:?}")]
    MissingRates {
        /// Indices of the tasks of the set.
        active: Vec<usize>,
    },
    /// A rate is zero, negative or not finite, so its task would never end.
    #[error(
        "task {task} has rate {value} while tasks {active:?} are active, but must be above 0 and finite"
    )]
    BadRate {
        /// Index of the task.
        task: usize,
        /// Indices of the tasks of the set.
        active: Vec<usize>,
        /// The rate.
        value: f64,
    },
    /// An order does not contain every task exactly once, or has an upload before its download.
    #[error("the order of transfers is not valid: {0}")]
    BadOrder(&'static str),
    /// One list of batch sizes per task is needed, of 1 to 3 sizes each.
    #[error("task {task} has {count} batch sizes to choose from, but must have 1 to 3")]
    BadBatches {
        /// Index of the task.
        task: usize,
        /// Number of batch sizes given.
        count: usize,
    },
}

/// Why a plan cannot be ordered.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PlanError {
    /// The plan is infeasible, so it has no tasks.
    #[error("the plan is infeasible: there is nothing to order")]
    Infeasible,
    /// A task lacks something that its rates or times need.
    #[error("task {task} has no {what}; {advice}")]
    Missing {
        /// The task.
        task: TaskId,
        /// The missing part.
        what: &'static str,
        /// What to do.
        advice: &'static str,
    },
    /// There is nothing to take compute rates from.
    #[error("the plan has no {wanted}; {advice}")]
    NoRates {
        /// The item sought.
        wanted: &'static str,
        /// What to do.
        advice: &'static str,
    },
    /// The table lacks a set of tasks.
    #[error(
        "the table of rates has no row for the active tasks {0}; add one for every set of tasks"
    )]
    MissingRow(String),
    /// A predicted rate is not above 0, so its task would never end.
    #[error("the rate of task {task} is {value}; fit the model again on more samples")]
    BadRate {
        /// The task.
        task: TaskId,
        /// Its rate.
        value: f64,
    },
    /// The round is longer than `LONGEST_ROUND_S`.
    #[error(
        "the round takes {0:.0e} s, more than the {LONGEST_ROUND_S:.0e} s whose phases a number can \
         tell apart; check samples, bytes and bandwidth"
    )]
    TooLong(f64),
    /// The workload of the round has other tasks than the plan.
    #[error("--workload: {0}")]
    OtherTasks(#[from] OtherTasks),
    /// The round cannot be ordered for another reason.
    #[error(transparent)]
    Other(OverlapError),
}

/// A missing part of a task of a plan.
pub(crate) fn missing(task: &PlanTask, what: &'static str, advice: &'static str) -> PlanError {
    PlanError::Missing {
        task: task.id.clone(),
        what,
        advice,
    }
}
