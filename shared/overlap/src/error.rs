/// Why a round cannot be simulated or ordered.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum OverlapError {
    /// No tasks at all.
    #[error("there is no task to order")]
    NoTasks,
    /// More tasks than a set of active tasks can hold.
    #[error("{0} tasks are too many: at most {max}", max = crate::MAX_TASKS)]
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
    /// An order does not hold every task exactly once, or uploads before it downloads.
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
