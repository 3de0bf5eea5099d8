use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    DeviceFingerprint, GradientNoise, PhaseKind, Plan, Provenance, Timeline, Wire as _, wire_form,
};

/// One event of a launched run. [`EventKind`] says which fields an event must have and, after the comma, which ones it
/// may have; other fields are refused.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "mt.run/1")]
pub struct RunEvent {
    /// `mt.run/1`.
    pub schema: String,
    /// Kind of event.
    pub event: EventKind,
    /// Time of the event, in seconds since the launch.
    pub time_s: f64,
    /// Number of the round, from 0.
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
    /// Name of the GPU on which a task of a schedule is started; absent if there is only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<String>,
    /// Name of the task that already trains on that GPU; absent unless two tasks share it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside: Option<String>,
    /// Process id; absent for a simulated job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Number of samples trained on since the start of the task's phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples: Option<u64>,
    /// Throughput in samples per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples_per_s: Option<f64>,
    /// Predicted throughput while all tasks compute, in samples per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted_samples_per_s: Option<f64>,
    /// Training loss reported by the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
    /// Number of training steps of the task since its first start, over all rounds and restarts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
    /// Training time of the task in seconds, from when all of its processes were ready to its last step. If a plan is
    /// followed, only the time in this round; otherwise the time since the first start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// Gradient statistics of the steps since the previous progress event, from which the noise scale is estimated;
    /// absent if the training reports no gradient norms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gradient: Option<GradientNoise>,
    /// Number of GPUs that the task trains on; 0: it is parked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus: Option<u32>,
    /// Time at which the task is expected to be done, in seconds since the launch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_end_s: Option<f64>,
    /// Phase of the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<PhaseKind>,
    /// Start of a phase, in seconds from the start of the round; for a schedule, from the launch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_s: Option<f64>,
    /// End of a phase, in seconds from the same time as `start_s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_s: Option<f64>,
    /// Number of progress events of the task that were dropped before this one, because the reader did not keep up.
    /// This event includes their progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped: Option<u64>,
    /// Exit code of a process; absent if a signal ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    /// Number of the signal that ended a process; absent if it exited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// Number of restarts of the task in this round so far, including this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restarts: Option<u32>,
    /// Reason for the event, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether every task finished, in the round or in the whole run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ok: Option<bool>,
    /// Makespan of the round, or of the run, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub makespan_s: Option<f64>,
    /// Makespan planned by the timeline, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planned_makespan_s: Option<f64>,
    /// Result of each task.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<TaskSummary>,
    /// Reason for the shares of the round, and their result; present if the launch learns its shares from its rounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub learning: Option<Learning>,
    /// The device of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<DeviceFingerprint>,
    /// Timeline that the run follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeline: Option<Box<Timeline>>,
    /// Plan that the run follows; absent if there is a timeline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Box<Plan>>,
    /// Tools that made this document, in the order in which they ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub provenance: Vec<Provenance>,
}

wire_form!(RunEvent, "mt.run/1");

impl RunEvent {
    /// An event of kind `event` at `time_s`, without any other field.
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

/// Kind of event in a run. The text of each kind ends with the fields that the event has.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum EventKind {
    /// The launcher began: `device`, `timeline` or `plan`, `provenance`. This is the first event of a run.
    Launch,
    /// A job was started: `round task`, `batch share_percent gpu beside pid predicted_samples_per_s`.
    Start,
    /// A job is ready: `round task`.
    Ready,
    /// A job reported progress: `round task samples`, `samples_per_s loss step seconds gradient gpus batch dropped`.
    Progress,
    /// A phase ended: `round task phase start_s end_s`, `reason`.
    Phase,
    /// A process ended: `round task`, `phase reason`, `code` or `signal`.
    Exit,
    /// A job is about to be started again: `round task reason`, `restarts`.
    Restart,
    /// The share, or the number of GPUs, of a computing task was changed: `round task reason`,
    /// `share_percent gpus expected_end_s`.
    Reshare,
    /// A new plan was made for the next round: `reason`, `round`, `plan` or `timeline`.
    Replan,
    /// A task was stopped or, if no task is named, the whole run: `reason`, `round task`.
    Stop,
    /// A device fault was detected or fixed: `reason`, `round task`.
    Fault,
    /// A round ended: `round ok makespan_s`, `planned_makespan_s tasks learning`.
    Round,
    /// The launcher ended: `ok makespan_s`, `tasks`. This is the last event of a run.
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

/// What a launch that learns its shares from its rounds reports about one round.
///
/// All times are durations of a round, from its start to the end of its last phase. Expected and estimated times come
/// from a Gaussian process over the 100 newest rounds that can be learnt from, which are those in which every task
/// finished at its first try. They include noise: tasks that end at about the same time end later together than each
/// alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Learning {
    /// Reason for the shares of the round.
    pub choice: ShareChoice,
    /// Number of rounds of earlier launches that were known from the start; absent: 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub earlier: u64,
    /// Expected time of the round, in seconds; absent if no earlier round could be learnt from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_s: Option<f64>,
    /// Expected time under the best shares so far, in seconds; absent if no earlier round could be learnt from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best_s: Option<f64>,
    /// Time in seconds that the round would have taken under the launch's first shares, as estimated after the round;
    /// absent if this round could not be learnt from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_s: Option<f64>,
    /// Sum of `first_s` minus the time taken, in seconds, over the rounds so far that could be learnt from; negative if
    /// time was lost.
    pub saved_s: f64,
    /// Standard deviation of the noise on the logarithm of a task's time, as estimated after the round.
    pub noise: f64,
    /// Standard deviation of the drift of that logarithm, as estimated after the round.
    pub drift: f64,
}

/// Reason for the shares of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ShareChoice {
    /// Nothing is known yet, so the shares are those of the launch's plan.
    First,
    /// The shares are the best so far.
    Best,
    /// Other shares, new or tried before. The savings in the remaining rounds are expected to repay the trial.
    Trial,
}

impl ShareChoice {
    /// The name in a document.
    #[must_use]
    pub fn name(self) -> String {
        crate::name_of(&self)
    }
}

/// Result of a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskSummary {
    /// Name of the task.
    pub id: String,
    /// Whether it trained on all its samples.
    pub finished: bool,
    /// Whether the run was interrupted by a signal, or its reader went away, before this task ended; absent: false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
    /// Number of samples trained on.
    pub samples: u64,
    /// Batch size, as planned; in a run of several rounds, that of the last round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<u64>,
    /// Share in percent while all tasks compute, as planned; in a run of several rounds, that of the last round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_percent: Option<f64>,
    /// Training time in seconds, from when all of its processes were ready to its last step. For a schedule, the total
    /// time of its compute phases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// The part of `seconds` in which all tasks trained, according to the progress events. It consists of the intervals
    /// from one `progress` event (or `ready`) to the next that began when every task was ready and ended before any
    /// task had left. In a run of several rounds, from the last round that has such intervals; absent if there are
    /// none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub together_s: Option<f64>,
    /// Mean throughput over `together_s`, in samples per second, with the samples of the same intervals; if
    /// `together_s` is absent, `samples` divided by `seconds`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples_per_s: Option<f64>,
    /// Predicted throughput while all tasks compute, in samples per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted_samples_per_s: Option<f64>,
    /// First loss reported; absent if none was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_loss: Option<f64>,
    /// Last loss reported; absent if none was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_loss: Option<f64>,
    /// Number of restarts.
    pub restarts: u32,
    /// Number of progress events that were dropped because the reader did not keep up; absent: 0. All other figures are
    /// computed from the remaining events.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub dropped: u64,
    /// Exit code of the last process; absent if a signal ended it, or if there was no process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    /// Number of the signal that ended the last process; absent if it exited, or if there was no process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
}
