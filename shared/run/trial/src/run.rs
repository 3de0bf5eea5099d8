//! Runs the stages as processes of this machine.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use host::discovery::{self, MpsSupport};
use jobs::cgroup::cores;
use jobs::mps::{Mps, MpsOptions};
use jobs::{Event, Happening, JobId, JobSpec, LogLimits, Progress, RunDir, Signals, Supervisor};
use units::{Share, TaskId};

use crate::answer::{Alone, Beside, Compared, Unknown, Verdict, beside};
use crate::others::Watch;
use crate::stage::Limits;
use crate::trial::{Failed, Group, Pair, Told, Trial, TrialSettings};
use crate::{Command, CommandError, Ended, Stage, Track};

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// Commands that cannot be started; nothing was started.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Commands(Vec<CommandError>),
    /// One failed.
    #[error("{}", crate::words::failed(.0))]
    Failed(Box<Failed>),
    /// One cannot be judged.
    #[error("{}", crate::words::unknown(.id, *.why, *.beside, *.seconds))]
    Unknown {
        /// Which command.
        id: TaskId,
        /// Why.
        why: Unknown,
        /// Whether it ran with the others.
        beside: bool,
        /// How long it was watched.
        seconds: f64,
    },
    /// A signal ended it.
    #[error("stopped by signal {0}")]
    Signal(i32),
    /// This machine does not support it.
    #[error("{0}")]
    Environment(String),
}

fn environment(error: impl std::fmt::Display) -> TrialError {
    TrialError::Environment(error.to_string())
}

/// From SIGTERM to SIGKILL: a script that saves a checkpoint at SIGTERM takes a second or two.
const GRACE: Duration = Duration::from_secs(3);
/// How often to check whether a stage is over.
const LOOK: Duration = Duration::from_millis(50);
/// Output is read at most this often, so that a script that prints thousands of lines a second is not slowed by its
/// reader; short compared with any window.
const COALESCE: Duration = Duration::from_millis(20);
/// How much longer than one after another the commands may take together before they are stopped.
const PATIENCE: f64 = 1.2;

/// Tries commands: each distinct one alone, then all together.
///
/// # Errors
/// [`TrialError`]. No process is left running in any case.
pub fn run(
    commands: &[Command],
    settings: &TrialSettings,
    signals: Signals,
    tell: &mut dyn FnMut(Told<'_>),
) -> Result<Trial, TrialError> {
    let mut bench = Bench::open(settings, signals)?;
    tell(Told::Place(bench.place.clone()));
    let kinds = kinds(commands);
    let distinct = kinds
        .iter()
        .collect::<std::collections::BTreeSet<_>>()
        .len();
    let stages = distinct + 1;
    let mut known: Vec<(Alone, Track)> = Vec::new();
    for (index, command) in commands.iter().enumerate() {
        if kinds[index] != index {
            known.push(known[kinds[index]].clone());
            continue;
        }
        let number = kinds[..=index]
            .iter()
            .enumerate()
            .filter(|(i, k)| i == *k)
            .count();
        tell(Told::Begins(number, stages, vec![command]));
        let limits = Limits {
            window: settings.window,
            limit: settings.limit,
        };
        let stage = Stage::new(vec![Track::default()], limits);
        let (mut stage, seconds) = bench.play(&[command], stage, false, tell)?;
        let track = stage.tracks.remove(0);
        let alone = Alone::of(&track).map_err(|why| TrialError::Unknown {
            id: command.id.clone(),
            why,
            beside: false,
            seconds,
        })?;
        tell(Told::Alone(command, &alone));
        known.push((alone, track));
    }
    together(commands, known, &mut bench, stages, tell)
}

/// All together, and if that does not gain, in pairs.
fn together(
    commands: &[Command],
    known: Vec<(Alone, Track)>,
    bench: &mut Bench<'_>,
    stages: usize,
    tell: &mut dyn FnMut(Told<'_>),
) -> Result<Trial, TrialError> {
    let everyone: Vec<usize> = (0..commands.len()).collect();
    tell(Told::Begins(stages, stages, commands.iter().collect()));
    let all = match bench.group(commands, &known, &everyone, tell) {
        Ok(all) => all,
        Err(TrialError::Failed(mut failed)) => {
            failed.pairs = pairs(commands, &known, bench, stages, tell)?;
            return Err(TrialError::Failed(failed));
        }
        Err(error) => return Err(error),
    };
    let pairs = match all.compared.verdict() {
        Verdict::Worth => Vec::new(),
        _ => pairs(commands, &known, bench, stages, tell)?,
    };
    Ok(Trial {
        commands: commands.to_vec(),
        alone: known,
        all,
        pairs,
    })
}

/// Every pair of distinct commands among three or four. More would take minutes, and with more commands, users can
/// start with those that are likely to fit.
fn pairs(
    commands: &[Command],
    known: &[(Alone, Track)],
    bench: &mut Bench<'_>,
    stages: usize,
    tell: &mut dyn FnMut(Told<'_>),
) -> Result<Vec<Pair>, TrialError> {
    let kinds = kinds(commands);
    if !(3..=4).contains(&commands.len()) {
        return Ok(Vec::new());
    }
    let mut chosen: Vec<[usize; 2]> = Vec::new();
    for (i, j) in (0..commands.len()).flat_map(|i| (i + 1..commands.len()).map(move |j| (i, j))) {
        let same = |pair: &[usize; 2]| [kinds[pair[0]], kinds[pair[1]]] == [kinds[i], kinds[j]];
        if !chosen.iter().any(same) {
            chosen.push([i, j]);
        }
    }
    let of = stages + chosen.len();
    let mut pairs = Vec::new();
    for (number, members) in chosen.into_iter().enumerate() {
        let both: Vec<&Command> = members.iter().map(|&i| &commands[i]).collect();
        let ids = [both[0].id.clone(), both[1].id.clone()];
        tell(Told::Begins(stages + number + 1, of, both));
        let compared = match bench.group(commands, known, &members, tell) {
            Ok(group) => Some(group.compared),
            Err(TrialError::Failed(_) | TrialError::Unknown { .. }) => None,
            Err(error) => return Err(error),
        };
        pairs.push(Pair { ids, compared });
    }
    Ok(pairs)
}

/// For each command the first one that is equal except for its name.
fn kinds(commands: &[Command]) -> Vec<usize> {
    let same = |a: &Command, b: &Command| a.argv == b.argv && a.env == b.env;
    let first = |c: &Command| commands.iter().position(|other| same(other, c));
    commands
        .iter()
        .map(|c| first(c).unwrap_or_default())
        .collect()
}

/// Checks that the program and the script of every command exist.
///
/// # Errors
/// [`TrialError::Commands`] with everything that is missing.
pub fn check(commands: &[Command]) -> Result<(), TrialError> {
    let kinds = kinds(commands);
    let faults: Vec<CommandError> = commands
        .iter()
        .enumerate()
        .filter(|(index, _)| kinds[*index] == *index)
        .filter_map(|(_, command)| command.check().err())
        .collect();
    match faults.is_empty() {
        true => Ok(()),
        false => Err(TrialError::Commands(faults)),
    }
}

/// Lines as printed, with the command that printed them.
type Lines = Rc<RefCell<Vec<(TaskId, Instant, Vec<u8>)>>>;

/// The resources of the stages.
struct Bench<'a> {
    settings: &'a TrialSettings,
    // Dropped in this order: jobs, then the daemon that they are clients of, then the directory whose
    // ledger names both.
    supervisor: Supervisor,
    _mps: Option<Mps>,
    _run: RunDir,
    lines: Lines,
    /// The jobs of the current stage: their place in it, and their names.
    running: BTreeMap<JobId, (usize, TaskId)>,
    place: String,
    /// Maximum fraction of the processors that other programs used in one of the stages so far.
    others: f64,
    base: BTreeMap<OsString, OsString>,
}

impl<'a> Bench<'a> {
    fn open(settings: &'a TrialSettings, signals: Signals) -> Result<Self, TrialError> {
        let begun = RunDir::begin(&RunDir::default_base(), "mt", true);
        let (mut run, _) = begun.map_err(environment)?;
        let (place, mps) = place();
        let mut supervisor = Supervisor::of_run(&mut run).map_err(environment)?;
        supervisor.sweep_strays();
        supervisor.listen(signals);
        supervisor.coalesce(COALESCE);
        let lines = Lines::default();
        let taken = Rc::clone(&lines);
        supervisor.watch(move |task, line| {
            let line = (task.clone(), Instant::now(), line.to_vec());
            taken.borrow_mut().push(line);
        });
        let mut base: BTreeMap<OsString, OsString> = std::env::vars_os()
            // Variables of an enclosing launch are not meant for these commands.
            .filter(|(name, _)| !name.to_string_lossy().starts_with("MT_"))
            .collect();
        // Python writes to a pipe in blocks of 8 KiB: minutes of progress at once.
        base.entry("PYTHONUNBUFFERED".into())
            .or_insert_with(|| "1".into());
        if let Some(mps) = &mps {
            base.extend(mps.client_environment(Share::FULL));
        }
        Ok(Self {
            settings,
            supervisor,
            _mps: mps,
            _run: run,
            lines,
            running: BTreeMap::new(),
            place,
            others: 0.0,
            base,
        })
    }

    /// Runs a stage until it is over, and ends its processes; returns how long it took.
    fn play(
        &mut self,
        commands: &[&Command],
        mut stage: Stage,
        beside: bool,
        tell: &mut dyn FnMut(Told<'_>),
    ) -> Result<(Stage, f64), TrialError> {
        let watch = Watch::begin();
        let began = Instant::now();
        self.running.clear();
        for (index, command) in commands.iter().enumerate() {
            let job = self.supervisor.spawn(&self.spec(command, beside));
            let job = job.map_err(environment)?;
            self.running.insert(job, (index, command.id.clone()));
        }
        while !stage.is_over(began.elapsed().as_secs_f64()) {
            let events = self.poll(tell);
            if let Some(signal) = self.supervisor.arrived().first {
                self.end(tell);
                return Err(TrialError::Signal(signal));
            }
            self.read(commands, &mut stage, began);
            for event in events {
                let Happening::Exited { exit, tail, .. } = event.what else {
                    continue;
                };
                let at = event.at.duration_since(began).as_secs_f64();
                if let Some((index, _)) = self.running.get(&event.job) {
                    stage.tracks[*index].ended = Some(Ended { at, exit, tail });
                }
            }
            tell(Told::Now(
                began.elapsed().as_secs_f64(),
                far(commands, &stage),
            ));
        }
        let seconds = began.elapsed().as_secs_f64();
        let others = watch.and_then(Watch::end);
        self.others = self.others.max(others.unwrap_or(0.0));
        self.end(tell);
        self.lines.borrow_mut().clear();
        let failed = stage
            .tracks
            .iter()
            .zip(commands)
            .find(|(track, _)| track.failed());
        match failed.and_then(|(track, command)| Some((track.ended.clone()?, command))) {
            None => Ok((stage, seconds)),
            Some((ended, command)) => Err(TrialError::Failed(Box::new(Failed {
                id: command.id.clone(),
                text: command.text(),
                beside,
                ended,
                log: self.log(command, beside),
                pairs: Vec::new(),
            }))),
        }
    }

    /// Runs some of the commands together, each of which has been measured alone.
    fn group(
        &mut self,
        commands: &[Command],
        known: &[(Alone, Track)],
        members: &[usize],
        tell: &mut dyn FnMut(Told<'_>),
    ) -> Result<Group, TrialError> {
        let who: Vec<&Command> = members.iter().map(|&i| &commands[i]).collect();
        let alone: Vec<Alone> = members.iter().map(|&i| known[i].0).collect();
        let wholes: Option<Vec<f64>> = alone.iter().map(Alone::seconds).collect();
        let serial = wholes.map(|wholes| wholes.iter().sum::<f64>());
        let startup = alone.iter().map(|a| a.startup).fold(0.0, f64::max);
        // Silent commands are waited for until sharing has lost.
        let limit = self.settings.limit;
        let patience = serial.map_or(limit + startup, |serial| serial * PATIENCE);
        let tracks = members.iter().map(|&i| known[i].1.beside_others());
        let limits = Limits {
            window: self.settings.window,
            limit: limit.max(patience),
        };
        let stage = Stage::new(tracks.collect(), limits);
        let (stage, seconds) = self.play(&who, stage, true, tell)?;
        let gave_up = serial.is_some_and(|serial| seconds >= serial * PATIENCE)
            && stage.tracks.iter().any(|track| track.ended.is_none());
        let found = beside(&stage, &alone).into_iter().zip(&alone).zip(&who);
        let reached: Result<Vec<Beside>, TrialError> = found
            .map(|((one, alone), command)| match one {
                Some(one) => Ok(one),
                None if gave_up => Ok(Beside {
                    startup: alone.startup,
                    rate: alone.rate,
                    whole: None,
                }),
                None => Err(TrialError::Unknown {
                    id: command.id.clone(),
                    why: Unknown::Silent,
                    beside: true,
                    seconds,
                }),
            })
            .collect();
        let beside = reached?;
        let mut compared = Compared::of(&alone, &beside, self.others);
        if gave_up {
            compared.together = compared.together.max(seconds);
        }
        let until = stage.first_end().min(seconds);
        Ok(Group {
            beside,
            compared,
            gave_up,
            joint: (until - stage.joint().unwrap_or(0.0)).max(0.0),
        })
    }

    fn read(&self, commands: &[&Command], stage: &mut Stage, began: Instant) {
        for (task, at, line) in self.lines.borrow_mut().drain(..) {
            let seconds = at.duration_since(began).as_secs_f64();
            if let Some(index) = commands.iter().position(|c| c.id == task) {
                stage.tracks[index].detector.line(seconds, &line);
            }
        }
    }

    /// What has happened to the jobs of the stage; what a user must hear of it is told.
    fn poll(&mut self, tell: &mut dyn FnMut(Told<'_>)) -> Vec<Event> {
        let events = self.supervisor.poll(LOOK);
        for event in &events {
            let name = self.running.get(&event.job).map(|(_, id)| id.as_str());
            let told = name.and_then(|name| event.what.told(name));
            told.into_iter().for_each(|text| tell(Told::Happened(text)));
        }
        events
    }

    /// Ends all jobs and waits until they have gone. A second signal kills them.
    fn end(&mut self, tell: &mut dyn FnMut(Told<'_>)) {
        self.supervisor.stop_all(GRACE);
        while self.supervisor.running() > 0 {
            self.poll(tell);
            if self.supervisor.arrived().count > 1 {
                self.supervisor.stop_all(Duration::ZERO);
            }
        }
    }

    fn log(&self, command: &Command, beside: bool) -> PathBuf {
        let when = if beside { "together" } else { "alone" };
        self.settings
            .folder
            .join(format!("{}-{when}.log", command.id))
    }

    fn spec(&self, command: &Command, beside: bool) -> JobSpec {
        let mut env = self.base.clone();
        let own = command.env.iter();
        env.extend(own.map(|(name, value)| (name.into(), value.into())));
        JobSpec {
            task: command.id.clone(),
            argv: command.argv.iter().map(OsString::from).collect(),
            env,
            cwd: None,
            orders: false,
            progress: Progress::Protocol,
            cgroup_procs: None,
            cpus: Vec::new(),
            origin: None,
            log: self.log(command, beside),
            log_limits: LogLimits::default(),
        }
    }
}

/// Progress of the commands, in one line.
fn far(commands: &[&Command], stage: &Stage) -> String {
    let one = |(command, track): (&&Command, &Track)| {
        let id = &command.id;
        let last = track
            .detector
            .best()
            .and_then(|b| Some((b.marks.last()?.1, b.form.unit)));
        match (last, &track.ended) {
            (_, Some(ended)) => format!("{id} ended after {:.1} s", ended.at),
            (Some((work, unit)), None) => format!("{id} {work} {unit}"),
            (None, None) => format!("{id} no progress yet"),
        }
    };
    let all: Vec<String> = commands.iter().zip(&stage.tracks).map(one).collect();
    all.join(", ")
}

/// Message about where the commands run, with the daemon if a GPU can be shared.
fn place() -> (String, Option<Mps>) {
    let processors = format!("{} processors", cores());
    let Ok(gpus) = discovery::discover() else {
        return (format!("this machine's {processors}, without shares"), None);
    };
    let name = gpus
        .first()
        .map_or_else(String::new, |gpu| gpu.name.clone());
    let plain = |why: &str| {
        let text = format!("{name} and {processors}, in turns and not under MPS ({why})");
        (text, None)
    };
    match gpus.first().map(|gpu| &gpu.mps) {
        Some(MpsSupport::Available { .. }) => {
            let daemon = MpsOptions::from_environment().and_then(|options| Mps::start(&options));
            match daemon {
                Ok(mps) => (format!("{name} under MPS, and {processors}"), Some(mps)),
                Err(error) => plain(&error.to_string()),
            }
        }
        Some(MpsSupport::Unavailable { reason }) => plain(reason),
        None => (format!("this machine's {processors}, without shares"), None),
    }
}

/// A new folder for the logs: `NAME`, `NAME-2`, ...
#[must_use]
pub fn free_folder(name: &str) -> PathBuf {
    let numbered = (2..).map(|n| PathBuf::from(format!("{name}-{n}")));
    let is_free = |path: &PathBuf| std::fs::symlink_metadata(path).is_err();
    let mut all = std::iter::once(Path::new(name).to_owned()).chain(numbered);
    all.find(is_free).unwrap_or_else(|| name.into())
}
