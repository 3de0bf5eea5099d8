use std::path::PathBuf;
use std::time::Duration;

use cli::Replaced;
use jobs::LogLimits;

/// How jobs are looked after, checked. A deadline that is absent is never due.
#[derive(Debug, Clone)]
pub struct Settings {
    /// From the start of a job until it is ready.
    pub ready: Option<Duration>,
    /// Between two steps.
    pub stall: Option<Duration>,
    /// Of a task in a round.
    pub total: Option<Duration>,
    /// Restarts of a task in a round.
    pub restarts: u32,
    /// Before the first restart.
    pub backoff: Duration,
    /// From SIGTERM to SIGKILL.
    pub grace: Duration,
    /// Processors of jobs on a GPU.
    pub cpus: jobs::Cpus,
    /// Whether shares stay as planned when tasks end.
    pub keep_shares: bool,
    /// Whether transfers and compute are kept apart.
    pub no_overlap: bool,
    /// Between two progress events of a task.
    pub progress_every: Duration,
    /// Where logs are kept.
    pub logs: Option<PathBuf>,
    /// How large they may grow.
    pub log_limits: LogLimits,
    /// Whether output is printed.
    pub follow: bool,
    /// Where metrics go.
    pub metrics: Option<Replaced>,
    /// Part of a correction between rounds; absent: no correction.
    pub adapt: Option<f64>,
    /// Where run directories are.
    pub runs: PathBuf,
}

/// Longest pause before a restart: what fails for a reason that passes (memory of another program,
/// a server that comes up) is tried at least once a minute until its restarts are used up.
const LONGEST_BACKOFF: Duration = Duration::from_secs(60);

impl Settings {
    /// Pause before the restart number `restart`, from 1: doubled each time.
    #[must_use]
    pub fn pause(&self, restart: u32) -> Duration {
        let factor = 2u32.saturating_pow(restart.saturating_sub(1));
        self.backoff.saturating_mul(factor).min(LONGEST_BACKOFF)
    }
}
