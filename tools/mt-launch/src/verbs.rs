//! `exec` and `env` give programs that another program starts the share of one task.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Subcommand, ValueHint};
use cli::{Console, DeviceArg, Exit, Failure, Output};
use doc::DeviceKind;
use jobs::RunDir;
use jobs::attend::{self, Attended};
use launch::exec::{self, Placement, Program, Wanted, Which};
use units::{Bytes, Share};

use crate::text::{Format, variables_of};

/// Verbs of the tool in addition to launching.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Run a program under the share of a task, in this process
    #[command(after_help = include_str!("exec.txt"))]
    Exec(ExecArgs),
    /// Print the variables of a task
    #[command(after_help = include_str!("env.txt"))]
    Env(EnvArgs),
    /// Clean up after a program (started by `exec`)
    #[command(hide = true)]
    Attend(AttendArgs),
    /// Whether this process would be a client of MPS (started by `exec`)
    #[command(hide = true, name = "probe")]
    Probe,
}

/// Arguments of `exec`.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("what").required(true).args(["task", "share"]))]
pub struct ExecArgs {
    /// Plan or timeline with the task
    #[arg(long, env = "MT_PLAN", value_name = "FILE", value_hint = ValueHint::FilePath)]
    plan: Option<PathBuf>,
    /// Task of the plan whose share to use
    #[arg(long, value_name = "TASK")]
    task: Option<String>,
    /// Share without a plan, percent of the device: above 0, at most 100
    #[arg(long, value_name = "PERCENT")]
    share: Option<f64>,
    #[command(flatten)]
    wanted: PlacementArgs,
    /// Append a line of JSON with the predicted and the reached throughput; this process then stays the
    /// program's parent and passes on its standard output and signals
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    log: Option<PathBuf>,
    /// Parent of private run directories; default: the folder for temporary files
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    runs: Option<PathBuf>,
    /// Program and arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true,
          value_name = "ARGV", value_hint = ValueHint::CommandWithArguments)]
    argv: Vec<OsString>,
}

/// Arguments of `env`.
#[derive(Debug, clap::Args)]
pub struct EnvArgs {
    /// Plan or timeline; `-` or none: $MT_PLAN, else standard input
    #[arg(value_name = "FILE", env = "MT_PLAN", value_hint = ValueHint::FilePath)]
    plan: Option<PathBuf>,
    /// Task whose variables to print; default: the only one, or all of them (json)
    #[arg(long, value_name = "TASK")]
    task: Option<String>,
    /// Format
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t = Format::Env)]
    format: Format,
    #[command(flatten)]
    wanted: PlacementArgs,
    /// Pipe directory of the MPS daemon, as the program will see it
    #[arg(long, value_name = "DIR")]
    pipe_dir: Option<String>,
}

/// What a placement is to be, besides the plan.
#[derive(Debug, clap::Args)]
struct PlacementArgs {
    /// Limit on device memory, instead of what the workload says: 8G, 24GB (cuda only)
    #[arg(long, value_name = "SIZE", value_parser = Bytes::parse)]
    memory: Option<Bytes>,
    /// Where to run, instead of what the workload says
    #[arg(long, value_enum, value_name = "KIND")]
    device: Option<DeviceArg>,
    /// Number of the round, from 0, if a server counts them
    #[arg(long, value_name = "N", default_value_t = 0)]
    round: u32,
}

impl PlacementArgs {
    fn wanted(&self) -> Wanted {
        Wanted {
            memory: self.memory,
            device: self.device.map(DeviceKind::from),
            round: self.round,
        }
    }
}

/// Arguments of the attendant.
#[derive(Debug, clap::Args)]
pub struct AttendArgs {
    run: PathBuf,
    pid: i32,
    start: u64,
    mps: Option<PathBuf>,
}

impl Verb {
    /// Runs the verb.
    pub fn run(self, console: &Console) -> Result<Exit, Failure> {
        match self {
            Self::Exec(args) => args.run(console),
            Self::Env(args) => args.run(console),
            Self::Attend(args) => {
                let attended = Attended {
                    run: args.run,
                    pid: args.pid,
                    start: args.start,
                    mps: args.mps,
                };
                let ended = attend::attend(&attended, || cli::last_word(attend::READY));
                ended.map_err(|error| Failure::Environment(error.to_string()))?;
                Ok(Exit::Done)
            }
            Self::Probe => exec::is_mps_client(),
        }
    }
}

impl ExecArgs {
    fn run(self, console: &Console) -> Result<Exit, Failure> {
        let which = match (self.task, self.share) {
            (_, Some(percent)) => {
                let share = Share::from_percent(percent);
                Which::Share(share.map_err(|e| Failure::Usage(format!("--share {percent}: {e}")))?)
            }
            (task, None) => Which::Task {
                plan: self.plan,
                task: task.unwrap_or_default(),
            },
        };
        let placement = Placement::to_run(&which, &self.wanted.wanted(), console)?;
        let program = Program {
            argv: self.argv,
            log: self.log,
            runs: self.runs.unwrap_or_else(RunDir::default_base),
        };
        exec::exec(&placement, &program, attendant, console)
    }
}

/// Command-line arguments that [`AttendArgs`] parses.
fn attendant(attended: &Attended) -> Vec<OsString> {
    [vec!["attend".into()], attended.arguments()].concat()
}

impl EnvArgs {
    fn run(self, console: &Console) -> Result<Exit, Failure> {
        let all = Placement::of_file(self.plan.as_deref(), &self.wanted.wanted(), console)?;
        let mut output = Output::open(None, false)?;
        let task = self.task.as_deref();
        let pipe = self.pipe_dir.as_deref();
        output.text(&variables_of(all, task, pipe, self.format)?)?;
        output.finish()?;
        Ok(Exit::Done)
    }
}
