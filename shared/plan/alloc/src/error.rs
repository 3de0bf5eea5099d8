use units::{Share, TaskId};

/// Why a problem cannot be solved at all. (If no plan is feasible, that is a result and not an error.)
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum AllocError {
    /// No task, or more than 64.
    #[error("{found} tasks: give 1 to 64")]
    TaskCount {
        /// How many there are.
        found: usize,
    },
    /// The predictor has another number of tasks.
    #[error("the predictor knows {predictor} tasks, the problem has {problem}")]
    OtherTasks {
        /// Tasks of the predictor.
        predictor: usize,
        /// Tasks of the problem.
        problem: usize,
    },
    /// A task has no batch size.
    #[error("task {task} has no batch size")]
    NoBatch {
        /// The task.
        task: TaskId,
    },
    /// A required data volume is missing.
    #[error("task {task} has no data volume; the objective `round` and a mismatch need `samples`")]
    NoSamples {
        /// The task.
        task: TaskId,
    },
    /// The value of a sample is needed but unknown.
    #[error(
        "task {task} has no `efficiency`, so the value of its samples at each batch size is unknown; the objectives \
         `progress` and `progress-last` need it, or --batch reference"
    )]
    NoEfficiency {
        /// The task.
        task: TaskId,
    },
    /// The work of a sample is required but missing.
    #[error("the work of a sample of task {task} is not known; the balance `workload` needs it")]
    NoWork {
        /// The task.
        task: TaskId,
    },
    /// An exact search was requested that would try all orders of the transfers of many tasks.
    #[error(
        "a round of {tasks} tasks cannot be searched exactly: all orders of transfers are tried for up to {most} tasks; without `--search exact` the plan reports its distance from a bound"
    )]
    NoExactRound {
        /// Number of tasks.
        tasks: usize,
        /// Maximum number.
        most: usize,
    },
    /// An exact search was requested that would never end.
    #[error(
        "no exact search of these {tasks} tasks: it lists up to {most} combinations of batch sizes, and 2^64 points \
         with their shares; give a coarser --step, an --rv or fewer batch sizes, or leave `--search exact` out"
    )]
    NoExact {
        /// How many there are.
        tasks: usize,
        /// Combinations of batch sizes that are listed.
        most: usize,
    },
    /// The share step is not a share of one task.
    #[error("a share step of {step} is not above 0 and at most 100 %")]
    Step {
        /// The step.
        step: Share,
    },
    /// The floor is not a fraction.
    #[error("a starvation floor of {floor} is not between 0 and 1")]
    Floor {
        /// The floor.
        floor: f64,
    },
    /// The mismatch bound is not a bound.
    #[error("a mismatch bound of {bound} is not a finite number of 0 or more")]
    Mismatch {
        /// The bound.
        bound: f64,
    },
    /// The least mismatch was requested for several GPUs.
    #[error(
        "the least mismatch is that of the tasks of one GPU, and here they are divided among several: \
         give --mismatch a bound"
    )]
    LeastOfSeveral,
    /// Nothing is feasible although no constraint prevents it.
    #[error(
        "the search found no plan, although no constraint prevents one: the predictor gives tasks no throughput, or --max-points is too small"
    )]
    Unexplained,
    /// A predictor returned an invalid throughput.
    #[error("the predictor failed: {what}")]
    Prediction {
        /// Its result.
        what: String,
    },
}
