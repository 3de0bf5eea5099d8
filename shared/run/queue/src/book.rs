//! The state of the queue's jobs, exactly as its journal defines it.
//!
//! Every change is a [`Record`], which is written to the journal before it is applied here. So the state
//! after a crash equals the state before it, and a record that contradicts the state means a corrupt
//! journal.

use std::collections::{BTreeMap, BTreeSet};

use jobs::process::Identity;
use serde::{Deserialize, Serialize};
use units::Share;

/// Number of a job, from 1; never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Id(pub u64);

impl std::fmt::Display for Id {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// Requirements of a job.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Demand {
    /// Bytes of the device's memory that it needs; absent: unknown, and not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
    /// Jobs of higher priority start first.
    #[serde(default)]
    pub priority: i32,
    /// Maximum share of the device, in hundredths of a percent; absent: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<u32>,
    /// It is not started again if the server was killed while it ran.
    #[serde(default)]
    pub once: bool,
}

/// What the jobs of one request have in common.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// Random name of the request, so that repeating it adds nothing.
    pub token: String,
    /// Working directory.
    pub cwd: String,
    /// Whole environment.
    pub env: BTreeMap<String, String>,
    /// Requirements of each job.
    pub demand: Demand,
}

/// A command that waits, runs or has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueuedJob {
    /// Its number.
    pub id: Id,
    /// Template of the command: jobs of one template count as copies of one model.
    pub template: String,
    /// Program and arguments; not empty.
    pub argv: Vec<String>,
    /// Variables given before the program.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub set: BTreeMap<String, String>,
    /// The process that waits to become the program, if another program starts it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<Identity>,
    /// The parent of that process. If it has gone, for example because it was killed, the program is no longer waited
    /// for, and is ended. Absent: the process is to outlive its parent, as under nohup(1).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Identity>,
}

/// How a job ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Outcome {
    /// Exit status 0.
    Done,
    /// Another exit status.
    Failed(i32),
    /// A signal.
    Killed(i32),
    /// It was cancelled, before or while it ran.
    Cancelled,
    /// It was not started (again); the reason.
    Skipped(String),
    /// A process that another program started has gone; only its parent knows its exit status.
    Left,
}

/// State of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum State {
    /// It has not been started, or will be started again.
    Waiting,
    /// It was started at this second since 1970.
    Running(f64),
    /// It has ended.
    Ended {
        /// Seconds since 1970 of its last start, if it was started.
        started_s: Option<f64>,
        /// Seconds since 1970.
        at_s: f64,
        /// How.
        outcome: Outcome,
    },
}

/// A job with its state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// The job.
    pub job: QueuedJob,
    /// Its group.
    pub group: u64,
    /// When it was added, seconds since 1970.
    pub added_s: f64,
    /// Its state.
    pub state: State,
    /// Number of starts.
    pub starts: u32,
    /// It is held until a user releases it.
    pub held: bool,
    /// It was cancelled while it ran, but has not ended yet.
    pub cancelled: bool,
    /// It must run alone: beside others it ran out of memory.
    pub alone: bool,
}

/// Where jobs run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum On {
    /// A GPU of this machine that MPS can share if there is one, else the processors
    Auto,
    /// The processors
    Cpu,
}

/// A user's settings of the queue; absent ones stay unchanged.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wishes {
    /// Maximum number of jobs at once; absent: as many as increase throughput.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most: Option<usize>,
    /// Bytes of memory for jobs; absent: what the device has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
    /// Where jobs run; absent: on a GPU if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<On>,
}

/// One change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Record {
    /// The complete state when the journal was rewritten.
    Book(Box<Book>),
    /// A server has begun, in this boot of the machine.
    Opened(String),
    /// Jobs were added.
    Added {
        /// Their common part.
        group: Group,
        /// The jobs.
        jobs: Vec<QueuedJob>,
        /// Seconds since 1970.
        at_s: f64,
    },
    /// A job is about to be started.
    Started {
        /// Which.
        id: Id,
        /// Seconds since 1970.
        at_s: f64,
    },
    /// A job that was about to be started could not be, for a temporary lack of resources.
    Unstarted(Id),
    /// A job that ran is waiting again.
    Returned {
        /// Which.
        id: Id,
        /// It must run alone.
        alone: bool,
    },
    /// A job has ended.
    Ended {
        /// Which.
        id: Id,
        /// Seconds since 1970.
        at_s: f64,
        /// How.
        outcome: Outcome,
    },
    /// A running job is to be ended.
    Cancelled(Id),
    /// A job is held, or released.
    Held {
        /// Which.
        id: Id,
        /// Which of the two.
        on: bool,
    },
    /// The queue is paused, or resumed.
    Paused(bool),
    /// A person's settings.
    Wishes(Wishes),
}

/// A record that contradicts the previous ones.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Contradiction(String);

/// All jobs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Book {
    /// Boot of the machine in which the last server began.
    pub boot: String,
    /// Common parts of jobs, by group.
    pub groups: BTreeMap<u64, Group>,
    /// Jobs by number.
    pub entries: BTreeMap<Id, Entry>,
    /// The queue is paused.
    pub paused: bool,
    /// A person's settings.
    pub wishes: Wishes,
    /// The last number in use.
    pub last: u64,
}

impl Book {
    /// Numbers for `count` jobs that are about to be added.
    #[must_use]
    pub fn next_ids(&self, count: usize) -> Vec<Id> {
        (1..=count as u64).map(|n| Id(self.last + n)).collect()
    }

    /// The common part of a job's request.
    #[must_use]
    pub fn demand(&self, entry: &Entry) -> Demand {
        let group = self.groups.get(&entry.group);
        group.map(|g| g.demand.clone()).unwrap_or_default()
    }

    /// Share of the device that a job runs under: the one requested, or all of it. Nothing is divided among jobs; only
    /// admission is decided. On a GPU, the share of a running job cannot be changed. On processors, a quota keeps a job
    /// from using what others leave idle: eight jobs that wait three quarters of the time, each under a quarter of two
    /// processors, are throttled whenever they compute.
    #[must_use]
    pub fn share(&self, entry: &Entry) -> Share {
        let requested = self.demand(entry).share;
        requested.map_or(Share::FULL, Share::from_hundredths)
    }

    /// Jobs of a request that was sent before.
    #[must_use]
    pub fn of_token(&self, token: &str) -> Vec<Id> {
        let group = self.groups.iter().find(|(_, g)| g.token == token);
        let Some((number, _)) = group else {
            return Vec::new();
        };
        let all = self.entries.values().filter(|e| e.group == *number);
        all.map(|e| e.job.id).collect()
    }

    /// Running jobs.
    pub fn running(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values().filter(|e| e.is_running())
    }

    /// Waiting jobs, held ones among them.
    pub fn waiting(&self) -> impl Iterator<Item = &Entry> {
        let waiting = |e: &&Entry| e.state == State::Waiting;
        self.entries.values().filter(waiting)
    }

    /// Applies a change.
    ///
    /// # Errors
    /// [`Contradiction`]; nothing has changed then.
    pub fn apply(&mut self, record: &Record) -> Result<(), Contradiction> {
        match record {
            Record::Book(book) => *self = (**book).clone(),
            Record::Opened(boot) => self.boot.clone_from(boot),
            Record::Paused(on) => self.paused = *on,
            Record::Wishes(new) => {
                let old = &self.wishes;
                self.wishes = Wishes {
                    most: new.most.or(old.most),
                    memory: new.memory.or(old.memory),
                    device: new.device.or(old.device),
                };
            }
            Record::Added { group, jobs, at_s } => self.add(group, jobs, *at_s)?,
            Record::Started { id, at_s } => {
                let entry = self.waiting_entry(*id, "started")?;
                entry.state = State::Running(*at_s);
                entry.starts += 1;
            }
            Record::Unstarted(id) => {
                let (entry, _) = self.running_entry(*id, "given back")?;
                entry.state = State::Waiting;
                entry.starts = entry.starts.saturating_sub(1);
            }
            Record::Returned { id, alone } => {
                let (entry, _) = self.running_entry(*id, "given back")?;
                entry.state = State::Waiting;
                entry.alone |= *alone;
            }
            Record::Ended { id, at_s, outcome } => self.end(*id, *at_s, outcome)?,
            Record::Cancelled(id) => self.running_entry(*id, "cancelled")?.0.cancelled = true,
            Record::Held { id, on } => self.waiting_entry(*id, "held")?.held = *on,
        }
        Ok(())
    }

    fn add(&mut self, group: &Group, jobs: &[QueuedJob], at_s: f64) -> Result<(), Contradiction> {
        let numbers: Vec<Id> = jobs.iter().map(|job| job.id).collect();
        if numbers != self.next_ids(jobs.len()) {
            let last = self.last;
            return Err(Contradiction(format!("jobs {numbers:?} after job {last}")));
        }
        let number = self.groups.keys().next_back().map_or(1, |last| last + 1);
        self.groups.insert(number, group.clone());
        self.last += jobs.len() as u64;
        self.entries.extend(jobs.iter().map(|job| {
            let entry = Entry {
                job: job.clone(),
                group: number,
                added_s: at_s,
                state: State::Waiting,
                starts: 0,
                held: false,
                cancelled: false,
                alone: false,
            };
            (job.id, entry)
        }));
        Ok(())
    }

    fn end(&mut self, id: Id, at_s: f64, outcome: &Outcome) -> Result<(), Contradiction> {
        let entry = self.entries.get_mut(&id);
        let entry =
            entry.ok_or_else(|| Contradiction(format!("job {id} ends and is not there")))?;
        let started_s = match entry.state {
            State::Running(at) => Some(at),
            // A waiting job can only end without having run.
            State::Waiting if matches!(outcome, Outcome::Cancelled | Outcome::Skipped(_)) => None,
            _ => return Err(Contradiction(format!("job {id} ends and does not run"))),
        };
        entry.state = State::Ended {
            started_s,
            at_s,
            outcome: outcome.clone(),
        };
        Ok(())
    }

    fn waiting_entry(&mut self, id: Id, what: &str) -> Result<&mut Entry, Contradiction> {
        let entry = self.entries.get_mut(&id);
        entry
            .filter(|e| e.state == State::Waiting)
            .ok_or_else(|| Contradiction(format!("job {id} is {what} and does not wait")))
    }

    fn running_entry(&mut self, id: Id, what: &str) -> Result<(&mut Entry, f64), Contradiction> {
        match self.entries.get_mut(&id) {
            Some(entry) => match entry.state {
                State::Running(at) => Ok((entry, at)),
                _ => Err(Contradiction(format!(
                    "job {id} is {what} and does not run"
                ))),
            },
            None => Err(Contradiction(format!(
                "job {id} is {what} and is not there"
            ))),
        }
    }

    /// Records for a new server about the jobs that ran when the last one ended. Those of the queue ended with it,
    /// and wait again or are given up. Processes that others started are checked with `is_alive`, unless the machine
    /// was restarted.
    #[must_use]
    pub fn recover(
        &self,
        boot: &str,
        now_s: f64,
        is_alive: impl Fn(Identity) -> bool,
    ) -> Vec<Record> {
        let mut records = vec![Record::Opened(boot.to_owned())];
        for entry in self.running() {
            let id = entry.job.id;
            let ended = |outcome| Record::Ended {
                id,
                at_s: now_s,
                outcome,
            };
            let again = self.demand(entry);
            records.extend(match entry.job.process {
                Some(process) if boot == self.boot && is_alive(process) => None,
                Some(_) => Some(ended(Outcome::Left)),
                None if entry.cancelled => Some(ended(Outcome::Cancelled)),
                None if again.once => Some(ended(Outcome::Skipped(
                    "the server ended while it ran, and --once forbids a second start".to_owned(),
                ))),
                None if entry.starts >= MOST_STARTS => Some(ended(Outcome::Skipped(format!(
                    "the server ended {MOST_STARTS} times while it ran"
                )))),
                None => Some(Record::Returned { id, alone: false }),
            });
        }
        records
    }

    /// Forgets the oldest ended jobs, except `keep` of them, and groups without jobs.
    pub fn prune(&mut self, keep: usize) {
        let ended = self.entries.values().filter(|e| e.is_ended());
        let ended: Vec<Id> = ended.map(|e| e.job.id).collect();
        for id in &ended[..ended.len().saturating_sub(keep)] {
            self.entries.remove(id);
        }
        let used: BTreeSet<u64> = self.entries.values().map(|e| e.group).collect();
        self.groups.retain(|number, _| used.contains(number));
    }
}

/// A job is given up after this many starts during which the server ended: if it crashed the machine, it would do so
/// again.
pub const MOST_STARTS: u32 = 3;

impl Entry {
    /// Whether it runs.
    #[must_use]
    pub const fn is_running(&self) -> bool {
        matches!(self.state, State::Running(_))
    }

    /// Whether it has ended.
    #[must_use]
    pub const fn is_ended(&self) -> bool {
        matches!(self.state, State::Ended { .. })
    }

    /// How it ended, if it did.
    #[must_use]
    pub const fn outcome(&self) -> Option<&Outcome> {
        match &self.state {
            State::Ended { outcome, .. } => Some(outcome),
            _ => None,
        }
    }

    /// The command as one line.
    #[must_use]
    pub fn text(&self) -> String {
        let set = self.job.set.iter().map(|(n, v)| format!("{n}={v}"));
        let words: Vec<String> = set.chain(self.job.argv.iter().cloned()).collect();
        words.join(" ")
    }
}
