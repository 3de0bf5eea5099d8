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
    /// Each command alone, with the detector that found its progress.
    pub alone: Vec<(Alone, Track)>,
    /// All commands together.
    pub all: Group,
    /// Pairs of three or four commands, if running all together gains nothing.
    pub pairs: Vec<Pair>,
    /// Commands that wait for others.
    pub waits: Vec<Waits>,
    /// Files that two or more of the commands write.
    pub files: Vec<PathBuf>,
}

/// Commands that ran together.
#[derive(Debug, Clone)]
pub struct Group {
    /// Each command alone; the mean of the comparisons.
    pub alone: Vec<Alone>,
    /// Each command beside the others; the mean of the comparisons.
    pub beside: Vec<Beside>,
    /// The times one after another and together.
    pub compared: Compared,
    /// Whether they were stopped because together they took more than 1.2 times the serial time.
    pub gave_up: bool,
    /// Seconds in which all commands trained.
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

/// Messages during a trial.
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
    /// An event of a command other than progress and end.
    Happened(String),
    /// Seconds of the stage so far, with the last line of each command's output.
    Now(f64, String),
}

/// Result of commands that ran to their end.
#[derive(Debug)]
pub struct Work {
    /// The commands.
    pub commands: Vec<Command>,
    /// How each ended.
    pub ended: Vec<Ended>,
    /// Path of the log of each command.
    pub logs: Vec<PathBuf>,
    /// Total seconds.
    pub seconds: f64,
    /// Conclusion of the comparisons, if there were any.
    pub compared: Option<Compared>,
    /// Seconds after which the commands ran one after another, if running together was not worth it.
    pub in_turns: Option<f64>,
}

/// A failed command.
#[derive(Debug, Clone, PartialEq)]
pub struct Failed {
    /// Its name.
    pub id: TaskId,
    /// The command as the user wrote it.
    pub text: String,
    /// Whether it ran beside others; then it had not failed alone.
    pub beside: bool,
    /// How it ended.
    pub ended: Ended,
    /// Path of the log with all of its output.
    pub log: PathBuf,
    /// Results of pairs, if it failed beside two or more others.
    pub pairs: Vec<Pair>,
}

/// Text about how a command ended.
#[must_use]
pub(crate) fn status(exit: Exit) -> String {
    match exit {
        Exit::Code(code) => format!("exit status {code}"),
        Exit::Signal(signal) => format!("signal {signal}"),
    }
}
