//! Input, events and results of a trial.

use std::path::PathBuf;

use jobs::Exit;
use units::TaskId;

use crate::answer::{Alone, Beside, Compared};
use crate::{Command, Ended, Track};

/// How to try.
#[derive(Debug, Clone)]
pub struct TrialSettings {
    /// Seconds of progress to look at in each stage.
    pub window: f64,
    /// Most seconds of one command alone.
    pub limit: f64,
    /// Folder of the logs, which is there.
    pub folder: PathBuf,
}

/// What a trial found.
#[derive(Debug, Clone)]
pub struct Trial {
    /// The commands.
    pub commands: Vec<Command>,
    /// Each alone, with the detector that found its progress.
    pub alone: Vec<(Alone, Track)>,
    /// All together.
    pub all: Group,
    /// Pairs of three or four commands, where all together is no gain.
    pub pairs: Vec<Pair>,
}

/// Commands that ran together.
#[derive(Debug, Clone)]
pub struct Group {
    /// Each beside the others.
    pub beside: Vec<Beside>,
    /// The seconds of both ways.
    pub compared: Compared,
    /// They had not ended when they had taken longer than one after another by a fifth.
    pub gave_up: bool,
    /// Seconds in which all trained.
    pub joint: f64,
}

/// Two of the commands together.
#[derive(Debug, Clone, PartialEq)]
pub struct Pair {
    /// Which.
    pub ids: [TaskId; 2],
    /// The seconds of both ways; `None` if one failed beside the other, or made no progress.
    pub compared: Option<Compared>,
}

/// Messages while it runs.
#[derive(Debug)]
pub enum Told<'a> {
    /// Where the commands run.
    Place(String),
    /// A stage begins: its number from 1, of how many, and who runs.
    Begins(usize, usize, Vec<&'a Command>),
    /// A command was measured alone.
    Alone(&'a Command, &'a Alone),
    /// Seconds of the stage so far, with the last line of each command's output.
    Now(f64, String),
}

/// A command that failed.
#[derive(Debug, Clone, PartialEq)]
pub struct Failed {
    /// Its name.
    pub id: TaskId,
    /// As it was given.
    pub text: String,
    /// Whether the others ran beside it; it did not fail alone then.
    pub beside: bool,
    /// How it ended.
    pub ended: Ended,
    /// Where all of its output is.
    pub log: PathBuf,
    /// How pairs did, where it failed beside two or more others.
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
