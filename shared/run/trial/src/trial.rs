//! Input, events and results of a trial.

use std::path::PathBuf;

use jobs::Exit;
use units::TaskId;

use crate::answer::{Alone, Beside, Compared};
use crate::shared::Waits;
use crate::{Command, Ended, Track};

/// Settings of a trial.
#[derive(Debug, Clone)]
pub struct TrialSettings {
    /// Seconds of progress to observe in each stage.
    pub window: f64,
    /// Maximum seconds of one command alone.
    pub limit: f64,
    /// Existing folder of the logs.
    pub folder: PathBuf,
}

/// Results of a trial.
#[derive(Debug, Clone)]
pub struct Trial {
    /// The commands.
    pub commands: Vec<Command>,
    /// Each alone, with the detector that found its progress.
    pub alone: Vec<(Alone, Track)>,
    /// All together.
    pub all: Group,
    /// Pairs of three or four commands, if all together does not gain.
    pub pairs: Vec<Pair>,
    /// Commands that wait for each other.
    pub waits: Vec<Waits>,
    /// Files that two or more of the commands write.
    pub files: Vec<PathBuf>,
}

/// Commands that ran together.
#[derive(Debug, Clone)]
pub struct Group {
    /// Each alone: the mean of the comparisons.
    pub alone: Vec<Alone>,
    /// Each beside the others.
    pub beside: Vec<Beside>,
    /// The two times.
    pub compared: Compared,
    /// They had not ended after a fifth more time than one after another.
    pub gave_up: bool,
    /// Seconds in which all trained.
    pub joint: f64,
}

/// Two of the commands together.
#[derive(Debug, Clone, PartialEq)]
pub struct Pair {
    /// The two commands.
    pub ids: [TaskId; 2],
    /// The times one after the other and together; `None` if a command failed or made no progress beside the other.
    pub compared: Option<Compared>,
}

/// Messages while it runs.
#[derive(Debug)]
pub enum Told<'a> {
    /// Where the commands run.
    Place(String),
    /// A stage begins: its number from 1, the total, and the commands that run.
    Begins(usize, usize, Vec<&'a Command>),
    /// These commands run once more.
    Again(Vec<&'a Command>),
    /// A command was measured alone.
    Alone(&'a Command, &'a Alone),
    /// What happened to a command beside its progress and its end.
    Happened(String),
    /// Seconds of the stage so far, with the last line of each command's output.
    Now(f64, String),
}

/// What became of commands that ran to their end.
#[derive(Debug)]
pub struct Work {
    /// The commands.
    pub commands: Vec<Command>,
    /// How each ended.
    pub ended: Vec<Ended>,
    /// Where the output of each is.
    pub logs: Vec<PathBuf>,
    /// Seconds of everything.
    pub seconds: f64,
    /// What the comparisons showed, if there were any.
    pub compared: Option<Compared>,
    /// Seconds after which one ran after another, if together was not worth it.
    pub in_turns: Option<f64>,
}

/// A failed command.
#[derive(Debug, Clone, PartialEq)]
pub struct Failed {
    /// Its name.
    pub id: TaskId,
    /// As it was given.
    pub text: String,
    /// Whether it ran with the others; then it did not fail alone.
    pub beside: bool,
    /// How it ended.
    pub ended: Ended,
    /// Where all of its output is.
    pub log: PathBuf,
    /// Results of pairs, if it failed beside two or more others.
    pub pairs: Vec<Pair>,
}

/// How a command ended, in words.
#[must_use]
pub(crate) fn status(exit: Exit) -> String {
    match exit {
        Exit::Code(code) => format!("exit status {code}"),
        Exit::Signal(signal) => format!("signal {signal}"),
    }
}
