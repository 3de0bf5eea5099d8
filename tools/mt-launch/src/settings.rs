use std::path::PathBuf;
use std::time::Duration;

use cli::{Failure, Replaced};
use jobs::{LogLimits, RunDir};

use crate::args::Care;

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
    pub cpus: device::Cpus,
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

/// Longest pause before a restart.
const LONGEST_BACKOFF: Duration = Duration::from_secs(60);

impl Settings {
    /// Checks every value.
    ///
    /// # Errors
    /// [`Failure::Usage`] with a line for each that is out of range, or that the file of metrics is
    /// an input or output.
    pub fn new(care: &Care) -> Result<Self, Failure> {
        let mut faults = Vec::new();
        let mut seconds = |name: &str, value: f64| {
            if (0.0..=1e9).contains(&value) {
                return Duration::from_secs_f64(value);
            }
            faults.push(format!("--{name} {value}: give seconds from 0 to 1e9"));
            Duration::ZERO
        };
        let ready = seconds("ready-timeout", care.ready_timeout);
        let stall = seconds("stall-timeout", care.stall_timeout);
        let total = seconds("task-timeout", care.task_timeout);
        let backoff = seconds("backoff", care.backoff);
        let grace = seconds("grace", care.grace);
        let progress_every = seconds("progress-every", care.progress_every);
        if care.log_bytes == 0 {
            faults.push("--log-bytes 0: give at least 1".to_owned());
        }
        if !(care.damping > 0.0 && care.damping <= 1.0) {
            faults.push(format!(
                "--damping {}: give a number above 0, at most 1",
                care.damping
            ));
        }
        if !faults.is_empty() {
            return Err(Failure::Usage(faults.join("\n")));
        }
        let deadline = |d: Duration| (!d.is_zero()).then_some(d);
        Ok(Self {
            ready: deadline(ready),
            stall: deadline(stall),
            total: deadline(total),
            restarts: care.restarts,
            backoff,
            grace,
            cpus: care.cpus.clone(),
            keep_shares: care.keep_shares,
            no_overlap: care.no_overlap,
            progress_every,
            logs: care.logs.clone(),
            log_limits: LogLimits {
                bytes: care.log_bytes,
                old_files: care.log_files,
            },
            follow: care.follow,
            metrics: care
                .prometheus
                .as_deref()
                .map(Replaced::claim)
                .transpose()?,
            adapt: care.adapt.then_some(care.damping),
            runs: care.runs.clone().unwrap_or_else(RunDir::default_base),
        })
    }

    /// Pause before the restart number `restart`, from 1: doubled each time.
    #[must_use]
    pub fn pause(&self, restart: u32) -> Duration {
        let factor = 2u32.saturating_pow(restart.saturating_sub(1));
        self.backoff.saturating_mul(factor).min(LONGEST_BACKOFF)
    }
}
