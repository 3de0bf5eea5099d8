use std::time::Duration;

use cli::Replaced;
use jobs::Supervision;

/// How a launch is played, checked. A deadline that is absent is never due.
#[derive(Debug, Clone)]
pub struct LaunchSettings {
    /// Restarts, logs and how jobs are ended.
    pub supervision: Supervision,
    /// From the start of a job until it is ready.
    pub ready: Option<Duration>,
    /// Between two steps.
    pub stall: Option<Duration>,
    /// For a task in a round.
    pub total: Option<Duration>,
    /// Processors of jobs on a GPU.
    pub cpus: jobs::Cpus,
    /// Whether a daemon of MPS that runs already is used, and left running.
    pub attach_mps: bool,
    /// Whether jobs report no progress: the share is made real when they start, and exit status 0
    /// says that the samples are done.
    pub no_progress: bool,
    /// Whether shares stay as planned when tasks end.
    pub keep_shares: bool,
    /// Whether transfers and compute are kept apart.
    pub no_overlap: bool,
    /// Between two progress events of a task.
    pub progress_every: Duration,
    /// Where metrics go.
    pub metrics: Option<Replaced>,
    /// Part of a correction between rounds; absent: no correction.
    pub adapt: Option<f64>,
}
