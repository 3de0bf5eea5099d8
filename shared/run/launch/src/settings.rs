use std::time::Duration;

use cli::Replaced;
use jobs::Supervision;

/// Checked settings of a launch. An absent time limit means no limit.
#[derive(Debug, Clone)]
pub struct LaunchSettings {
    /// Restarts, logs and how jobs are ended.
    pub supervision: Supervision,
    /// Time limit from the start of a job until it is ready.
    pub ready: Option<Duration>,
    /// Time limit between two steps.
    pub stall: Option<Duration>,
    /// Time limit for a task in a round.
    pub total: Option<Duration>,
    /// Processors of jobs on a GPU.
    pub cpus: jobs::Cpus,
    /// Whether to use a running MPS daemon, and leave it running.
    pub attach_mps: bool,
    /// Whether jobs report no progress: the share is applied when they start, and exit status 0 means that the
    /// samples are done.
    pub no_progress: bool,
    /// Whether shares stay as planned when tasks end.
    pub keep_shares: bool,
    /// Whether transfers and compute do not overlap.
    pub no_overlap: bool,
    /// Minimum time between two progress events of a task.
    pub progress_every: Duration,
    /// File of metrics.
    pub metrics: Option<Replaced>,
    /// Weight of a correction between rounds; absent: no correction.
    pub adapt: Option<f64>,
}
