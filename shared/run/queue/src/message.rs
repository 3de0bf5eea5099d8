//! What clients and the server say to each other: a line of JSON each way on a socket in the queue's folder.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::book::{Book, Entry, Group, Id, Outcome, QueuedJob, State, Wishes};
use crate::learnt::Learnt;
use crate::policy::Wait;

/// Name of the socket in the queue's folder.
pub const SOCKET: &str = "socket";
/// Name of the folder of logs.
pub const LOGS: &str = "logs";

/// What a client asks for.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// Take jobs in; their numbers are given by the server.
    Add {
        /// What they have in common.
        group: Group,
        /// The jobs, with numbers that do not count.
        jobs: Vec<QueuedJob>,
    },
    /// Tell of jobs; none: of all.
    Status(Vec<Id>),
    /// End jobs or take them out.
    Cancel(Vec<Id>),
    /// Start no jobs (none named: none at all), or start them again.
    Pause {
        /// Which.
        ids: Vec<Id>,
        /// Which of the two.
        on: bool,
    },
    /// A person's settings.
    Wishes(Wishes),
    /// End the server; what runs is ended, and starts again with the next server.
    Stop,
}

/// What the server says to it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Reply {
    /// Numbers of the jobs that it was about.
    Jobs(Vec<Id>),
    /// What is known.
    Status(Box<Status>),
    /// It was not done, and why.
    Refused(String),
}

/// How far a job is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Progress {
    /// Work done.
    pub done: f64,
    /// All of its work, where it tells that.
    pub of: Option<f64>,
    /// Work per second.
    pub per_s: Option<f64>,
    /// Seconds that are left, where that can be told.
    pub left_s: Option<f64>,
}

/// A job, as people and programs are told of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobStatus {
    /// Its number.
    pub id: Id,
    /// `waiting`, `running`, or how it ended.
    pub state: Word,
    /// Why it waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits: Option<Wait>,
    /// Why it was not started (again).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Exit status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    /// Signal that ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// The command.
    pub command: String,
    /// Its template.
    pub template: String,
    /// Share of the device, percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share_percent: Option<f64>,
    /// How far it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// What it counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// Priority.
    pub priority: i32,
    /// Bytes of memory that it asks for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
    /// Starts so far.
    pub starts: u32,
    /// Seconds since 1970.
    pub added_s: f64,
    /// Seconds since 1970 of its last start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_s: Option<f64>,
    /// Seconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_s: Option<f64>,
}

/// Where a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Word {
    /// It runs.
    Running,
    /// It waits.
    Waiting,
    /// Exit status 0.
    Done,
    /// Another exit status.
    Failed,
    /// A signal.
    Killed,
    /// By a person.
    Cancelled,
    /// It was not started (again).
    Skipped,
    /// A process that somebody else started has gone.
    Left,
}

impl Word {
    /// Whether it has ended.
    #[must_use]
    pub const fn is_ended(self) -> bool {
        !matches!(self, Self::Running | Self::Waiting)
    }

    /// Whether it ended as it should: what somebody else started is theirs to judge.
    #[must_use]
    pub const fn is_good(self) -> bool {
        matches!(self, Self::Done | Self::Left)
    }
}

/// The server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerStatus {
    /// Its process.
    pub pid: u32,
    /// What jobs run on.
    pub device: String,
    /// Most jobs at once.
    pub most: usize,
    /// Bytes of memory that are given out.
    pub memory: u64,
    /// What is tried now, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tries: Option<String>,
    /// What it cannot do at the moment, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// Variables of programs that others start and that are admitted.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// How many copies of each template fill the device.
    pub learnt: BTreeMap<String, Learnt>,
}

/// What is known.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Status {
    /// The server; absent: none runs, and nothing is started.
    pub server: Option<ServerStatus>,
    /// No job is started.
    pub paused: bool,
    /// Jobs that were asked for.
    pub jobs: Vec<JobStatus>,
    /// Numbers that were asked for and that no job has.
    pub unknown: Vec<Id>,
}

impl Status {
    /// What a book says by itself of some jobs, or of all where none is named.
    #[must_use]
    pub fn of(book: &Book, ids: &[Id]) -> Self {
        let entries: Vec<&Entry> = match ids.is_empty() {
            true => book.entries.values().collect(),
            false => ids.iter().filter_map(|id| book.entries.get(id)).collect(),
        };
        let unknown = ids.iter().filter(|id| !book.entries.contains_key(id));
        Self {
            server: None,
            paused: book.paused,
            jobs: entries
                .into_iter()
                .map(|entry| JobStatus::of(book, entry))
                .collect(),
            unknown: unknown.copied().collect(),
        }
    }
}

impl JobStatus {
    /// What a book says of a job.
    #[must_use]
    pub fn of(book: &Book, entry: &Entry) -> Self {
        let demand = book.demand(entry);
        let (state, started_s, ended_s) = match &entry.state {
            State::Waiting => (Word::Waiting, None, None),
            State::Running(at) => (Word::Running, Some(*at), None),
            State::Ended {
                started_s, at_s, ..
            } => (Word::Done, *started_s, Some(*at_s)),
        };
        let mut job = Self {
            id: entry.job.id,
            state,
            waits: None,
            why: None,
            code: None,
            signal: None,
            command: entry.text(),
            template: entry.job.template.clone(),
            share_percent: None,
            progress: None,
            unit: None,
            priority: demand.priority,
            memory: demand.memory,
            starts: entry.starts,
            added_s: entry.added_s,
            started_s,
            ended_s,
        };
        match entry.outcome() {
            None | Some(Outcome::Done) => {}
            Some(Outcome::Failed(code)) => (job.state, job.code) = (Word::Failed, Some(*code)),
            Some(Outcome::Killed(signal)) => {
                (job.state, job.signal) = (Word::Killed, Some(*signal))
            }
            Some(Outcome::Cancelled) => job.state = Word::Cancelled,
            Some(Outcome::Skipped(why)) => {
                (job.state, job.why) = (Word::Skipped, Some(why.clone()))
            }
            Some(Outcome::Left) => job.state = Word::Left,
        }
        job
    }
}
