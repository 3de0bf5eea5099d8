//! Events of a launched run, each with its fields.

mod read;
mod write;

use std::fmt;

use units::{Batch, SamplesPerSec, Seconds, Share, TaskId};

use crate::{DeviceFingerprint, GradientNoise, PhaseKind, Plan, Provenance, Timeline};

pub use crate::wire::{EventKind, ShareChoice};

/// One event of a launched run. A run begins with a [`EventPayload::Launch`].
#[derive(Debug, Clone, PartialEq)]
pub struct RunEvent {
    /// Time since the launch.
    pub time: Seconds,
    /// What happened.
    pub payload: EventPayload,
}

/// What happened in a run. Rounds count from 0; a task is named as in the plan.
#[derive(Debug, Clone, PartialEq)]
#[expect(
    missing_docs,
    reason = "`round`, `task` and `provenance` mean the same in every event and are explained above"
)]
pub enum EventPayload {
    /// The launcher began. First event of a run.
    Launch {
        /// The device of the run.
        device: DeviceFingerprint,
        /// The plan or timeline that the run follows; absent if jobs run without a plan of shares.
        planned: Option<Planned>,
        provenance: Vec<Provenance>,
    },
    /// A job was started.
    Start {
        round: u32,
        task: TaskId,
        /// Batch size, if known.
        batch: Option<Batch>,
        /// Share, if it has one.
        share: Option<Share>,
        /// Name of the job's GPU, if the schedule has several GPUs.
        gpu: Option<String>,
        /// The task that already trains on that GPU, if two share it.
        beside: Option<TaskId>,
        /// Process id; a simulated job has none.
        pid: Option<u32>,
        /// Predicted throughput of this task while all tasks compute.
        predicted: Option<SamplesPerSec>,
    },
    /// A job is ready to train.
    Ready { round: u32, task: TaskId },
    /// A job reported progress.
    Progress {
        round: u32,
        task: TaskId,
        /// Its progress.
        progress: TaskProgress,
    },
    /// A phase ended.
    Phase {
        round: u32,
        task: TaskId,
        phase: PhaseKind,
        /// Start, relative to the start of the round. For a schedule, whose jobs have their own rounds, it is
        /// relative to the launch.
        start: Seconds,
        /// End, relative to the same time as `start`.
        end: Seconds,
        /// Why the task was given up in this phase; absent if it was not.
        reason: Option<String>,
    },
    /// A process ended.
    Exit {
        round: u32,
        task: TaskId,
        /// The phase to which the process belonged.
        phase: Option<PhaseKind>,
        /// How it ended.
        end: ProcessEnd,
        /// Why this end is a failure, and which processes or files it left behind.
        reason: Option<String>,
    },
    /// A job is about to be started again.
    Restart {
        round: u32,
        task: TaskId,
        /// Number of restarts of the task in this round so far, including this one.
        restarts: Option<u32>,
        /// Why the job is started again.
        reason: String,
    },
    /// The share, or the number of GPUs, of a computing task was changed.
    Reshare {
        round: u32,
        task: TaskId,
        /// Its share from now on.
        share: Option<Share>,
        /// Its GPUs from now on; 0: it is parked.
        gpus: Option<u32>,
        /// Expected end of the task, in seconds since the launch, as estimated by the program that decided
        /// the change.
        expected_end: Option<Seconds>,
        /// Reason for the change, and the error if it could not be applied.
        reason: String,
    },
    /// A new plan was made for the next round.
    Replan {
        /// The round that the plan is for, from 0.
        round: Option<u32>,
        /// What changed.
        reason: String,
        /// The plan or timeline that the run follows from then on.
        planned: Option<Planned>,
    },
    /// A task was stopped; if no task is named, the whole run.
    Stop {
        round: Option<u32>,
        task: Option<TaskId>,
        /// Why it was stopped.
        reason: String,
    },
    /// A device fault was detected or fixed.
    Fault {
        round: Option<u32>,
        /// The task whose end revealed the fault.
        task: Option<TaskId>,
        /// Details of the fault, for people.
        reason: String,
    },
    /// A round ended.
    Round {
        round: u32,
        /// Whether every task finished.
        ok: bool,
        /// End of the last phase, relative to the start of the round.
        makespan: Seconds,
        /// Makespan that the timeline predicted.
        planned_makespan: Option<Seconds>,
        /// Result of each task in this round.
        tasks: Vec<TaskSummary>,
        /// Why the round had its shares, and their result; present if the launch learns its shares from its
        /// rounds.
        learning: Option<Learning>,
    },
    /// The launcher ended. Last event of a run.
    Summary {
        /// Whether every task finished in every requested round.
        ok: bool,
        /// Duration of the whole run, which equals the time of this event.
        makespan: Seconds,
        /// Result of each task over all rounds.
        tasks: Vec<TaskSummary>,
    },
}

/// The plan that a launch follows.
#[derive(Debug, Clone, PartialEq)]
pub enum Planned {
    /// A timeline, which fixes shares, batch sizes and the order of transfers.
    Timeline(Box<Timeline>),
    /// A plan without a timeline: transfers are in the order of its tasks.
    Plan(Box<Plan>),
}

/// Progress of a job.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TaskProgress {
    /// Number of samples trained on since the start of the task's phase.
    pub samples: u64,
    /// Throughput since the previous progress event.
    pub rate: Option<SamplesPerSec>,
    /// Training loss that the job reported.
    pub loss: Option<f64>,
    /// Number of training steps of the task since its first start, over all rounds and restarts.
    pub step: Option<u64>,
    /// Training time of the task, from when all of its processes were ready to its last step. If a plan is
    /// followed, only the time in this round; otherwise the time since the first start.
    pub trained: Option<Seconds>,
    /// Gradient statistics of the steps since the previous progress event, from which the noise scale is
    /// estimated.
    pub gradient: Option<GradientNoise>,
    /// Number of GPUs that it trains on.
    pub gpus: Option<u32>,
    /// Total batch size over all its GPUs.
    pub batch: Option<Batch>,
    /// Number of progress events of the task that were dropped before this one because the reader's queue was
    /// full. This event includes their progress.
    pub dropped: u64,
}

/// What a launch that learns its shares from its rounds says about one round.
#[derive(Debug, Clone, PartialEq)]
pub struct Learning {
    /// Reason for the shares of the round.
    pub choice: ShareChoice,
    /// Number of rounds of earlier launches that were known from the start.
    pub earlier: u64,
    /// Expected time of the round; absent if no earlier round gave information.
    pub expected: Option<Seconds>,
    /// Expected time under the best shares found so far; absent if no earlier round gave information.
    pub best: Option<Seconds>,
    /// Time that the round would have taken under the launch's first shares, as estimated after the round;
    /// absent if the round gave no information.
    pub first: Option<Seconds>,
    /// Seconds saved so far compared with the first shares; negative if time was lost.
    pub saved_s: f64,
    /// Standard deviation of the noise on the logarithm of a task's time, as estimated after the round.
    pub noise: f64,
    /// Standard deviation of the drift of that logarithm, as estimated after the round.
    pub drift: f64,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessEnd {
    /// By itself, with this code.
    Code(i32),
    /// Killed by this signal.
    Signal(i32),
}

/// Result of a task.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskSummary {
    /// Name of the task.
    pub id: TaskId,
    /// Whether it trained on all its samples.
    pub finished: bool,
    /// Whether the run was interrupted by a signal, or its reader went away, before this task ended.
    pub interrupted: bool,
    /// Number of samples trained on.
    pub samples: u64,
    /// Batch size, as planned.
    pub batch: Option<Batch>,
    /// Share while all tasks compute, as planned.
    pub share: Option<Share>,
    /// Training time: from when all of its processes were ready to its last step.
    pub trained: Option<Seconds>,
    /// The part of that time in which all tasks trained, according to the progress events; absent if they
    /// never all trained at once.
    pub together: Option<Seconds>,
    /// Mean throughput over `together`; if that is absent, `samples` divided by `trained`.
    pub rate: Option<SamplesPerSec>,
    /// Predicted throughput while all tasks compute.
    pub predicted: Option<SamplesPerSec>,
    /// First loss reported.
    pub first_loss: Option<f64>,
    /// Last loss reported.
    pub last_loss: Option<f64>,
    /// Number of restarts.
    pub restarts: u32,
    /// Number of progress events dropped because the reader's queue was full. All other figures are computed
    /// from the remaining events.
    pub dropped: u64,
    /// How the last process ended, if the task had one.
    pub end: Option<ProcessEnd>,
}

impl TaskSummary {
    /// The result of a task about which nothing is known yet.
    #[must_use]
    pub const fn new(id: TaskId) -> Self {
        Self {
            id,
            finished: false,
            interrupted: false,
            samples: 0,
            batch: None,
            share: None,
            trained: None,
            together: None,
            rate: None,
            predicted: None,
            first_loss: None,
            last_loss: None,
            restarts: 0,
            dropped: 0,
            end: None,
        }
    }

    /// Throughput while all tasks trained, if they ever did. Summaries without times come from earlier
    /// versions, whose only throughput was this one.
    #[must_use]
    pub fn rate_together(&self) -> Option<SamplesPerSec> {
        self.rate
            .filter(|_| self.together.is_some() || self.trained.is_none())
    }
}

impl RunEvent {
    /// Which kind of event it is.
    #[must_use]
    pub const fn kind(&self) -> EventKind {
        match self.payload {
            EventPayload::Launch { .. } => EventKind::Launch,
            EventPayload::Start { .. } => EventKind::Start,
            EventPayload::Ready { .. } => EventKind::Ready,
            EventPayload::Progress { .. } => EventKind::Progress,
            EventPayload::Phase { .. } => EventKind::Phase,
            EventPayload::Exit { .. } => EventKind::Exit,
            EventPayload::Restart { .. } => EventKind::Restart,
            EventPayload::Reshare { .. } => EventKind::Reshare,
            EventPayload::Replan { .. } => EventKind::Replan,
            EventPayload::Stop { .. } => EventKind::Stop,
            EventPayload::Fault { .. } => EventKind::Fault,
            EventPayload::Round { .. } => EventKind::Round,
            EventPayload::Summary { .. } => EventKind::Summary,
        }
    }

    /// The task of the event; none if it concerns the run.
    #[must_use]
    pub const fn task(&self) -> Option<&TaskId> {
        match &self.payload {
            EventPayload::Start { task, .. }
            | EventPayload::Ready { task, .. }
            | EventPayload::Progress { task, .. }
            | EventPayload::Phase { task, .. }
            | EventPayload::Exit { task, .. }
            | EventPayload::Restart { task, .. }
            | EventPayload::Reshare { task, .. } => Some(task),
            EventPayload::Stop { task, .. } | EventPayload::Fault { task, .. } => task.as_ref(),
            EventPayload::Launch { .. }
            | EventPayload::Replan { .. }
            | EventPayload::Round { .. }
            | EventPayload::Summary { .. } => None,
        }
    }

    /// The round in which the event happened, or for which a new plan was made.
    #[must_use]
    pub const fn round(&self) -> Option<u32> {
        match &self.payload {
            EventPayload::Start { round, .. }
            | EventPayload::Ready { round, .. }
            | EventPayload::Progress { round, .. }
            | EventPayload::Phase { round, .. }
            | EventPayload::Exit { round, .. }
            | EventPayload::Restart { round, .. }
            | EventPayload::Reshare { round, .. }
            | EventPayload::Round { round, .. } => Some(*round),
            EventPayload::Replan { round, .. }
            | EventPayload::Stop { round, .. }
            | EventPayload::Fault { round, .. } => *round,
            EventPayload::Launch { .. } | EventPayload::Summary { .. } => None,
        }
    }

    /// The reason that the event gives, for people.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        match &self.payload {
            EventPayload::Restart { reason, .. }
            | EventPayload::Reshare { reason, .. }
            | EventPayload::Replan { reason, .. }
            | EventPayload::Stop { reason, .. }
            | EventPayload::Fault { reason, .. } => Some(reason),
            EventPayload::Phase { reason, .. } | EventPayload::Exit { reason, .. } => {
                reason.as_deref()
            }
            EventPayload::Launch { .. }
            | EventPayload::Start { .. }
            | EventPayload::Ready { .. }
            | EventPayload::Progress { .. }
            | EventPayload::Round { .. }
            | EventPayload::Summary { .. } => None,
        }
    }

    /// The plan or timeline that the run follows from this event on.
    #[must_use]
    pub const fn planned(&self) -> Option<&Planned> {
        match &self.payload {
            EventPayload::Launch { planned, .. } | EventPayload::Replan { planned, .. } => {
                planned.as_ref()
            }
            _ => None,
        }
    }
}

impl Planned {
    /// The plan, which a timeline contains.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        match self {
            Self::Timeline(timeline) => &timeline.plan,
            Self::Plan(plan) => plan,
        }
    }

    /// The timeline; `None` for a plan alone.
    #[must_use]
    pub fn timeline(&self) -> Option<&Timeline> {
        match self {
            Self::Timeline(timeline) => Some(timeline),
            Self::Plan(_) => None,
        }
    }
}

impl fmt::Display for ProcessEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
        }
    }
}
