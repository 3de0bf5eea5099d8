//! `exec` and `env`: the share of one task for programs that others start.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Subcommand, ValueHint};
use cli::{Console, Exit, Failure, Input, Output};
use doc::DeviceKind;
use jobs::RunDir;
use jobs::attend::{self, Charge};
use launch::exec::{self, Format, Placement, Program, Wanted};
use units::{Bytes, Share};

use crate::args::Device;

const EXEC_EXAMPLES: &str = "\
Examples:
  mt-launch exec --plan plan.json --task a -- python3 train.py --lr 0.1
  mt-launch exec --share 60 --memory 8G --device cuda -- python3 train.py
  srun mt-launch exec --task a -- ./train     # with MT_PLAN=plan.json in the environment

The program keeps this process, its standard streams, folder, environment and exit status, and gets
MT_TASK, MT_BATCH_SIZE, MT_SHARE_PERCENT, MT_DEVICE, MT_ROUND and MT_SAMPLES besides. On processors
it runs in a control group, which is removed with all that is left in it when the program has ended,
also when it was killed. On a GPU it is a client of the MPS daemon that CUDA_MPS_PIPE_DIRECTORY names,
of the machine's, or of one that this user's programs share, which ends with the last of them.

Exit codes: those of the program; 2 bad usage; 3 the share cannot be had; 126 the program cannot be
run; 127 there is no such program.";

const ENV_EXAMPLES: &str = "\
Examples:
  mt-launch env --task a plan.json > a.env && docker run --env-file a.env ...
  eval \"$(mt-launch env --task a -f sh plan.json)\"
  mt-launch env -f json plan.json";

/// What the tool does beside launching.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Become a program under the share of a task
    #[command(after_help = EXEC_EXAMPLES)]
    Exec(ExecArgs),
    /// Print the variables of a task
    #[command(after_help = ENV_EXAMPLES)]
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
    /// Plan or timeline that has the task
    #[arg(long, env = "MT_PLAN", value_name = "FILE", value_hint = ValueHint::FilePath)]
    plan: Option<PathBuf>,
    /// Task of the plan whose share it is
    #[arg(long, value_name = "TASK")]
    task: Option<String>,
    /// Share without a plan: percent of the device, above 0, at most 100
    #[arg(long, value_name = "PERCENT")]
    share: Option<f64>,
    /// Most device memory, in place of what the workload says: 8G, 24GB (cuda only)
    #[arg(long, value_name = "SIZE", value_parser = Bytes::parse)]
    memory: Option<Bytes>,
    /// Where to run, in place of what the workload says
    #[arg(long, value_enum, value_name = "KIND")]
    device: Option<Device>,
    /// Number of the round, from 0, where a server counts them
    #[arg(long, value_name = "N", default_value_t = 0)]
    round: u32,
    /// Append a line of JSON on what was predicted and what came out; this process then stays the
    /// program's parent and passes its standard output and signals on
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    log: Option<PathBuf>,
    /// Where private run directories are made; absent: in the folder for temporary files
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
    /// Task whose variables they are; absent: the only one, or all of them (json)
    #[arg(long, value_name = "TASK")]
    task: Option<String>,
    /// How they are written
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t = Format::Env)]
    format: Format,
    /// Most device memory, in place of what the workload says: 8G, 24GB (cuda only)
    #[arg(long, value_name = "SIZE", value_parser = Bytes::parse)]
    memory: Option<Bytes>,
    /// Device, in place of what the workload says
    #[arg(long, value_enum, value_name = "KIND")]
    device: Option<Device>,
    /// Number of the round, from 0
    #[arg(long, value_name = "N", default_value_t = 0)]
    round: u32,
    /// Pipe directory of the MPS daemon, as the program will see it
    #[arg(long, value_name = "DIR")]
    pipe_dir: Option<String>,
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
    /// Does it.
    pub fn run(self, console: &Console) -> Result<Exit, Failure> {
        match self {
            Self::Exec(args) => args.run(console),
            Self::Env(args) => args.run(console),
            Self::Attend(args) => {
                let charge = Charge {
                    run: args.run,
                    pid: args.pid,
                    start: args.start,
                    mps: args.mps,
                };
                let ended = attend::attend(&charge, || cli::last_word(attend::READY));
                ended.map_err(|error| Failure::Environment(error.to_string()))?;
                Ok(Exit::Done)
            }
            Self::Probe => exec::is_mps_client(),
        }
    }
}

fn placements(
    plan: Option<&PathBuf>,
    wanted: &Wanted,
    console: &Console,
) -> Result<Vec<Placement>, Failure> {
    let files: Vec<PathBuf> = plan.into_iter().cloned().collect();
    let mut all = Vec::new();
    for document in Input::open(&files, "plans or timelines", console)?.any() {
        all.extend(Placement::of_plan(document?, wanted)?);
    }
    Ok(all)
}

impl ExecArgs {
    fn run(self, console: &Console) -> Result<Exit, Failure> {
        let wanted = Wanted {
            device: self.device.map(DeviceKind::from),
            round: self.round,
            memory: self.memory,
        };
        let mut placement = match (&self.task, self.share) {
            (_, Some(percent)) => {
                let share = Share::from_percent(percent);
                let share = share.map_err(|e| Failure::Usage(format!("--share {percent}: {e}")))?;
                Placement::of_share(share, &wanted)
            }
            (task, None) => {
                let Some(plan) = &self.plan else {
                    let text = "--task needs --plan FILE, or MT_PLAN in the environment";
                    return Err(Failure::Usage(text.to_owned()));
                };
                let all = placements(Some(plan), &wanted, console)?;
                Placement::choose(all, task.as_deref().unwrap_or_default())?
            }
        };
        placement.settle_device(console)?;
        if self.memory.is_some() && placement.device != DeviceKind::Cuda {
            let text = "--memory limits the memory of a GPU; the device here is cpu";
            return Err(Failure::Usage(text.to_owned()));
        }
        let program = Program {
            argv: self.argv,
            log: self.log,
            runs: self.runs.unwrap_or_else(RunDir::default_base),
        };
        exec::exec(&placement, &program, attendant, console)
    }
}

/// The arguments that [`AttendArgs`] reads.
fn attendant(charge: &Charge) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = vec!["attend".into(), charge.run.clone().into()];
    arguments.push(charge.pid.to_string().into());
    arguments.push(charge.start.to_string().into());
    arguments.extend(charge.mps.clone().map(OsString::from));
    arguments
}

impl EnvArgs {
    fn run(self, console: &Console) -> Result<Exit, Failure> {
        let wanted = Wanted {
            device: self.device.map(DeviceKind::from),
            round: self.round,
            memory: self.memory,
        };
        let all = placements(self.plan.as_ref(), &wanted, console)?;
        let chosen = match &self.task {
            Some(task) => vec![Placement::choose(all, task)?],
            None if all.len() > 1 && self.format != Format::Json => {
                let names: Vec<String> = all.iter().filter_map(Placement::name).collect();
                let names = names.join(", ");
                return Err(Failure::Usage(format!(
                    "the plan has the tasks {names}; give --task"
                )));
            }
            None => all,
        };
        let mut output = Output::open(None, false)?;
        let form = (self.format, self.task.is_some());
        output.text(&exec::variables_text(
            &chosen,
            self.pipe_dir.as_deref(),
            form,
        )?)?;
        output.finish()?;
        Ok(Exit::Done)
    }
}
