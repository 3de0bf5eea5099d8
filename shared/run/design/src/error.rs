use std::path::PathBuf;

use predict::PredictError;
use units::{TaskId, UnitError};

/// Why a profile cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum DesignError {
    /// A table cannot be read; the message has a line for each fault.
    #[error("{0}")]
    Table(String),
    /// The document for `--configs` has no configurations, or has other tasks than the workload.
    #[error("--configs: {0}")]
    Given(String),
    /// The plan for `--configs` is infeasible and has no configuration.
    #[error("--configs: the plan is infeasible, so there is nothing to measure")]
    Infeasible,
    /// A row of an imported table has no throughput.
    #[error("a row has no throughput")]
    NoThroughput,
    /// The time of a round is requested, but the samples of this task per round are unknown.
    #[error("--objective round: task {0} has no `samples`; give how many it trains on in a round")]
    Samples(TaskId),
    /// The number of rounds is given, but the samples of this task per round are unknown.
    #[error("--rounds: task {0} has no `samples`; give how many it trains on in a round")]
    Rounds(TaskId),
    /// The number of rounds is given for a workload on several GPUs, for which the gain of a co-run is
    /// not computed.
    #[error(
        "--rounds: on several GPUs the gain of a co-run is not computed; use --budget, or --tolerance"
    )]
    RoundsOfSeveral,
    /// More configurations than can be held in memory.
    #[error(
        "the grid has more than {0} configurations; widen --share-step, or use --design random \
         with a --budget"
    )]
    Grid(u128),
    /// No configuration keeps the limits on the total share.
    #[error(
        "shares of {tasks} tasks in steps of {step} add up to {least} to {most} %, outside \
         --rv-min and --rv-max"
    )]
    TotalShare {
        /// Number of tasks.
        tasks: u32,
        /// Step of the shares.
        step: units::Share,
        /// Least total, percent.
        least: f64,
        /// Largest total, percent.
        most: f64,
    },
    /// The model that chooses the next co-run cannot be fitted.
    #[error("--design adaptive: {0}")]
    Model(#[from] PredictError),
    /// The given model is not valid.
    #[error("the model is no predictor: {0}")]
    NoPredictor(PredictError),
    /// The profile to continue was started with other settings.
    #[error(
        "{path}: the profile was made with {what}; give the same, or start a new profile",
        path = path.display()
    )]
    OtherStart {
        /// The profile.
        path: PathBuf,
        /// The difference.
        what: String,
    },
    /// The current options do not produce the configurations of the profile to continue.
    #[error(
        "{path}: the profile has {what} than these options lead to; give the options that it was \
         started with (a larger --budget is fine)",
        path = path.display()
    )]
    OtherDesign {
        /// The profile.
        path: PathBuf,
        /// The difference.
        what: &'static str,
    },
    /// The recording lacks the described configuration.
    #[error("the recording does not have the configuration {0}")]
    Unrecorded(String),
    /// The device failed permanently.
    #[error("{0}")]
    Device(String),
    /// A signal interrupted a measurement.
    #[error("a signal came while it was measured")]
    Interrupted,
    /// The sum of the seconds of all windows is not a valid quantity.
    #[error("the cost of the profile: {0}")]
    Cost(UnitError),
}
