//! The protocol between clients and server: a line of JSON in each direction on a socket in the queue's folder.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::book::{Book, Entry, Group, Id, JobEnd, JobState, QueuedJob, Wishes};
use crate::devices::Stranger;
use crate::learnt::Learnt;
use crate::policy::Wait;

/// Name of the socket in the queue's folder.
pub const SOCKET: &str = "socket";
/// Name of the folder of logs.
pub const LOGS: &str = "logs";
/// Prefix of the line in a log that separates the output of a second or later start; the number of the start follows.
pub const START: &str = "--- mt: start ";
/// Name of the file that the server of a folder locks.
pub(crate) const LOCK: &str = "lock";
/// Variable with which a client that starts a server passes the device for jobs ([`On`](crate::entry::On)).
pub(crate) const DEVICE: &str = "MT_QUEUE_DEVICE";

/// A client's request.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// Add jobs; the server assigns their numbers.
    Add {
        /// Their common part.
        group: Group,
        /// The jobs; their numbers are ignored.
        jobs: Vec<QueuedJob>,
    },
    /// Report on jobs; empty: on all.
    Status(Vec<Id>),
    /// Report the number of jobs in each state, and list as many jobs as fit on a screen.
    Overview,
    /// Explain why jobs wait and what was learnt about their templates; empty: all.
    Why(Vec<Id>),
    /// Cancel jobs.
    Cancel {
        /// Which.
        ids: Vec<Id>,
        /// Milliseconds from SIGTERM to SIGKILL; absent: the setting of each job.
        grace_ms: Option<u64>,
    },
    /// Let jobs that have ended run again.
    Retry(Vec<Id>),
    /// Hold jobs or release them; empty: pause or resume the queue.
    Pause {
        /// Which.
        ids: Vec<Id>,
        /// `true`: hold or pause; `false`: release or resume.
        on: bool,
    },
    /// A user's settings.
    Wishes(Wishes),
    /// End the server; running jobs are ended, and started again by the next server.
    Stop,
}

/// The server's reply.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Reply {
    /// Numbers of the jobs concerned.
    Jobs(Vec<Id>),
    /// The state of the queue.
    Status(Box<Status>),
    /// Lines of text for users.
    Told(Vec<String>),
    /// The request was refused; the reason.
    Refused(String),
    /// The server could not carry the request out, as on a full disk; the reason.
    Failed(String),
}

impl From<String> for Reply {
    /// A refusal, by its reason.
    fn from(why: String) -> Self {
        Self::Refused(why)
    }
}

/// Progress of a job.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReportedProgress {
    /// Work done.
    pub done: f64,
    /// Total work, if the job reports it.
    pub of: Option<f64>,
    /// Work per second.
    pub per_s: Option<f64>,
    /// Remaining seconds, if known.
    pub left_s: Option<f64>,
}

/// A job in a report.
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
    /// Variables for an admitted program, once it may run.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Its progress.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<ReportedProgress>,
    /// Unit of its progress.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// Priority.
    pub priority: i32,
    /// Bytes of memory that it requires.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
    /// Names and values of its placeholders.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<(String, String)>,
    /// First job of its sweep, if that is another job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep: Option<Id>,
    /// Name of its group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Peak memory, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_memory: Option<u64>,
    /// Percent by which jobs beside it may slow it down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most_slower: Option<u32>,
    /// Percent by which it was slower than alone, if measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slower: Option<u32>,
    /// Devices of its current or last start: UUIDs of GPUs, or `cpu`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<String>,
    /// Number of starts.
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

/// State of a job.
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
    /// It exceeded its time limit.
    TimedOut,
    /// Cancelled by a user.
    Cancelled,
    /// Not started (again).
    Skipped,
    /// A process that another program started has gone.
    Left,
}

impl Word {
    const fn of(entry: &Entry) -> Self {
        match &entry.state {
            JobState::Waiting => Self::Waiting,
            JobState::Running(_) => Self::Running,
            JobState::Ended { outcome, .. } => match outcome {
                JobEnd::Done => Self::Done,
                JobEnd::Failed(_) => Self::Failed,
                JobEnd::Killed(_) => Self::Killed,
                JobEnd::TimedOut => Self::TimedOut,
                JobEnd::Cancelled => Self::Cancelled,
                JobEnd::Skipped(_) => Self::Skipped,
                JobEnd::Left => Self::Left,
            },
        }
    }

    /// Whether it has ended.
    #[must_use]
    pub const fn is_ended(self) -> bool {
        !matches!(self, Self::Running | Self::Waiting)
    }

    /// Whether it failed without a user's request: failed, killed, timed out or skipped.
    #[must_use]
    pub const fn is_bad(self) -> bool {
        matches!(
            self,
            Self::Failed | Self::Killed | Self::TimedOut | Self::Skipped
        )
    }

    /// Whether it succeeded, as far as known: the status of a process that another program started is unknown here.
    #[must_use]
    pub const fn is_good(self) -> bool {
        matches!(self, Self::Done | Self::Left)
    }
}

/// A device in a report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceStatus {
    /// UUID of a GPU, or `cpu`.
    pub id: String,
    /// Its name for users, such as `gpu0`.
    pub name: String,
    /// Its model.
    pub kind: String,
    /// Bytes of memory.
    pub memory: u64,
    /// Bytes that are free now, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free: Option<u64>,
    /// The jobs that run on it.
    pub jobs: Vec<Id>,
    /// Processes on it that do not belong to the queue.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub strangers: Vec<Stranger>,
    /// Why it cannot be used, if it cannot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<String>,
}

/// The server in a report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerStatus {
    /// Its process number.
    pub pid: u32,
    /// The devices that jobs run on, as text.
    pub device: String,
    /// Maximum number of jobs at once.
    pub most: usize,
    /// Bytes of memory for jobs.
    pub memory: u64,
    /// The current experiment, as a message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tries: Option<String>,
    /// What it currently cannot do, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// What was learnt about each template, by kind of device and then by template.
    pub learnt: BTreeMap<String, BTreeMap<String, Learnt>>,
    /// Its devices.
    #[serde(default)]
    pub devices: Vec<DeviceStatus>,
}

/// The state of the queue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Status {
    /// The server; absent if none runs, which also means that no jobs are started.
    pub server: Option<ServerStatus>,
    /// The queue is paused.
    pub paused: bool,
    /// The requested jobs.
    pub jobs: Vec<JobStatus>,
    /// Requested numbers without a job.
    pub unknown: Vec<Id>,
    /// Number of jobs in each state; empty if `jobs` contains all requested jobs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counts: BTreeMap<Word, usize>,
    /// The last number in use; present together with `counts`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Id>,
}

/// Number of jobs that an overview lists in each of three groups: waiting, ended with an error, and done.
pub const LISTED: usize = 5;
/// Number of running jobs that an overview lists: more than fit on any screen.
const RUNNING: usize = 200;

impl Status {
    /// The state according to a book, of the given jobs, or of all if none is given.
    #[must_use]
    pub fn of(book: &Book, ids: &[Id]) -> Self {
        // Ranges may overlap.
        let ids: BTreeSet<Id> = ids.iter().copied().collect();
        let entries: Vec<&Entry> = match ids.is_empty() {
            true => book.entries.values().collect(),
            false => ids.iter().filter_map(|id| book.entries.get(id)).collect(),
        };
        let unknown: Vec<Id> = ids
            .iter()
            .filter(|id| !book.entries.contains_key(id))
            .copied()
            .collect();
        Self {
            unknown,
            ..Self::with(book, &entries)
        }
    }

    /// The number of jobs in each state, and as many jobs as fit on a screen: of the waiting jobs those that start
    /// first, of the ended jobs those that ended last.
    #[must_use]
    pub fn overview(book: &Book) -> Self {
        let mut counts = BTreeMap::new();
        let mut kinds: [Vec<&Entry>; 4] = Default::default();
        for entry in book.entries.values() {
            let word = Word::of(entry);
            *counts.entry(word).or_insert(0) += 1;
            let kind = match word {
                Word::Running => 0,
                Word::Waiting => 1,
                Word::Done | Word::Left | Word::Cancelled => 3,
                _ => 2,
            };
            kinds[kind].push(entry);
        }
        let ended_s = |entry: &&Entry| match entry.state {
            JobState::Ended { at_s, .. } => at_s,
            _ => 0.0,
        };
        let [mut running, mut waiting, mut bad, mut good] = kinds;
        running.truncate(RUNNING);
        let rank = |e: &&Entry| {
            let demand = book.asked(e);
            (demand.map_or(0, |demand| -demand.priority), e.job.id)
        };
        waiting.sort_by_key(rank);
        waiting.truncate(LISTED);
        for ended in [&mut bad, &mut good] {
            ended.sort_by(|a, b| ended_s(a).total_cmp(&ended_s(b)));
            ended.drain(..ended.len().saturating_sub(LISTED));
        }
        let listed: Vec<&Entry> = [running, waiting, bad, good].concat();
        Self {
            counts,
            last: Some(Id(book.last)),
            ..Self::with(book, &listed)
        }
    }

    fn with(book: &Book, entries: &[&Entry]) -> Self {
        Self {
            server: None,
            paused: book.paused,
            jobs: entries
                .iter()
                .map(|entry| JobStatus::of(book, entry))
                .collect(),
            unknown: Vec::new(),
            counts: BTreeMap::new(),
            last: None,
        }
    }
}

impl JobStatus {
    /// A job according to a book.
    #[must_use]
    pub fn of(book: &Book, entry: &Entry) -> Self {
        let demand = book.demand(entry);
        let first = book.groups.get(&entry.group).and_then(|group| group.first);
        let (started_s, ended_s) = match &entry.state {
            JobState::Waiting => (None, None),
            JobState::Running(at) => (Some(*at), None),
            JobState::Ended {
                started_s, at_s, ..
            } => (*started_s, Some(*at_s)),
        };
        let mut job = Self {
            id: entry.job.id,
            state: Word::of(entry),
            waits: None,
            why: None,
            code: None,
            signal: None,
            command: entry.text(),
            template: entry.job.template.clone(),
            share_percent: None,
            env: BTreeMap::new(),
            progress: None,
            unit: None,
            priority: demand.priority,
            memory: demand.memory,
            values: entry.job.values.clone(),
            sweep: first.filter(|first| *first != entry.job.id),
            group: demand.group,
            peak_memory: entry.peak,
            at_most_slower: demand.at_most_slower,
            slower: entry.slower,
            devices: entry
                .placed
                .as_ref()
                .map_or_else(Vec::new, |p| p.devices.clone()),
            starts: entry.starts,
            added_s: entry.added_s,
            started_s,
            ended_s,
        };
        match entry.outcome() {
            Some(JobEnd::Failed(code)) => job.code = Some(*code),
            Some(JobEnd::Killed(signal)) => job.signal = Some(*signal),
            Some(JobEnd::Skipped(why)) => job.why = Some(why.clone()),
            _ => {}
        }
        job
    }
}
