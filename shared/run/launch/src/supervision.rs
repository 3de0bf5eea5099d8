//! Supervision of jobs, from the command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueHint;
use cli::{Failure, Replaced};

use crate::settings::LaunchSettings;

/// Weight of the previous model without `--damping`: a round is one noisy measurement, and with a weight of one half
/// it is forgotten after a few rounds.
const DAMPING: f64 = 0.5;

/// Supervision of jobs on real devices.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Supervision")]
pub struct SupervisionArgs {
    /// Longest time from the start of a job until it is ready; 0: no limit
    #[arg(long, value_name = "SECONDS", default_value_t = 120.0)]
    pub ready_timeout: f64,
    /// Longest time between two steps of a job; 0: no limit
    #[arg(long, value_name = "SECONDS", default_value_t = 300.0)]
    pub stall_timeout: f64,
    /// Longest time of a task in a round, restarts included; 0: no limit
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0)]
    pub task_timeout: f64,
    /// Do not expect progress messages: success is exit status 0
    #[arg(long)]
    pub no_progress: bool,
    /// Restarts, logs and environment.
    #[command(flatten)]
    pub jobs: cli::JobArgs,
    /// Processors of jobs on a GPU: auto gives each task a part of all, none pins nothing, a list (0-7,9) is
    /// divided
    #[arg(long, value_name = "auto|none|LIST", default_value = "auto")]
    pub cpus: jobs::Cpus,
    /// Use the running MPS daemon (CUDA_MPS_PIPE_DIRECTORY) instead of a private one, and leave it running
    /// (cuda only)
    #[arg(long)]
    pub attach_mps: bool,
    /// Do not redistribute the shares of idle tasks
    #[arg(long)]
    pub keep_shares: bool,
    /// First all downloads, then all compute, then all uploads
    #[arg(long)]
    pub no_overlap: bool,
    /// Time between two progress events of a task; 0: as often as possible
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    pub progress_every: f64,
    /// Write metrics in the Prometheus text format to FILE, every second
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub prometheus: Option<PathBuf>,
    /// Between rounds, correct the model by what was measured and plan again
    #[arg(long)]
    pub adapt: bool,
    /// Weight of the earlier model in a correction of --adapt, from 0 to below 1; at 0 the model predicts
    /// what was measured last; default: 0.5
    #[arg(long, value_name = "LAMBDA", requires = "adapt")]
    pub damping: Option<f64>,
}

impl SupervisionArgs {
    /// Checks every value.
    ///
    /// # Errors
    /// [`Failure::Usage`] with a line for each value that is out of range, or if the file of metrics is an input or
    /// output.
    pub fn settings(&self) -> Result<LaunchSettings, Failure> {
        let mut faults = Vec::new();
        let supervision = self.jobs.supervision(&mut faults);
        let mut seconds = |name: &str, value: f64| {
            cli::seconds(name, value).unwrap_or_else(|fault| {
                faults.push(fault);
                Duration::ZERO
            })
        };
        let ready = seconds("ready-timeout", self.ready_timeout);
        let stall = seconds("stall-timeout", self.stall_timeout);
        let total = seconds("task-timeout", self.task_timeout);
        let progress_every = seconds("progress-every", self.progress_every);
        let damping = self.damping.unwrap_or(DAMPING);
        if !(0.0..1.0).contains(&damping) {
            faults.push(format!("--damping {damping}: give 0 to below 1"));
        }
        if !faults.is_empty() {
            return Err(Failure::Usage(faults.join("\n")));
        }
        let deadline = |d: Duration| (!d.is_zero()).then_some(d);
        Ok(LaunchSettings {
            supervision,
            ready: deadline(ready).filter(|_| !self.no_progress),
            stall: deadline(stall).filter(|_| !self.no_progress),
            total: deadline(total),
            cpus: self.cpus.clone(),
            attach_mps: self.attach_mps,
            no_progress: self.no_progress,
            keep_shares: self.keep_shares,
            no_overlap: self.no_overlap,
            progress_every,
            metrics: self
                .prometheus
                .as_deref()
                .map(Replaced::claim)
                .transpose()?,
            adapt: self.adapt.then_some(1.0 - damping),
        })
    }
}
