use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    DeviceFingerprint, GradientNoise, PhaseKind, Plan, Provenance, Timeline, Wire as _, wire_form,
};

/// One event of a launched run. [`EventKind`] says which fields an event must have and, after the
/// comma, which it may have; others are refused.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "mt.run/1")]
pub struct RunEvent {
    /// `mt.run/1`.
    pub schema: String,
    /// What happened.
    pub event: EventKind,
    /// Seconds since the launch.
    pub time_s: f64,
    /// Round, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round: Option<u32>,
    /// Name of the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// Batch size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<u64>,
    /// Share in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_percent: Option<f64>,
    /// Name of the GPU on which a task of a schedule is started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<String>,
    /// Name of the task that already trains on that GPU, if two share it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside: Option<String>,
    /// Process id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Samples trained on since the start of the task's phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples: Option<u64>,
    /// Throughput in samples per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples_per_s: Option<f64>,
    /// Predicted throughput in samples per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted_samples_per_s: Option<f64>,
    /// Training loss that the job reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
    /// Training steps of the task since its first start, over all rounds and restarts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
    /// Seconds of training of the task, from when each of its processes was ready to its last step: in
    /// this round if a plan is followed, else since its first start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// What the gradients of the steps since the progress event before say about the noise scale, where
    /// the training reports norms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gradient: Option<GradientNoise>,
    /// GPUs that the task trains on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus: Option<u32>,
    /// When the task is expected to be done, in seconds since the launch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_end_s: Option<f64>,
    /// Which phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<PhaseKind>,
    /// Start of a phase in seconds from the start of the round; for a schedule, from the launch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_s: Option<f64>,
    /// End of a phase, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_s: Option<f64>,
    /// Progress events of the task that were dropped before this one because the reader did not
    /// keep up; this one covers them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped: Option<u64>,
    /// Exit code of a process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    /// Signal that ended a process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// How often the task has been restarted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restarts: Option<u32>,
    /// Why, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether the whole run (or round) succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ok: Option<bool>,
    /// Makespan of the round, or of the run, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub makespan_s: Option<f64>,
    /// Makespan planned by the timeline, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planned_makespan_s: Option<f64>,
    /// What became of each task.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<TaskSummary>,
    /// Why the round had its shares, and what they gave, if the launch learns from its rounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub learning: Option<Learning>,
    /// The device of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<DeviceFingerprint>,
    /// The timeline followed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeline: Option<Box<Timeline>>,
    /// The plan followed, if there is no timeline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Box<Plan>>,
    /// Which tools made this document.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub provenance: Vec<Provenance>,
}

wire_form!(RunEvent, "mt.run/1");

impl RunEvent {
    /// An event of `event` at `time_s` with no other field.
    pub fn new(event: EventKind, time_s: f64) -> Self {
        Self {
            schema: Self::SCHEMA.to_owned(),
            event,
            time_s,
            round: None,
            task: None,
            batch: None,
            share_percent: None,
            gpu: None,
            beside: None,
            pid: None,
            samples: None,
            samples_per_s: None,
            predicted_samples_per_s: None,
            loss: None,
            step: None,
            seconds: None,
            gradient: None,
            gpus: None,
            expected_end_s: None,
            phase: None,
            start_s: None,
            end_s: None,
            dropped: None,
            code: None,
            signal: None,
            restarts: None,
            reason: None,
            ok: None,
            makespan_s: None,
            planned_makespan_s: None,
            tasks: Vec::new(),
            learning: None,
            device: None,
            timeline: None,
            plan: None,
            provenance: Vec::new(),
        }
    }

    /// The name of every optional field, and whether it is given.
    pub fn given(&self) -> [(&'static str, bool); 33] {
        [
            ("round", self.round.is_some()),
            ("task", self.task.is_some()),
            ("batch", self.batch.is_some()),
            ("share_percent", self.share_percent.is_some()),
            ("gpu", self.gpu.is_some()),
            ("beside", self.beside.is_some()),
            ("pid", self.pid.is_some()),
            ("samples", self.samples.is_some()),
            ("samples_per_s", self.samples_per_s.is_some()),
            (
                "predicted_samples_per_s",
                self.predicted_samples_per_s.is_some(),
            ),
            ("loss", self.loss.is_some()),
            ("step", self.step.is_some()),
            ("seconds", self.seconds.is_some()),
            ("gradient", self.gradient.is_some()),
            ("gpus", self.gpus.is_some()),
            ("expected_end_s", self.expected_end_s.is_some()),
            ("phase", self.phase.is_some()),
            ("start_s", self.start_s.is_some()),
            ("end_s", self.end_s.is_some()),
            ("dropped", self.dropped.is_some()),
            ("code", self.code.is_some()),
            ("signal", self.signal.is_some()),
            ("restarts", self.restarts.is_some()),
            ("reason", self.reason.is_some()),
            ("ok", self.ok.is_some()),
            ("makespan_s", self.makespan_s.is_some()),
            ("planned_makespan_s", self.planned_makespan_s.is_some()),
            ("tasks", !self.tasks.is_empty()),
            ("learning", self.learning.is_some()),
            ("device", self.device.is_some()),
            ("timeline", self.timeline.is_some()),
            ("plan", self.plan.is_some()),
            ("provenance", !self.provenance.is_empty()),
        ]
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// What happened in a run.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum EventKind {
    /// The launcher began: `device`, `timeline` or `plan`, `provenance`. First event of a run.
    Launch,
    /// A job was started: `round task`, `batch share_percent gpu beside pid predicted_samples_per_s`.
    Start,
    /// A job is ready: `round task`.
    Ready,
    /// A job trained: `round task samples`, `samples_per_s loss step seconds gradient gpus
    /// batch dropped`.
    Progress,
    /// A phase ended: `round task phase start_s end_s`, `reason`.
    Phase,
    /// A process ended: `round task`, `phase reason`, `code` or `signal`.
    Exit,
    /// A job is about to be started again: `round task reason`, `restarts`.
    Restart,
    /// Something changed the shares of the rest, or the GPUs of a task: `round task reason`,
    /// `share_percent gpus expected_end_s`.
    Reshare,
    /// The plan of the next round was made again: `reason`, `round`, `plan` or `timeline`.
    Replan,
    /// Something stopped a task or the run: `reason`, `round task`.
    Stop,
    /// A device fault was met: `reason`, `round task`.
    Fault,
    /// A round ended: `round ok makespan_s`, `planned_makespan_s tasks learning`.
    Round,
    /// The launcher ended: `ok makespan_s`, `tasks`. Last event of a run.
    Summary,
}

impl EventKind {
    /// Every kind.
    pub const ALL: [Self; 13] = [
        Self::Launch,
        Self::Start,
        Self::Ready,
        Self::Progress,
        Self::Phase,
        Self::Exit,
        Self::Restart,
        Self::Reshare,
        Self::Replan,
        Self::Stop,
        Self::Fault,
        Self::Round,
        Self::Summary,
    ];

    /// The name in a document.
    #[must_use]
    pub fn name(self) -> String {
        crate::name_of(&self)
    }
}

/// A round of a launch that learns its shares from its rounds.
///
/// Seconds are those of a round, from its start to its last phase. They are estimates of a Gaussian process over the
/// 48 newest rounds that taught something: those in which every task finished at its first try.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Learning {
    /// Why the round had its shares.
    pub choice: ShareChoice,
    /// Rounds of earlier launches that were known from the start.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub earlier: u64,
    /// Seconds that were expected of the round; absent if no round had taught anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_s: Option<f64>,
    /// Seconds that were expected under the best shares so far; absent likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best_s: Option<f64>,
    /// Seconds that the round would have taken under the launch's first shares, as estimated after it; absent if it
    /// taught nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_s: Option<f64>,
    /// Sum of `first_s` minus the seconds taken, over the rounds so far that taught something.
    pub saved_s: f64,
    /// Standard deviation of the noise on the logarithm of a task's seconds, as estimated after the round.
    pub noise: f64,
    /// Standard deviation of its drift, likewise.
    pub drift: f64,
}

/// Why a round has its shares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ShareChoice {
    /// Nothing is known yet: those of the launch's plan.
    First,
    /// The best so far.
    Best,
    /// Not tried yet; the rounds that remain are expected to repay it.
    Trial,
}

impl ShareChoice {
    /// The name in a document.
    #[must_use]
    pub fn name(self) -> String {
        crate::name_of(&self)
    }
}

/// What became of a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskSummary {
    /// Name of the task.
    pub id: String,
    /// Whether it trained on all its samples.
    pub finished: bool,
    /// The run was interrupted by a signal, or its reader went away, before this task ended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
    /// Samples trained on.
    pub samples: u64,
    /// Batch size, as planned; in a run of several rounds, that of the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<u64>,
    /// Share in percent while all tasks compute, as planned; in a run of several rounds, that of the
    /// last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_percent: Option<f64>,
    /// Seconds that it trained: from when each of its processes was ready to its last step. For a
    /// schedule: seconds of its compute phases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// Seconds of these in which all tasks trained, as far as progress shows them: the intervals from
    /// one `progress` event (or `ready`) to the next that began when every task was ready and ended
    /// before any had left. In a run of several rounds: in the last round that has any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub together_s: Option<f64>,
    /// Mean throughput in samples per second over `together_s`, with the samples of the same
    /// intervals; if that is absent, `samples` over `seconds`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples_per_s: Option<f64>,
    /// Predicted throughput while all tasks compute, samples per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted_samples_per_s: Option<f64>,
    /// First and last loss reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_loss: Option<f64>,
    /// Last loss reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_loss: Option<f64>,
    /// Restarts.
    pub restarts: u32,
    /// Progress events that are missing because the reader did not keep up. Every other figure is
    /// computed from the events that are there.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub dropped: u64,
    /// Exit code of the last process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    /// Signal that ended the last process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
}
