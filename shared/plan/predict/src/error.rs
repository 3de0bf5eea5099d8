/// Why a model could not be fitted or read.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PredictError {
    /// The data set has no task.
    #[error("the profile has no tasks")]
    NoTasks,
    /// More tasks than a co-run may have.
    #[error("{found} tasks, at most {most} can be modelled together")]
    TooManyTasks {
        /// Tasks in the data.
        found: usize,
        /// The limit.
        most: usize,
    },
    /// A sample is not a configuration of the tasks.
    #[error("sample {sample}: {reason}")]
    BadSample {
        /// Position of the sample in the data set.
        sample: usize,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// No sample has a throughput above 0.
    #[error(
        "no usable sample: every throughput is zero, so there is nothing to learn from; \
         profile at least one run of each task"
    )]
    NoUsableSample,
    /// A task was never measured and has no FLOPs and bytes to predict it from.
    #[error(
        "task {task} was never measured and has no flops_per_sample or bytes_per_sample to \
         predict it from; profile it alone, or give its FLOPs and bytes"
    )]
    UnknownTask {
        /// Index of the task.
        task: usize,
    },
    /// The parameters of a model document are not valid parameters of a predictor.
    #[error("{path}: {problem}; fit the model again")]
    BadModel {
        /// JSON path of the bad parameter.
        path: String,
        /// What is wrong.
        problem: String,
    },
}
