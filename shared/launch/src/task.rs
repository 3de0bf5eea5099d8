//! One task in one round.

use std::time::{Duration, Instant};

use doc::{PhaseKind, ProcessEnd, TaskSummary};
use jobs::{Exit, JobId};
use units::{SamplesPerSec, Share, TaskId};

use crate::turns::Stage;

/// What is known of a task in the round under way.
#[derive(Debug)]
pub(crate) struct TaskRun {
    pub(crate) stage: Stage,
    /// The process of the phase under way.
    pub(crate) job: Option<JobId>,
    /// When the phase is tried again.
    pub(crate) retry_at: Option<Instant>,
    /// When the phase under way began, its first try.
    pub(crate) phase_began: Option<Instant>,
    /// When the process under way was started.
    pub(crate) spawned: Instant,
    /// Deadline of the task in this round.
    pub(crate) due: Option<Instant>,
    pub(crate) ready: bool,
    pub(crate) last_step: Instant,
    /// Samples since the start of the phase.
    pub(crate) samples: u64,
    /// Most samples ever told.
    pub(crate) most_samples: u64,
    /// What the job itself says it has done.
    pub(crate) told_done: Option<u64>,
    pub(crate) loss: Option<f64>,
    pub(crate) first_loss: Option<f64>,
    pub(crate) last_loss: Option<f64>,
    pub(crate) restarts: u32,
    pub(crate) restarts_of_phase: u32,
    pub(crate) exit: Option<Exit>,
    /// Why the launcher ends the process under way.
    pub(crate) ending: Option<String>,
    /// The process under way said that it was done, and had to be ended.
    pub(crate) outstayed: bool,
    pub(crate) share: Share,
    /// Throughput between the last two progress events.
    pub(crate) rate: Option<f64>,
    pub(crate) reported: Reported,
    pub(crate) together: Together,
}

/// What the last progress event said.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reported {
    pub(crate) at: Option<Instant>,
    /// When the process became ready: what it has trained before its first event counts from then.
    pub(crate) since: Option<Instant>,
    pub(crate) samples: u64,
}

/// Samples and time while all tasks computed, from step to step.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Together {
    first: Option<Instant>,
    last: Option<Instant>,
    samples: u64,
    seconds: f64,
    earlier_samples: u64,
}

/// Samples per second; none where no time has passed.
pub(crate) fn rate(samples: u64, seconds: f64) -> Option<SamplesPerSec> {
    // No rate either where a clock of no resolution makes it infinite.
    SamplesPerSec::new(samples as f64 / seconds).ok()
}

/// How a process ended, as documents say it.
pub(crate) fn process_end(exit: Exit) -> ProcessEnd {
    match exit {
        Exit::Code(code) => ProcessEnd::Code(code),
        Exit::Signal(signal) => ProcessEnd::Signal(signal),
    }
}

impl Together {
    /// Counts a step that was made while all tasks computed.
    pub(crate) fn step(&mut self, at: Instant, samples: u64) {
        if self.first.is_none() {
            self.first = Some(at);
        } else {
            self.samples = self.samples.saturating_add(samples);
        }
        self.last = Some(at);
    }

    /// A task has gone: what was counted is kept.
    pub(crate) fn close(&mut self) {
        if let (Some(first), Some(last)) = (self.first.take(), self.last.take()) {
            self.seconds += last.duration_since(first).as_secs_f64();
            self.earlier_samples = self.earlier_samples.saturating_add(self.samples);
        }
        self.samples = 0;
    }

    /// Samples per second.
    pub(crate) fn rate(&self) -> Option<SamplesPerSec> {
        rate(self.earlier_samples, self.seconds)
    }
}

impl TaskRun {
    pub(crate) fn new(now: Instant, share: Share, total: Option<Duration>) -> Self {
        Self {
            stage: Stage::WaitDownload,
            job: None,
            retry_at: None,
            phase_began: None,
            spawned: now,
            due: total.map(|t| now + t),
            ready: false,
            last_step: now,
            samples: 0,
            most_samples: 0,
            told_done: None,
            loss: None,
            first_loss: None,
            last_loss: None,
            restarts: 0,
            restarts_of_phase: 0,
            exit: None,
            ending: None,
            outstayed: false,
            share,
            rate: None,
            reported: Reported {
                at: None,
                since: None,
                samples: 0,
            },
            together: Together::default(),
        }
    }

    /// The phase under way.
    pub(crate) fn phase(&self) -> Option<PhaseKind> {
        match self.stage {
            Stage::Downloading => Some(PhaseKind::Download),
            Stage::Computing => Some(PhaseKind::Compute),
            Stage::Uploading => Some(PhaseKind::Upload),
            _ => None,
        }
    }

    /// What it does, in a word. A job that is `silent` tells nothing, so it trains from its start.
    pub(crate) fn state(&self, silent: bool) -> &'static str {
        match self.stage {
            Stage::Downloading | Stage::Computing | Stage::Uploading if self.job.is_none() => {
                "restarting"
            }
            Stage::WaitDownload | Stage::WaitCompute | Stage::WaitUpload => "waiting",
            Stage::Downloading => "downloading",
            Stage::Computing if !self.ready && !silent => "starting",
            Stage::Computing => "training",
            Stage::Uploading => "uploading",
            Stage::Done => "done",
            Stage::Failed => "failed",
        }
    }

    /// Whether it computes and has said that it is warm.
    pub(crate) fn is_training(&self) -> bool {
        self.stage == Stage::Computing && self.ready && self.job.is_some()
    }

    /// A new process of the phase under way.
    pub(crate) fn begin(&mut self, job: JobId, now: Instant) {
        self.job = Some(job);
        self.retry_at = None;
        self.spawned = now;
        self.last_step = now;
        self.ready = false;
        self.told_done = None;
        self.ending = None;
        self.outstayed = false;
        self.reported.at = None;
        self.reported.since = None;
    }

    /// Moves deadlines by a pause in which nobody looked.
    pub(crate) fn postpone(&mut self, pause: Duration, now: Instant) {
        self.spawned = (self.spawned + pause).min(now);
        self.last_step = (self.last_step + pause).min(now);
        self.due = self.due.map(|due| due + pause);
    }

    pub(crate) fn step(&mut self, at: Instant, samples: u64, loss: Option<f64>) {
        self.samples = self.samples.saturating_add(samples);
        self.most_samples = self.most_samples.max(self.samples);
        self.last_step = at;
        self.loss = loss.or(self.loss);
    }

    pub(crate) fn summary(&self, id: &TaskId, predicted: Option<SamplesPerSec>) -> TaskSummary {
        TaskSummary {
            id: id.clone(),
            finished: self.stage == Stage::Done,
            samples: self.most_samples,
            rate: self.together.rate(),
            predicted,
            first_loss: self.first_loss,
            last_loss: self.last_loss,
            restarts: self.restarts,
            end: self.exit.map(process_end),
        }
    }
}
