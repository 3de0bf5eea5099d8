//! Runs the processes of a trial on this machine.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use host::discovery::{self, Gpu, MpsSupport};
use host::{Common, CommonHost, Grant, Host as _, MpsSetup};
use jobs::cgroup::cores;
use jobs::mps::MpsOptions;
use jobs::{JobSpec, Journal, LogLimits, ProgressSource, RunDir, Signals, Supervision};
use runner::{Quiet, Runner};

use crate::error::TrialError;
use crate::playing::{Lines, Playing, Turn};
use crate::shared::Seen;
use crate::trial::{Failed, Told};
use crate::{Command, Stage};

/// Time from SIGTERM to SIGKILL: a script that saves a checkpoint at SIGTERM takes a second or two.
const GRACE: Duration = Duration::from_secs(3);
/// Interval of the checks whether a stage is over.
const LOOK: Duration = Duration::from_millis(50);
/// Minimum time between two reads of output, so that the reader does not slow down a script that prints thousands of
/// lines a second; short compared with any window.
const COALESCE: Duration = Duration::from_millis(20);

/// The log of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Log {
    /// A run alone.
    Alone,
    /// A run beside others.
    Together,
    /// The work itself.
    Work,
}

/// The devices for commands, used by one stage after another.
pub(crate) struct Bench<'a> {
    folder: &'a Path,
    host: CommonHost,
    grant: Grant,
    supervision: Supervision,
    lines: Lines,
    runs: u32,
    pub(crate) place: String,
    pub(crate) seen: Seen,
    base: BTreeMap<OsString, OsString>,
}

impl<'a> Bench<'a> {
    pub(crate) fn open(folder: &'a Path, signals: Signals) -> Result<Self, TrialError> {
        let begun = RunDir::begin(&RunDir::default_base(), "mt", true);
        let (run, _) = begun.map_err(TrialError::environment)?;
        let (place, common) = place();
        let is_shared = common.is_some();
        let common = common.unwrap_or_default();
        let grant = common.grant();
        let mut host = CommonHost::new(common, run).map_err(TrialError::environment)?;
        host.look_every(LOOK);
        let supervisor = host.supervisor();
        supervisor.sweep_strays();
        supervisor.listen(signals);
        supervisor.coalesce(COALESCE);
        let lines = Lines::default();
        let taken = Rc::clone(&lines);
        supervisor.watch(move |task, line| {
            let line = (task.clone(), Instant::now(), line.to_vec());
            taken.borrow_mut().push(line);
        });
        Ok(Self {
            folder,
            host,
            grant,
            supervision: Supervision::of_programs(GRACE),
            lines,
            runs: 0,
            place,
            seen: Seen::default(),
            base: base(is_shared),
        })
    }

    /// Runs a stage until `each`, which is called in every turn, says that it is over; then ends its processes. Returns
    /// its duration in seconds.
    ///
    /// # Errors
    /// [`TrialError`] after a signal, if commands cannot run here, or if one of them failed (except when they run to
    /// their end).
    pub(crate) fn play(
        &mut self,
        commands: &[&Command],
        stage: &mut Stage,
        log: Log,
        tell: &mut dyn FnMut(Told<'_>),
        each: &mut dyn FnMut(&mut Turn<'_>),
    ) -> Result<f64, TrialError> {
        self.runs += 1;
        let specs = commands.iter().map(|command| self.spec(command, log));
        let mut playing = Playing {
            commands,
            specs: specs.collect(),
            grant: &self.grant,
            stage,
            seen: &mut self.seen,
            run: self.runs,
            lines: &self.lines,
            tell,
            each,
            began: self.host.now(),
            waiting: (0..commands.len()).collect(),
            held: Default::default(),
            looked: None,
            was_paused: false,
            over: None,
        };
        let journal = Journal::new(self.host.now());
        let mut sink = Quiet;
        let runner = Runner::new(&mut self.host, &mut sink, &self.supervision, journal);
        runner.run(&mut playing);
        let seconds = playing.over.unwrap_or(Ok(0.0))?;
        self.lines.borrow_mut().clear();
        match log {
            Log::Work => Ok(seconds),
            Log::Alone | Log::Together => {
                self.failure(commands, stage, log).map_or(Ok(seconds), Err)
            }
        }
    }

    /// The error of the command that failed first in a stage, or that caused the end of the others.
    fn failure(&self, commands: &[&Command], stage: &Stage, log: Log) -> Option<TrialError> {
        let failed = || {
            let all = stage.tracks.iter().zip(commands);
            all.filter(|(track, _)| track.failed())
        };
        let by_itself = failed().find(|(track, _)| !track.is_victim());
        let (track, command) = by_itself.or_else(|| failed().next())?;
        Some(TrialError::Failed(Box::new(Failed {
            id: command.id.clone(),
            text: command.text(),
            beside: log == Log::Together,
            ended: track.ended.clone()?,
            log: self.log(command, log),
            pairs: Vec::new(),
        })))
    }

    /// Path of a command's log.
    pub(crate) fn log(&self, command: &Command, log: Log) -> PathBuf {
        let when = match log {
            Log::Alone => "-alone",
            Log::Together => "-together",
            Log::Work => "",
        };
        self.folder.join(format!("{}{when}.log", command.id))
    }

    fn spec(&self, command: &Command, log: Log) -> JobSpec {
        let mut env = self.base.clone();
        let own = command.env.iter();
        env.extend(own.map(|(name, value)| (name.into(), value.into())));
        JobSpec {
            task: command.id.clone(),
            argv: command.argv.iter().map(OsString::from).collect(),
            env,
            cwd: None,
            orders: false,
            progress: ProgressSource::Protocol,
            cgroup_procs: None,
            cpus: Vec::new(),
            origin: None,
            log: self.log(command, log),
            log_limits: LogLimits::default(),
        }
    }
}

/// The variables of all commands: ours, without those of an enclosing launch. If commands become clients of our MPS
/// daemon (`is_shared`), the choice of GPUs and of a daemon is removed as well, because a client numbers the GPUs that
/// its daemon sees.
fn base(is_shared: bool) -> BTreeMap<OsString, OsString> {
    let foreign = |name: &OsString| {
        let name = name.to_string_lossy();
        let of_gpus = name.starts_with("CUDA_MPS_") || name == "CUDA_VISIBLE_DEVICES";
        name.starts_with("MT_") || is_shared && of_gpus
    };
    let own = std::env::vars_os().filter(|(name, _)| !foreign(name));
    own.collect()
}

/// Message about where the commands run, with the daemon if GPUs can be shared.
fn place() -> (String, Option<Common>) {
    let processors = format!("{} processors", cores());
    let gpus = discovery::discover().unwrap_or_default();
    let Some(first) = gpus.first() else {
        return (format!("this machine's {processors}, without shares"), None);
    };
    let name = &first.name;
    let daemon = match &first.mps {
        MpsSupport::Available { .. } => under_mps(&gpus),
        MpsSupport::Unavailable { reason } => Err(reason.clone()),
    };
    match daemon {
        Ok(common) => (format!("{name} under MPS, and {processors}"), Some(common)),
        Err(why) => {
            let text = format!("{name} and {processors}, in turns and not under MPS ({why})");
            (text, None)
        }
    }
}

/// A host with an MPS daemon for those of these GPUs that can be shared.
fn under_mps(gpus: &[Gpu]) -> Result<Common, String> {
    let can = |gpu: &&Gpu| matches!(gpu.mps, MpsSupport::Available { .. });
    let gpus = gpus.iter().filter(can).cloned().collect();
    let options = MpsOptions::from_environment();
    let daemon = options.and_then(|options| Common::under_mps(MpsSetup::new(gpus, options)));
    daemon.map_err(|error| error.to_string())
}
