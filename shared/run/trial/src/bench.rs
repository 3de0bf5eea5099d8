//! The processes of a trial on this machine.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use host::discovery::{self, MpsSupport};
use jobs::cgroup::cores;
use jobs::mps::{Mps, MpsOptions};
use jobs::{Happening, JobId, JobSpec, LogLimits, Progress, RunDir, Signals, Supervisor};
use units::{Share, TaskId};

use crate::error::TrialError;
use crate::shared::Seen;
use crate::trial::{Failed, Told};
use crate::{Command, Ended, Stage, Track};

/// From SIGTERM to SIGKILL: a script that saves a checkpoint at SIGTERM takes a second or two.
const GRACE: Duration = Duration::from_secs(3);
/// How often to check whether a stage is over.
const LOOK: Duration = Duration::from_millis(50);
/// Output is read at most this often, so that a script that prints thousands of lines a second is not slowed by its
/// reader; short compared with any window.
const COALESCE: Duration = Duration::from_millis(20);
/// How often to look at files and locks: it takes a millisecond for a command of a hundred threads.
const LOOK_SHARED: Duration = Duration::from_millis(150);
/// Signals that hold a process, and let it go on.
const HOLD: i32 = 19;
const GO_ON: i32 = 18;

/// Lines as printed, with the command that printed them.
type Lines = Rc<RefCell<Vec<(TaskId, Instant, Vec<u8>)>>>;

/// The log of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Log {
    /// A trial alone.
    Alone,
    /// A trial beside others.
    Together,
    /// The work itself.
    Work,
}

/// The processes that run, and what they have in common.
pub(crate) struct Bench<'a> {
    folder: &'a Path,
    // Dropped in this order: jobs, then the daemon that they are clients of, then the directory whose
    // ledger names both.
    supervisor: Supervisor,
    _mps: Option<Mps>,
    _run: RunDir,
    lines: Lines,
    /// The running jobs: their place in the stage, and their names.
    running: BTreeMap<JobId, (usize, TaskId)>,
    /// Processes that are held, by the place of their command.
    held: BTreeMap<usize, Vec<i32>>,
    began: Instant,
    looked: Instant,
    runs: u32,
    pub(crate) place: String,
    pub(crate) seen: Seen,
    base: BTreeMap<OsString, OsString>,
}

impl<'a> Bench<'a> {
    pub(crate) fn open(folder: &'a Path, signals: Signals) -> Result<Self, TrialError> {
        let begun = RunDir::begin(&RunDir::default_base(), "mt", true);
        let (mut run, _) = begun.map_err(TrialError::environment)?;
        let (place, mps) = place();
        let mut supervisor = Supervisor::of_run(&mut run).map_err(TrialError::environment)?;
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
        let now = Instant::now();
        Ok(Self {
            folder,
            supervisor,
            _mps: mps,
            _run: run,
            lines,
            running: BTreeMap::new(),
            held: BTreeMap::new(),
            began: now,
            looked: now,
            runs: 0,
            place,
            seen: Seen::default(),
            base,
        })
    }

    /// Runs a stage until it is over, and ends its processes; returns how long it took.
    pub(crate) fn play(
        &mut self,
        commands: &[&Command],
        stage: &mut Stage,
        log: Log,
        tell: &mut dyn FnMut(Told<'_>),
    ) -> Result<f64, TrialError> {
        self.begin(commands, log)?;
        while !stage.is_over(self.now()) {
            self.turn(commands, stage, tell)?;
        }
        let seconds = self.now();
        self.close(tell);
        self.failure(commands, stage, log).map_or(Ok(seconds), Err)
    }

    /// Starts commands; their clock begins.
    pub(crate) fn begin(&mut self, commands: &[&Command], log: Log) -> Result<(), TrialError> {
        self.running.clear();
        self.runs += 1;
        self.began = Instant::now();
        commands
            .iter()
            .enumerate()
            .try_for_each(|(index, command)| self.start(index, command, log))
    }

    /// Starts one command at its place.
    pub(crate) fn start(
        &mut self,
        index: usize,
        command: &Command,
        log: Log,
    ) -> Result<(), TrialError> {
        let job = self.supervisor.spawn(&self.spec(command, log));
        let job = job.map_err(TrialError::environment)?;
        self.running.insert(job, (index, command.id.clone()));
        Ok(())
    }

    /// Seconds since the commands were started.
    pub(crate) fn now(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    /// Waits a moment, and takes what has happened into the stage.
    ///
    /// # Errors
    /// A signal; then nothing runs any more.
    pub(crate) fn turn(
        &mut self,
        commands: &[&Command],
        stage: &mut Stage,
        tell: &mut dyn FnMut(Told<'_>),
    ) -> Result<(), TrialError> {
        let events = self.supervisor.poll(LOOK);
        if let Some(signal) = self.supervisor.arrived().first {
            self.close(tell);
            return Err(TrialError::Signal(signal));
        }
        for (task, at, line) in self.lines.borrow_mut().drain(..) {
            let seconds = at.duration_since(self.began).as_secs_f64();
            if let Some(index) = commands.iter().position(|c| c.id == task) {
                stage.tracks[index].detector.line(seconds, &line);
            }
        }
        for event in events {
            let Some((index, id)) = self.running.get(&event.job) else {
                continue;
            };
            let told = event.what.told(id.as_str());
            told.into_iter().for_each(|text| tell(Told::Happened(text)));
            if let Happening::Exited {
                exit,
                tail,
                out_of_memory,
                ..
            } = event.what
            {
                let at = event.at.duration_since(self.began).as_secs_f64();
                stage.tracks[*index].ended = Some(Ended {
                    at,
                    exit,
                    tail,
                    lacked_memory: out_of_memory.is_some(),
                });
            }
        }
        self.look();
        tell(Told::Now(self.now(), far(commands, stage)));
        Ok(())
    }

    /// Looks at the files and locks of the running commands.
    fn look(&mut self) {
        if self.looked.elapsed() < LOOK_SHARED {
            return;
        }
        self.looked = Instant::now();
        let free = self
            .running
            .iter()
            .filter(|(_, (index, _))| !self.held.contains_key(index));
        let first =
            free.filter_map(|(job, (_, id))| Some((id.clone(), self.supervisor.pid(*job)?)));
        self.seen.look(&first.collect::<Vec<_>>(), self.runs);
    }

    /// Holds exactly these commands of the stage, with everything that they have started, and lets the others go on.
    pub(crate) fn hold(&mut self, wanted: impl Fn(usize) -> bool) {
        for (job, (index, _)) in &self.running {
            let Some(first) = self.supervisor.pid(*job) else {
                continue;
            };
            match (wanted(*index), self.held.contains_key(index)) {
                (true, false) => {
                    self.held.insert(*index, stopped(first));
                }
                (false, true) => {
                    // Children last, in the reverse order, so that no parent finds one that does not answer.
                    let family = self.held.remove(index).unwrap_or_default();
                    family
                        .iter()
                        .rev()
                        .for_each(|&pid| jobs::pass_on(pid, GO_ON));
                }
                _ => {}
            }
        }
    }

    /// Ends all jobs and waits until they have gone. A second signal kills them.
    pub(crate) fn close(&mut self, tell: &mut dyn FnMut(Told<'_>)) {
        self.hold(|_| false);
        self.supervisor.stop_all(GRACE);
        while self.supervisor.running() > 0 {
            for event in self.supervisor.poll(LOOK) {
                let name = self.running.get(&event.job).map(|(_, id)| id.as_str());
                let told = name.and_then(|name| event.what.told(name));
                told.into_iter().for_each(|text| tell(Told::Happened(text)));
            }
            if self.supervisor.arrived().count > 1 {
                self.supervisor.stop_all(Duration::ZERO);
            }
        }
        self.lines.borrow_mut().clear();
    }

    /// The first command of a stage that failed.
    pub(crate) fn failure(
        &self,
        commands: &[&Command],
        stage: &Stage,
        log: Log,
    ) -> Option<TrialError> {
        let mut all = stage.tracks.iter().zip(commands);
        let (track, command) = all.find(|(track, _)| track.failed())?;
        Some(TrialError::Failed(Box::new(Failed {
            id: command.id.clone(),
            text: command.text(),
            beside: log == Log::Together,
            ended: track.ended.clone()?,
            log: self.log(command, log),
            pairs: Vec::new(),
        })))
    }

    /// Where the output of a command is.
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
            progress: Progress::Protocol,
            cgroup_procs: None,
            cpus: Vec::new(),
            origin: None,
            log: self.log(command, log),
            log_limits: LogLimits::default(),
        }
    }
}

/// Stops a process and everything that it has started. What starts meanwhile is found by looking again: a stopped
/// process starts nothing.
fn stopped(first: i32) -> Vec<i32> {
    let mut all: Vec<i32> = Vec::new();
    loop {
        let family = jobs::process::family(first);
        let new: Vec<i32> = family
            .into_iter()
            .filter(|pid| !all.contains(pid))
            .collect();
        if new.is_empty() {
            return all;
        }
        new.iter().for_each(|&pid| jobs::pass_on(pid, HOLD));
        all.extend(new);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn state(pid: i32) -> String {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(") ")
            .next()
            .unwrap_or_default()
            .chars()
            .take(1)
            .collect()
    }

    #[test]
    fn a_process_is_held_with_everything_that_it_has_started() {
        let mut sh = std::process::Command::new("sh")
            .args(["-c", "sh -c 'sleep 60; true' & wait"])
            .spawn()
            .unwrap();
        let first = sh.id().cast_signed();
        while jobs::process::family(first).len() < 3 {
            std::thread::sleep(Duration::from_millis(5));
        }
        let held = stopped(first);
        assert_eq!(held.len(), 3);
        let became = |wanted: &str| {
            let is = |pid: &i32| state(*pid) == wanted;
            (0..500).any(|_| {
                std::thread::sleep(Duration::from_millis(10));
                held.iter().all(is)
            })
        };
        assert!(became("T"), "{held:?}");
        held.iter().for_each(|&pid| jobs::pass_on(pid, GO_ON));
        assert!(became("S"), "{held:?}");
        held.iter().for_each(|&pid| jobs::pass_on(pid, 9));
        sh.wait().unwrap();
    }
}
