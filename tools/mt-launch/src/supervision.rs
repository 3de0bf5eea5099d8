//! Supervision of jobs, from the command line.

use std::time::Duration;

use cli::Failure;

use launch::LaunchSettings;

/// Default of `--damping`, the weight of the previous model: a round is one noisy measurement, and with a weight of one
/// half its effect fades after a few rounds.
const DAMPING: f64 = 0.5;

/// Default limits in seconds, until a job of a round is ready and between two steps: importing a framework on a busy
/// machine takes half a minute, and an evaluation between two steps some minutes.
const LIMITS: (f64, f64) = (120.0, 300.0);

/// Default of `--progress-every` in seconds: nobody can read more events.
const PROGRESS_EVERY: f64 = 1.0;

/// Supervision of jobs on real devices.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Supervision")]
pub struct SupervisionArgs {
    /// Time limits and metrics.
    #[command(flatten)]
    pub limits: cli::LimitArgs,
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
    /// Time between two progress events of a task; 0: as often as possible; default: 1
    #[arg(long, value_name = "SECONDS")]
    pub progress_every: Option<f64>,
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
        let limits = self.limits.limits(Some(LIMITS), &mut faults);
        let every = self.progress_every.unwrap_or(PROGRESS_EVERY);
        let progress_every = cli::seconds("progress-every", every).unwrap_or_else(|fault| {
            faults.push(fault);
            Duration::ZERO
        });
        let damping = self.damping.unwrap_or(DAMPING);
        if !(0.0..1.0).contains(&damping) {
            faults.push(format!("--damping {damping}: give 0 to below 1"));
        }
        if !faults.is_empty() {
            return Err(Failure::Usage(faults.join("\n")));
        }
        Ok(LaunchSettings {
            supervision,
            ready: limits.ready,
            stall: limits.stall,
            total: limits.total,
            cpus: self.cpus.clone(),
            attach_mps: self.attach_mps,
            no_progress: limits.no_progress,
            keep_shares: self.keep_shares,
            no_overlap: self.no_overlap,
            progress_every,
            metrics: self.limits.metrics()?,
            adapt: self.adapt.then_some(1.0 - damping),
        })
    }

    /// Refuses options of rounds that have no meaning for a schedule, whose tasks have whole GPUs, run once, and follow
    /// no order of transfers.
    ///
    /// # Errors
    /// [`Failure::Usage`] with the names of the given options.
    pub fn refuse_for_schedules(&self) -> Result<(), Failure> {
        let given = [
            ("--adapt", self.adapt),
            ("--keep-shares", self.keep_shares),
            ("--no-overlap", self.no_overlap),
            ("--cpus", self.cpus != jobs::Cpus::default()),
            ("--progress-every", self.progress_every.is_some()),
        ];
        let given = given.iter().filter(|(_, given)| *given);
        let names: Vec<&str> = given.map(|(name, _)| *name).collect();
        match names[..] {
            [] => Ok(()),
            _ => Err(Failure::Usage(format!(
                "{}: for plans and timelines, not for schedules",
                names.join(", ")
            ))),
        }
    }
}
