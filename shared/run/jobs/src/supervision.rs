use std::path::PathBuf;
use std::time::Duration;

use crate::{LogLimits, Passing, RunDir};

/// How jobs are supervised, whatever plan they belong to.
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
    /// How large they may grow.
    pub log_limits: LogLimits,
    /// Whether the output of jobs is printed.
    pub follow: bool,
    /// Where run directories are.
    pub runs: PathBuf,
    /// Which variables jobs get in addition to the usual ones.
    pub passing: Passing,
}

/// When a task is late, whatever plan it belongs to. An absent limit is never due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TimeLimits {
    /// From the start of a job until it is ready.
    pub ready: Option<Duration>,
    /// Between two steps.
    pub stall: Option<Duration>,
    /// For a task in a round, restarts included.
    pub total: Option<Duration>,
    /// Whether jobs report no progress, so that the other two do not apply.
    pub no_progress: bool,
}

/// Maximum pause before a restart: a job that fails for a temporary reason (memory used by another program, a server
/// that is starting) is tried at least once a minute until its restarts are used up.
const LONGEST_BACKOFF: Duration = Duration::from_secs(60);

impl Supervision {
    /// Of programs that are started once, as they are given.
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

    /// Pause before restart number `restart`, from 1: doubled each time, so that a job that fails at once does not
    /// use up its restarts within a second.
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
