//! A job of the queue, its states, and the changes of one.

use std::collections::BTreeMap;

use jobs::Origin;
use jobs::process::Identity;
use serde::{Deserialize, Serialize};

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
    /// It is never started twice, for example after the server was killed while it ran.
    #[serde(default)]
    pub once: bool,
    /// Milliseconds that each start may run; absent: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Milliseconds from SIGTERM to SIGKILL; absent: the setting of the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_ms: Option<u64>,
    /// It starts when these jobs are done.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<Id>,
    /// It starts when the jobs of `after` have ended, even if they failed.
    #[serde(default, skip_serializing_if = "is_false")]
    pub after_any: bool,
    /// It starts although other jobs of its template have failed.
    #[serde(default, skip_serializing_if = "is_false")]
    pub keep_going: bool,
    /// Name of the group whose limit it counts against.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Number of whole GPUs that it gets; absent: it shares one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus: Option<usize>,
    /// Percent by which jobs beside it may slow it down, relative to running alone; absent: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most_slower: Option<u32>,
    /// Devices that it may use, by `devices::Device::id`; absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only: Option<Vec<String>>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
const fn is_false(on: &bool) -> bool {
    !*on
}

/// Common part of the jobs of one request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// Random name of the request, so that sending it again does not add the jobs twice.
    pub token: String,
    /// Working directory.
    pub cwd: String,
    /// Whole environment.
    pub env: BTreeMap<String, String>,
    /// Requirements of each job.
    pub demand: Demand,
    /// Number of its first job, by which users name a sweep; set when it is added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<Id>,
    /// Other inherited attributes (such as limits and priority) of the process that added the jobs; absent: those of
    /// the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Box<Origin>>,
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
    /// Names and values of its placeholders, in the order of the command line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<(String, String)>,
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
pub enum JobEnd {
    /// Exit status 0.
    Done,
    /// Another exit status.
    Failed(i32),
    /// A signal.
    Killed(i32),
    /// It was ended because it exceeded its time limit.
    TimedOut,
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
pub enum JobState {
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
        outcome: JobEnd,
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
    pub state: JobState,
    /// Number of starts.
    pub starts: u32,
    /// It is held until a user releases it.
    pub held: bool,
    /// It was cancelled while it ran, but has not ended yet.
    pub cancelled: bool,
    /// It must run alone, because it ran out of memory beside others.
    pub alone: bool,
    /// Number of starts during which the server died.
    #[serde(default)]
    pub lost: u32,
    /// Most bytes of memory that it was seen to use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak: Option<u64>,
    /// Percent by which its last run was slower than alone; only for jobs with `at_most_slower`, and if measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slower: Option<u32>,
    /// Devices and share of its last start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placed: Option<Placed>,
}

/// Devices and share of a start. Devices are named, because their order may change when the machine restarts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Placed {
    /// UUID of each GPU, or `cpu`.
    pub devices: Vec<String>,
    /// Share of each device, in hundredths of a percent.
    pub share: u32,
}

/// Where jobs run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum On {
    /// A GPU of this machine that MPS can share if there is one, else the processors.
    Auto,
    /// The processors.
    Cpu,
}

impl On {
    /// Its name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Cpu => "cpu",
        }
    }
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
    /// Milliseconds from SIGTERM to SIGKILL for jobs without a `grace_ms` of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_ms: Option<u64>,
    /// Maximum number of jobs at once of each named group.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub groups: BTreeMap<String, usize>,
}

/// The state of a queue at one moment; later records change it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Snapshot {
    /// Boot of the machine in which the last server began.
    pub boot: String,
    /// Common parts of jobs, by group.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub groups: BTreeMap<u64, Group>,
    /// Jobs by number.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub entries: BTreeMap<Id, Entry>,
    /// The queue is paused.
    pub paused: bool,
    /// A person's settings.
    pub wishes: Wishes,
    /// The last number in use.
    pub last: u64,
}

/// A change of the queue's state, as one line of its journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Record {
    /// The state when the journal was rewritten. Its groups and jobs follow in separate records, so that a damaged line
    /// loses only one of them.
    Book(Box<Snapshot>),
    /// A group of the rewritten state.
    Group {
        /// Its number.
        number: u64,
        /// The group.
        group: Group,
    },
    /// A job of the rewritten state.
    Entry(Box<Entry>),
    /// A server has started; the value identifies the boot of the machine.
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
        /// Devices and share; absent in journals of older versions, which had one device.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        placed: Option<Placed>,
    },
    /// A job could not be started because resources were temporarily short; it waits again.
    Unstarted(Id),
    /// A running job returned to the waiting jobs.
    Returned {
        /// Which.
        id: Id,
        /// It must run alone.
        alone: bool,
    },
    /// The server died while this job ran; it waits again.
    Lost(Id),
    /// A job has ended.
    Ended {
        /// Which.
        id: Id,
        /// Seconds since 1970.
        at_s: f64,
        /// How.
        outcome: JobEnd,
    },
    /// A user cancelled a running job, which has not ended yet.
    Cancelled(Id),
    /// A user restarted a job that had ended; it waits again.
    Retried(Id),
    /// Most bytes of memory that a job was seen to use.
    Peak {
        /// Which.
        id: Id,
        /// Bytes.
        bytes: u64,
    },
    /// Measured slow-down of a job with `at_most_slower`.
    Slower {
        /// Which.
        id: Id,
        /// Percent by which it was slower than alone.
        percent: u32,
    },
    /// A job is held, or released.
    Held {
        /// Which.
        id: Id,
        /// `true`: held; `false`: released.
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
pub struct Contradiction(pub(crate) String);

impl Record {
    /// The job that it changes; `None` if it changes several or none.
    #[must_use]
    pub const fn job(&self) -> Option<Id> {
        match self {
            Self::Started { id, .. }
            | Self::Unstarted(id)
            | Self::Returned { id, .. }
            | Self::Lost(id)
            | Self::Ended { id, .. }
            | Self::Cancelled(id)
            | Self::Retried(id)
            | Self::Peak { id, .. }
            | Self::Slower { id, .. }
            | Self::Held { id, .. } => Some(*id),
            _ => None,
        }
    }
}

impl Entry {
    /// Applies a change of this job.
    ///
    /// # Errors
    /// [`Contradiction`]; the job is then unchanged.
    pub(crate) fn apply(&mut self, record: &Record) -> Result<(), Contradiction> {
        let waits = self.state == JobState::Waiting;
        match (record, &self.state) {
            (Record::Started { at_s, placed, .. }, JobState::Waiting) => {
                self.placed.clone_from(placed);
                self.state = JobState::Running(*at_s);
                self.starts += 1;
            }
            (Record::Unstarted(_), JobState::Running(_)) => {
                self.state = JobState::Waiting;
                self.starts = self.starts.saturating_sub(1);
            }
            (Record::Returned { alone, .. }, JobState::Running(_)) => {
                self.state = JobState::Waiting;
                self.alone |= *alone;
            }
            (Record::Lost(_), JobState::Running(_)) => {
                self.state = JobState::Waiting;
                self.lost += 1;
            }
            // A waiting job can only end with an outcome that needs no run.
            (Record::Ended { outcome, .. }, _)
                if waits && !matches!(outcome, JobEnd::Cancelled | JobEnd::Skipped(_)) =>
            {
                return Err(self.contradicts(record));
            }
            (Record::Ended { at_s, outcome, .. }, JobState::Waiting | JobState::Running(_)) => {
                self.end(*at_s, outcome);
            }
            (Record::Cancelled(_), JobState::Running(_)) => self.cancelled = true,
            (Record::Held { on, .. }, JobState::Waiting) => self.held = *on,
            (Record::Retried(_), JobState::Ended { .. }) => {
                self.state = JobState::Waiting;
                (self.held, self.cancelled, self.alone) = (false, false, false);
                (self.lost, self.peak, self.slower) = (0, None, None);
            }
            (Record::Slower { percent, .. }, _) => self.slower = Some(*percent),
            (Record::Peak { bytes, .. }, _) => self.peak = self.peak.max(Some(*bytes)),
            _ => return Err(self.contradicts(record)),
        }
        Ok(())
    }

    fn end(&mut self, at_s: f64, outcome: &JobEnd) {
        let started_s = match self.state {
            JobState::Running(at) => Some(at),
            _ => None,
        };
        self.state = JobState::Ended {
            started_s,
            at_s,
            outcome: outcome.clone(),
        };
    }

    fn contradicts(&self, record: &Record) -> Contradiction {
        let what = match record {
            Record::Started { .. } => "is started",
            Record::Unstarted(_) | Record::Returned { .. } | Record::Lost(_) => "is given back",
            Record::Ended { .. } => "ends",
            Record::Cancelled(_) => "is cancelled",
            Record::Held { .. } => "is held",
            Record::Retried(_) => "is to run again",
            _ => "changes",
        };
        let state = match self.state {
            JobState::Waiting => "waits",
            JobState::Running(_) => "runs",
            JobState::Ended { .. } => "has ended",
        };
        Contradiction(format!("job {} {what}, but it {state}", self.job.id))
    }

    /// Whether it runs.
    #[must_use]
    pub const fn is_running(&self) -> bool {
        matches!(self.state, JobState::Running(_))
    }

    /// Whether it has ended.
    #[must_use]
    pub const fn is_ended(&self) -> bool {
        matches!(self.state, JobState::Ended { .. })
    }

    /// How it ended, if it did.
    #[must_use]
    pub const fn outcome(&self) -> Option<&JobEnd> {
        match &self.state {
            JobState::Ended { outcome, .. } => Some(outcome),
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
