//! The runner's policy for one stage: starts its commands, reads their progress, and ends them when the stage is over.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt;
use std::rc::Rc;
use std::time::{Duration, Instant};

use host::Grant;
use jobs::{Happening, JobSpec, strays_told};
use runner::{Happened, Limits, Policy, Reports, Runner, Stop, Verdict};
use units::TaskId;

use crate::error::TrialError;
use crate::shared::Seen;
use crate::stage::Fault;
use crate::trial::Told;
use crate::{Command, Ended, Stage, Track};

/// Time between two looks at files and locks; a look takes a millisecond for a command with a hundred threads.
const LOOK_SHARED: Duration = Duration::from_millis(150);

/// Printed lines, each with its command and time.
pub(crate) type Lines = Rc<RefCell<Vec<(TaskId, Instant, Vec<u8>)>>>;

/// A stage in progress. A command's key is its index in the stage.
pub(crate) struct Playing<'p> {
    pub(crate) commands: &'p [&'p Command],
    pub(crate) specs: Vec<JobSpec>,
    pub(crate) grant: &'p Grant,
    pub(crate) stage: &'p mut Stage,
    pub(crate) seen: &'p mut Seen,
    /// Number of this stage.
    pub(crate) run: u32,
    pub(crate) lines: &'p Lines,
    pub(crate) tell: &'p mut dyn FnMut(Told<'_>),
    /// Called in every turn.
    pub(crate) each: &'p mut dyn FnMut(&mut Turn<'_>),
    pub(crate) began: Instant,
    /// Commands to start.
    pub(crate) waiting: BTreeSet<usize>,
    /// Commands that are stopped temporarily.
    pub(crate) held: BTreeSet<usize>,
    /// Time of the last look at files and locks.
    pub(crate) looked: Option<Instant>,
    pub(crate) was_paused: bool,
    /// Duration in seconds, or the error that ended it.
    pub(crate) over: Option<Result<f64, TrialError>>,
}

/// The view of a stage that is passed to `each` several times a second, with the actions that it can request.
pub(crate) struct Turn<'t> {
    /// Seconds since the stage began.
    pub(crate) now: f64,
    pub(crate) stage: &'t mut Stage,
    pub(crate) seen: &'t Seen,
    /// Whether this program or the machine was stopped for a while since the last turn.
    pub(crate) was_paused: bool,
    pub(crate) tell: &'t mut dyn FnMut(Told<'_>),
    pub(crate) held: &'t mut BTreeSet<usize>,
    pub(crate) waiting: &'t mut BTreeSet<usize>,
    pub(crate) is_over: bool,
}

impl Turn<'_> {
    /// Stops exactly these commands, with all their descendants, and lets the others continue.
    pub(crate) fn hold(&mut self, wanted: impl Fn(usize) -> bool) {
        let all = 0..self.stage.tracks.len();
        *self.held = all.filter(|&index| wanted(index)).collect();
    }

    /// Restarts a command that has ended.
    pub(crate) fn start(&mut self, index: usize) {
        self.stage.tracks[index] = Track::default();
        self.waiting.insert(index);
    }
}

impl fmt::Debug for Playing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Playing")
            .field("run", &self.run)
            .finish_non_exhaustive()
    }
}

impl Playing<'_> {
    fn seconds(&self, at: Instant) -> f64 {
        at.saturating_duration_since(self.began).as_secs_f64()
    }

    fn start(&mut self, run: &mut Runner<'_, usize>) -> Result<(), TrialError> {
        // Nothing can start on a GPU that is recovering from a fault.
        if run.is_faulted() {
            return Ok(());
        }
        let limits = Limits {
            reports: Reports::Nothing,
            ..Limits::default()
        };
        while let Some(index) = self.waiting.pop_first() {
            let spec = self.specs[index].clone();
            let entered = run.enter(index, spec, self.grant, limits);
            entered.map_err(TrialError::environment)?;
        }
        Ok(())
    }

    /// Passes printed lines to the stage.
    fn read(&mut self) {
        for (task, at, line) in self.lines.borrow_mut().drain(..) {
            let seconds = at.saturating_duration_since(self.began).as_secs_f64();
            if let Some(index) = self.commands.iter().position(|c| c.id == task) {
                self.stage.tracks[index].detector.line(seconds, &line);
            }
        }
    }

    /// Looks at the files and locks of the running commands.
    fn look(&mut self, run: &Runner<'_, usize>) {
        if self.looked.is_some_and(|at| at.elapsed() < LOOK_SHARED) {
            return;
        }
        self.looked = Some(Instant::now());
        let first = |index: &usize| Some((self.task(*index), run.pid(*index)?.cast_signed()));
        let free: Vec<(TaskId, i32)> = (0..self.commands.len())
            .filter(|index| !self.held.contains(index))
            .filter_map(|index| first(&index))
            .collect();
        self.seen.look(&free, self.run);
    }

    /// Ends the stage and its processes.
    fn finish(&mut self, run: &mut Runner<'_, usize>, how: Result<f64, TrialError>) {
        self.over = Some(how);
        for index in 0..self.commands.len() {
            run.stop(index, "the stage is over".to_owned());
        }
    }
}

impl Policy for Playing<'_> {
    type Key = usize;

    fn task(&self, key: usize) -> TaskId {
        self.commands[key].id.clone()
    }

    fn decide(&mut self, run: &mut Runner<'_, usize>) {
        if self.over.is_some() {
            return;
        }
        if let Err(error) = self.start(run) {
            return self.finish(run, Err(error));
        }
        self.read();
        self.look(run);
        let now = self.seconds(run.now());
        (self.tell)(Told::Now(now, far(self.commands, self.stage)));
        let mut turn = Turn {
            now,
            stage: self.stage,
            seen: self.seen,
            was_paused: std::mem::take(&mut self.was_paused),
            tell: self.tell,
            held: &mut self.held,
            waiting: &mut self.waiting,
            is_over: false,
        };
        (self.each)(&mut turn);
        if turn.is_over {
            return self.finish(run, Ok(now));
        }
        for index in 0..self.commands.len() {
            match self.held.contains(&index) {
                true => run.hold(index),
                false => run.go_on(index),
            }
        }
    }

    fn happened(&mut self, _: &mut Runner<'_, usize>, _: usize, _: Instant, _: &Happened) {}

    fn told(&mut self, _: &mut Runner<'_, usize>, key: usize, what: &Happening) {
        let text = what.told(self.task(key).as_str());
        text.into_iter()
            .for_each(|text| (self.tell)(Told::Happened(text)));
    }

    fn ended(
        &mut self,
        run: &mut Runner<'_, usize>,
        key: usize,
        ended: &runner::Ended,
    ) -> Result<(), String> {
        if let Some(told) = strays_told(&ended.strays) {
            let id = &self.commands[key].id;
            (self.tell)(Told::Happened(format!("{id}: {told}")));
        }
        if self.over.is_some() {
            return Ok(());
        }
        let victim = (ended.verdict == Verdict::Fault).then_some(Fault::Suffered);
        self.stage.tracks[key].ended = Some(Ended {
            at: self.seconds(run.now()),
            exit: ended.exit,
            tail: ended.tail.clone(),
            lacked_memory: matches!(ended.verdict, Verdict::OutOfMemory(_)),
            fault: ended.culprit.then_some(Fault::Caused).or(victim),
        });
        ended.why.clone().map_or(Ok(()), Err)
    }

    fn failed(&mut self, _: &mut Runner<'_, usize>, _: usize, _: String) {}

    fn stopped(&mut self, _: &mut Runner<'_, usize>, why: &Stop) {
        self.over = Some(Err(match why {
            Stop::Signal(signal) => TrialError::Signal(*signal),
            _ => TrialError::environment(why),
        }));
    }

    fn due(&self, _: &Runner<'_, usize>) -> Option<Instant> {
        None
    }

    fn postpone(&mut self, pause: Duration) {
        self.was_paused = true;
        self.stage.postpone(pause.as_secs_f64());
    }

    fn is_over(&self, _: &Runner<'_, usize>) -> bool {
        self.over.is_some()
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
