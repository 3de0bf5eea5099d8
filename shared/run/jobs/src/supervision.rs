use std::path::PathBuf;
use std::time::Duration;

use crate::{LogLimits, Passing, RunDir};

/// How jobs are supervised; applies to all kinds of plans.
#[derive(Debug, Clone)]
pub struct Supervision {
    /// Maximum number of restarts of a task.
    pub restarts: u32,
    /// Pause before the first restart.
    pub backoff: Duration,
    /// Time from SIGTERM to SIGKILL.
    pub grace: Duration,
    /// Folder of logs; absent: kept only while tasks run.
    pub logs: Option<PathBuf>,
    /// Size limits of the logs.
    pub log_limits: LogLimits,
    /// Whether the output of jobs is printed.
    pub follow: bool,
    /// Folder of run directories.
    pub runs: PathBuf,
    /// Which variables jobs get in addition to the usual ones.
    pub passing: Passing,
}

/// Time limits of a task; they apply to all kinds of plans. `None` means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TimeLimits {
    /// Time limit from the start of a job until it is ready.
    pub ready: Option<Duration>,
    /// Time limit between two steps.
    pub stall: Option<Duration>,
    /// Time limit for a task in a round, including restarts.
    pub total: Option<Duration>,
    /// Whether jobs report no progress, so that `ready` and `stall` do not apply.
    pub no_progress: bool,
}

/// Maximum pause before a restart, so that a job that fails for a temporary reason (memory used by another program, a
/// server that is still starting) is tried at least once a minute until its restarts are used up.
const LONGEST_BACKOFF: Duration = Duration::from_secs(60);

impl Supervision {
    /// Supervision of programs that are started as given and never restarted.
    #[must_use]
    pub fn of_programs(grace: Duration) -> Self {
        Self {
            restarts: 0,
            backoff: Duration::ZERO,
            grace,
            logs: None,
            log_limits: LogLimits::default(),
            follow: false,
            runs: RunDir::default_base(),
            passing: Passing::default(),
        }
    }

    /// Pause before restart number `restart`, from 1. It doubles each time (exponential back-off), so that a job that
    /// fails at once does not use up its restarts within a second.
    #[must_use]
    pub fn pause(&self, restart: u32) -> Duration {
        let factor = 2u32.saturating_pow(restart.saturating_sub(1));
        self.backoff.saturating_mul(factor).min(LONGEST_BACKOFF)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_minute() {
        let supervision = Supervision {
            backoff: Duration::from_secs(1),
            ..Supervision::of_programs(Duration::ZERO)
        };
        let pauses = [1, 2, 3, 6, 7, u32::MAX].map(|n| supervision.pause(n).as_secs());
        assert_eq!(pauses, [1, 2, 4, 32, 60, 60]);
    }
}
