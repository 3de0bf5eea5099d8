use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueHint;
use doc::{Balance, BatchPolicy, DeviceKind, Document, ObjectiveKind, SoloRate};
use jobs::{LogLimits, Passing, RunDir, Supervision, TimeLimits};

use crate::{Console, Existing, Failure, Input, Output, Replaced};

/// Arguments of every tool that reads documents and writes one for each.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct StreamArgs {
    /// Files to read; `-` or none: standard input
    #[arg(value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub files: Vec<PathBuf>,
    /// Write to FILE, which appears only when it is complete
    #[arg(short, long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Write indented documents; otherwise a terminal gets a summary, and anything else one line per
    /// document
    #[arg(long)]
    pub pretty: bool,
}

impl StreamArgs {
    /// Writes one document for each that is read, in order; `what` names the input in messages.
    ///
    /// # Errors
    /// The first [`Failure`]: of reading, of `make`, or of writing.
    pub fn each<R: Document, W: Document>(
        &self,
        what: &'static str,
        console: &Console,
        mut make: impl FnMut(R) -> Result<W, Failure>,
    ) -> Result<(), Failure> {
        let input = Input::open(&self.files, what, console)?;
        let mut output = Output::open(self.output.as_deref(), self.pretty)?;
        for document in input.placed::<R>() {
            let (place, document) = document?;
            let made = make(document).map_err(|failure| match failure {
                Failure::Input(text) => Failure::Input(format!("{place}: {text}")),
                other => other,
            });
            output.document(&made?)?;
        }
        output.finish()
    }

    /// The document of a file that `option` names in addition to the input.
    ///
    /// # Errors
    /// [`Failure`] of reading; [`Failure::Usage`] if the file does not contain exactly one document, or is standard
    /// input, which is already the input.
    pub fn one<D: Document>(
        &self,
        option: &str,
        path: &Path,
        expected: &'static str,
        console: &Console,
    ) -> Result<D, Failure> {
        self.leaves(option, path)?;
        let input = Input::open(&[path.to_owned()], expected, console)?;
        let mut documents = input.documents::<D>();
        match (documents.next().transpose()?, documents.next()) {
            (Some(document), None) => Ok(document),
            _ => Err(Failure::Usage(format!(
                "{option} {}: give a file with {expected}, and one only",
                path.display()
            ))),
        }
    }

    /// Refuses standard input as the file of `option` if the input comes from there.
    ///
    /// # Errors
    /// [`Failure::Usage`] in that case.
    pub fn leaves(&self, option: &str, path: &Path) -> Result<(), Failure> {
        let stdin = Path::new("-");
        let taken = self.files.is_empty() || self.files.iter().any(|f| f == stdin);
        if path == stdin && taken {
            return Err(Failure::Usage(format!(
                "{option} -: standard input is already the input; name a FILE for one of the two"
            )));
        }
        Ok(())
    }
}

/// Streams of every tool that starts jobs: its input, and the events that it writes.
#[derive(Debug, Clone, clap::Args)]
pub struct EventArgs {
    /// Plans, timelines or schedules to launch (workloads with mt-launch --controller); `-` or none: standard
    /// input
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub files: Vec<PathBuf>,
    /// Write events to FILE as they happen; default: standard output
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Replace the output even if it holds a run or a profile
    #[arg(long, requires = "output")]
    pub force: bool,
}

impl EventArgs {
    /// Opens both; `what` names the input in messages.
    ///
    /// # Errors
    /// [`Failure`] as for [`Input::open`] and [`Output::progressive`].
    pub fn open(&self, what: &'static str, console: &Console) -> Result<(Input, Output), Failure> {
        let input = Input::open(&self.files, what, console)?;
        let existing = Existing {
            replace: self.force,
            continues: None,
        };
        let output = Output::progressive(self.output.as_deref(), existing)?;
        Ok((input, output))
    }
}

/// Which variables jobs get, for every tool that starts them.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct EnvArgs {
    /// Pass environment variables on to the jobs: a name, or a prefix with * (SLURM_*); may be repeated
    #[arg(long, value_name = "PATTERN")]
    pub keep_env: Vec<String>,
    /// Set a variable for every job, overriding the workload; may be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    pub env: Vec<String>,
}

impl EnvArgs {
    /// Checks both; errors are added to `faults`.
    #[must_use]
    pub fn passing(&self, faults: &mut Vec<String>) -> Passing {
        Passing::new(&self.keep_env, &self.env).unwrap_or_else(|wrong| {
            faults.extend(wrong);
            Passing::default()
        })
    }
}

/// Supervision of jobs, for every tool that starts them.
#[derive(Debug, Clone, clap::Args)]
pub struct JobArgs {
    /// Restarts before a task (in a schedule: a round or a job) is given up
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub restarts: u32,
    /// Pause before the first restart; each further one is twice as long, up to a minute
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    pub backoff: f64,
    /// Time between SIGTERM and SIGKILL when a task is stopped
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    pub grace: f64,
    /// Keep the logs of tasks in DIR; default: only while they run
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub logs: Option<PathBuf>,
    /// Size at which a log is rotated to NAME.log.1
    #[arg(long, value_name = "BYTES", default_value_t = 16 << 20)]
    pub log_bytes: u64,
    /// Older logs to keep of each task
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub log_files: u32,
    /// Print the tasks' output to standard error, each line after its task's name
    #[arg(long)]
    pub follow: bool,
    /// Their environment.
    #[command(flatten)]
    pub env: EnvArgs,
    /// Parent of the private run directory; default: the folder for temporary files
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub runs: Option<PathBuf>,
}

impl JobArgs {
    /// Checks every value; errors are added to `faults`.
    #[must_use]
    pub fn supervision(&self, faults: &mut Vec<String>) -> Supervision {
        let mut time = |option, value| {
            seconds(option, value).unwrap_or_else(|fault| {
                faults.push(fault);
                Duration::ZERO
            })
        };
        let backoff = time("backoff", self.backoff);
        let grace = time("grace", self.grace);
        if self.log_bytes == 0 {
            faults.push("--log-bytes 0: give at least 1".to_owned());
        }
        Supervision {
            passing: self.env.passing(faults),
            restarts: self.restarts,
            backoff,
            grace,
            logs: self.logs.clone(),
            log_limits: LogLimits {
                bytes: self.log_bytes,
                old_files: self.log_files,
            },
            follow: self.follow,
            runs: self.runs.clone().unwrap_or_else(RunDir::default_base),
        }
    }
}

/// Time limits of jobs and their metrics, for every tool that runs jobs.
#[derive(Debug, Clone, clap::Args)]
pub struct LimitArgs {
    /// Longest time from the start of a job until it is ready; 0: no limit; default: 120, for schedules no limit
    #[arg(long, value_name = "SECONDS")]
    pub ready_timeout: Option<f64>,
    /// Longest time between two steps of a job; 0: no limit; default: 300, for schedules no limit
    #[arg(long, value_name = "SECONDS")]
    pub stall_timeout: Option<f64>,
    /// Longest time of a task in a round, restarts included; 0: no limit
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0)]
    pub task_timeout: f64,
    /// Do not expect progress messages: success is exit status 0
    #[arg(long)]
    pub no_progress: bool,
    /// Write metrics in the Prometheus text format to FILE, every second
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub prometheus: Option<PathBuf>,
}

impl LimitArgs {
    /// Checks every value; errors are added to `faults`. `defaults` are the seconds until a job is ready and between
    /// two steps where none are given.
    #[must_use]
    pub fn limits(&self, defaults: Option<(f64, f64)>, faults: &mut Vec<String>) -> TimeLimits {
        let mut limit = |option, value: Option<f64>| {
            let time = seconds(option, value?).unwrap_or_else(|fault| {
                faults.push(fault);
                Duration::ZERO
            });
            (!time.is_zero()).then_some(time)
        };
        let (ready, stall) = defaults.unzip();
        let ready = limit("ready-timeout", self.ready_timeout.or(ready));
        let stall = limit("stall-timeout", self.stall_timeout.or(stall));
        TimeLimits {
            ready: ready.filter(|_| !self.no_progress),
            stall: stall.filter(|_| !self.no_progress),
            total: limit("task-timeout", Some(self.task_timeout)),
            no_progress: self.no_progress,
        }
    }

    /// Checks every value together with those of `jobs`, for a tool that has no others.
    ///
    /// # Errors
    /// [`Failure::Usage`] with everything that is wrong.
    pub fn checked(&self, jobs: &JobArgs) -> Result<(Supervision, TimeLimits), Failure> {
        let mut faults = Vec::new();
        let supervision = jobs.supervision(&mut faults);
        let limits = self.limits(None, &mut faults);
        match faults.is_empty() {
            true => Ok((supervision, limits)),
            false => Err(Failure::Usage(faults.join("\n"))),
        }
    }

    /// The file of metrics.
    ///
    /// # Errors
    /// [`Failure::Usage`] if it is an input or output.
    pub fn metrics(&self) -> Result<Option<Replaced>, Failure> {
        self.prometheus.as_deref().map(Replaced::claim).transpose()
    }
}

/// The seconds of an option, at most `1e9` (30 years), which fits into a [`Duration`] and into an instant that far in
/// the future.
///
/// # Errors
/// The problem with the option, for [`Failure::Usage`].
pub fn seconds(option: &str, value: f64) -> Result<Duration, String> {
    if (0.0..=1e9).contains(&value) {
        return Ok(Duration::from_secs_f64(value));
    }
    Err(format!("--{option} {value}: give seconds from 0 to 1e9"))
}

/// Where jobs run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum DeviceArg {
    /// A GPU of this machine under MPS if there is one, else the simulator; schedules: this machine's GPUs if
    /// every GPU of the cluster has a `uuid`, else processors
    Auto,
    /// The GPU simulator: no job is started
    Sim,
    /// Real processes under CPU quotas
    Cpu,
    /// Real processes under NVIDIA MPS; schedules: on the GPUs of their `uuid`
    Cuda,
}

impl From<DeviceArg> for DeviceKind {
    fn from(device: DeviceArg) -> Self {
        match device {
            DeviceArg::Auto => DeviceKind::Auto,
            DeviceArg::Sim => DeviceKind::Sim,
            DeviceArg::Cpu => DeviceKind::Cpu,
            DeviceArg::Cuda => DeviceKind::Cuda,
        }
    }
}

/// The seed of every tool that draws random numbers.
#[derive(Debug, Clone, clap::Args)]
pub struct SeedArgs {
    /// Seed of every random choice; the same seed gives the same bytes
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

/// Objective of a plan, for every tool with this option.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum ObjectiveArg {
    /// Total throughput
    Raw,
    /// Sum of throughputs relative to alone
    Fairness,
    /// Total throughput, weighted as the workload says
    Weighted,
    /// Least throughput relative to alone
    MaxMin,
    /// Time until every task has trained on its samples (minimised)
    Round,
    /// Mean time to target, by the efficiency of the workload (minimised)
    Progress,
    /// Time until the last task reaches its target (minimised)
    ProgressLast,
}

impl From<ObjectiveArg> for ObjectiveKind {
    fn from(arg: ObjectiveArg) -> Self {
        match arg {
            ObjectiveArg::Raw => ObjectiveKind::Raw,
            ObjectiveArg::Fairness => ObjectiveKind::Fairness,
            ObjectiveArg::Weighted => ObjectiveKind::Weighted,
            ObjectiveArg::MaxMin => ObjectiveKind::MaxMin,
            ObjectiveArg::Round => ObjectiveKind::Round,
            ObjectiveArg::Progress => ObjectiveKind::Progress,
            ObjectiveArg::ProgressLast => ObjectiveKind::ProgressLast,
        }
    }
}

/// Which solo throughput a plan compares with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum SoloArg {
    /// At the best of the task's batch sizes
    Best,
    /// At the chosen batch size
    SameBatch,
}

impl From<SoloArg> for SoloRate {
    fn from(arg: SoloArg) -> Self {
        match arg {
            SoloArg::Best => SoloRate::Best,
            SoloArg::SameBatch => SoloRate::SameBatch,
        }
    }
}

/// How the batch sizes of a plan may be chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum BatchArg {
    /// Each task takes any of its batch sizes
    Free,
    /// Each task takes its largest batch size
    Fixed,
    /// All tasks take the same batch size
    Same,
    /// Each task keeps its reference batch size
    Reference,
}

impl From<BatchArg> for BatchPolicy {
    fn from(arg: BatchArg) -> Self {
        match arg {
            BatchArg::Free => BatchPolicy::Free,
            BatchArg::Fixed => BatchPolicy::Fixed,
            BatchArg::Same => BatchPolicy::Same,
            BatchArg::Reference => BatchPolicy::Reference,
        }
    }
}

/// What is balanced against the data volumes of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum BalanceArg {
    /// Batch sizes
    Batch,
    /// Work of a batch
    Workload,
    /// Throughput
    Time,
}

impl From<BalanceArg> for Balance {
    fn from(arg: BalanceArg) -> Self {
        match arg {
            BalanceArg::Batch => Balance::Batch,
            BalanceArg::Workload => Balance::Workload,
            BalanceArg::Time => Balance::Time,
        }
    }
}
