use std::path::PathBuf;
use std::time::Duration;

use jobs::LogLimits;

use crate::Where;

/// How a schedule is run.
#[derive(Debug, Clone)]
pub struct Settings {
    /// On what.
    pub place: Where,
    /// Restarts of a task before its job is given up.
    pub restarts: u32,
    /// Before the first restart of a task; each further one is twice as long.
    pub backoff: Duration,
    /// From SIGTERM to SIGKILL.
    pub grace: Duration,
    /// Where logs are kept; absent: only while tasks run.
    pub logs: Option<PathBuf>,
    /// How large they may grow.
    pub log_limits: LogLimits,
    /// Whether what tasks print is passed on.
    pub follow: bool,
    /// Where run directories are.
    pub runs: PathBuf,
    /// Seed of new plans.
    pub seed: u64,
}

/// Longest pause before a restart.
const LONGEST_BACKOFF: Duration = Duration::from_secs(60);

impl Settings {
    /// Pause before the restart number `restart`, from 1.
    pub(crate) fn pause(&self, restart: u32) -> Duration {
        let factor = 2u32.saturating_pow(restart.saturating_sub(1));
        self.backoff.saturating_mul(factor).min(LONGEST_BACKOFF)
    }
}
