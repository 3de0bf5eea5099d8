//! One task in one round.

use std::time::{Duration, Instant};

use doc::{PhaseKind, TaskProgress, TaskSummary};
use efficiency::Moments;
use jobs::{Exit, as_seconds};
use runner::process_end;
use units::{SamplesPerSec, Share};

use crate::launch::Assignment;
use crate::turns::Stage;

/// State of a task in the current round.
#[derive(Debug)]
pub(crate) struct TaskRun {
    pub(crate) stage: Stage,
    /// Whether a process of the current phase runs.
    pub(crate) runs: bool,
    /// When the phase is tried again.
    pub(crate) retry_at: Option<Instant>,
    /// Start of the first attempt at the current phase.
    pub(crate) phase_began: Option<Instant>,
    /// Deadline of the task in this round.
    pub(crate) due: Option<Instant>,
    /// Whether its job reports no progress. Such a job counts as training from its start, and its exit status says
    /// whether its work is done.
    pub(crate) silent: bool,
    pub(crate) ready: bool,
    /// Time at which the last step was read.
    stepped: Instant,
    /// Number of processes that were started for the compute phase.
    pub(crate) starts: u32,
    /// Samples since the start of the phase.
    pub(crate) samples: u64,
    /// Highest number of samples reported so far.
    pub(crate) most_samples: u64,
    /// Samples according to the job's own report that it is done.
    pub(crate) told_done: Option<u64>,
    pub(crate) loss: Option<f64>,
    /// Gradient norms of all steps that reported them.
    gradient: Moments,
    pub(crate) restarts: u32,
    pub(crate) restarts_of_phase: u32,
    pub(crate) exit: Option<Exit>,
    /// A signal ended the round, or its reader went away, before this task had ended.
    pub(crate) interrupted: bool,
    pub(crate) share: Share,
    /// Throughput between the last two progress events.
    pub(crate) rate: Option<f64>,
    pub(crate) reported: Reported,
    /// Number of progress events that did not fit into the reader's queue.
    dropped: u64,
}

/// Progress of a task as far as events have reported it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Reported {
    /// Last step of the current process that was included in a progress event, even if the event was dropped.
    pub(crate) at: Option<Instant>,
    /// Time of that step, or when the process became ready.
    until: Option<Instant>,
    /// Time of that report. Absent if the events do not define the number of samples at the start of the interval, that
    /// is, before the first progress of a restarted process, which may or may not continue from a checkpoint.
    told: Option<Instant>,
    pub(crate) samples: u64,
    /// Sum over processes of the time from ready to the last reported step.
    trained: Duration,
    /// Whether any progress was reported.
    any: bool,
    together: Together,
    first_loss: Option<f64>,
    last_loss: Option<f64>,
    gradient: Moments,
    /// Number of progress events since then that did not fit into the reader's queue.
    dropped: u64,
}

/// Samples and time of the intervals between reports in which all tasks trained.
#[derive(Debug, Clone, Copy, Default)]
struct Together {
    samples: u64,
    time: Duration,
}

/// Samples per second; `None` if no time has passed.
pub(crate) fn rate(samples: u64, seconds: f64) -> Option<SamplesPerSec> {
    // Also `None` if a coarse clock makes the rate infinite.
    SamplesPerSec::new(samples as f64 / seconds).ok()
}

impl TaskRun {
    pub(crate) fn new(now: Instant, share: Share, total: Option<Duration>, silent: bool) -> Self {
        Self {
            stage: Stage::WaitDownload,
            runs: false,
            retry_at: None,
            phase_began: None,
            due: total.map(|t| now + t),
            silent,
            ready: false,
            stepped: now,
            starts: 0,
            samples: 0,
            most_samples: 0,
            told_done: None,
            loss: None,
            gradient: Moments::default(),
            restarts: 0,
            restarts_of_phase: 0,
            exit: None,
            interrupted: false,
            share,
            rate: None,
            reported: Reported::default(),
            dropped: 0,
        }
    }

    /// The current phase.
    pub(crate) fn phase(&self) -> Option<PhaseKind> {
        match self.stage {
            Stage::Downloading => Some(PhaseKind::Download),
            Stage::Computing => Some(PhaseKind::Compute),
            Stage::Uploading => Some(PhaseKind::Upload),
            _ => None,
        }
    }

    /// Name of its state, one word.
    pub(crate) fn state(&self) -> &'static str {
        match self.stage {
            Stage::Done => "done",
            _ if self.interrupted => "interrupted",
            Stage::Downloading | Stage::Computing | Stage::Uploading if !self.runs => "restarting",
            Stage::WaitDownload | Stage::WaitCompute | Stage::WaitUpload => "waiting",
            Stage::Downloading => "downloading",
            Stage::Computing if !self.ready && !self.silent => "starting",
            Stage::Computing => "training",
            Stage::Uploading => "uploading",
            Stage::Failed => "failed",
        }
    }

    /// Whether it computes and has reported that it is warm.
    pub(crate) fn is_training(&self) -> bool {
        self.stage == Stage::Computing && self.ready && self.runs
    }

    /// Resets the state for a new process of the current phase.
    pub(crate) fn begin(&mut self) {
        self.runs = true;
        self.retry_at = None;
        self.ready = false;
        self.told_done = None;
        self.reported.at = None;
        self.reported.until = None;
        self.reported.told = None;
    }

    /// The current process has been warm since `at`, which is reported `now`.
    pub(crate) fn warm(&mut self, at: Instant, now: Instant) {
        self.ready = true;
        self.stepped = at;
        self.reported.until = Some(at);
        self.reported.told = Some(now).filter(|_| self.starts == 1);
    }

    /// Adds gradient norms of reported steps.
    pub(crate) fn gradients(&mut self, gradient: &Moments) {
        self.gradient.merge(gradient);
    }

    pub(crate) fn step(&mut self, at: Instant, samples: u64, loss: Option<f64>) {
        self.samples = self.samples.saturating_add(samples);
        self.most_samples = self.most_samples.max(self.samples);
        self.stepped = at;
        self.loss = loss.or(self.loss);
    }

    /// Whether none of its progress has been reported since all tasks began to train together.
    pub(crate) fn is_untold(&self, opened: Option<Instant>) -> bool {
        opened.is_some_and(|opened| self.reported.told.is_none_or(|told| told < opened))
    }

    /// Records its progress since the last report, at time `now`; `opened` is when all tasks began to train together.
    /// None if there is no progress.
    pub(crate) fn tell(&mut self, now: Instant, opened: Option<Instant>) -> Option<TaskProgress> {
        let new = self.samples.checked_sub(self.reported.samples)?;
        if self.stage != Stage::Computing || new == 0 {
            return None;
        }
        let until = self.reported.until.unwrap_or(self.stepped);
        let time = self.stepped.saturating_duration_since(until);
        // A job that never reports that it is ready counts as ready with its first step. The duration of that step is
        // unknown, so neither it nor the steps read together with it give a rate.
        let rate = rate(new, time.as_secs_f64());
        let mut together = self.reported.together;
        if rate.is_some() && opened.is_some() && !self.is_untold(opened) {
            together.samples = together.samples.saturating_add(new);
            together.time += time;
        }
        let dropped = self.reported.dropped;
        let gradient = self.gradient.since(&self.reported.gradient).to_document();
        self.rate = rate.map(SamplesPerSec::get).or(self.rate);
        self.reported = Reported {
            at: Some(self.stepped),
            until: Some(self.stepped),
            told: Some(now),
            samples: self.samples,
            trained: self.reported.trained + time,
            any: true,
            together,
            first_loss: self.reported.first_loss.or(self.loss),
            last_loss: self.loss.or(self.reported.last_loss),
            gradient: self.gradient,
            dropped: 0,
        };
        Some(TaskProgress {
            samples: self.samples,
            rate,
            loss: self.loss,
            trained: Some(as_seconds(self.reported.trained)),
            gradient,
            dropped,
            ..TaskProgress::default()
        })
    }

    /// Undoes a report of [`TaskRun::tell`] that was dropped; `before` is the state before it. The next report includes
    /// its progress, and comes no earlier than it would have.
    pub(crate) fn not_told(&mut self, before: Reported) {
        self.reported = Reported {
            at: self.reported.at,
            dropped: before.dropped + 1,
            ..before
        };
        self.dropped += 1;
    }

    /// Its outcome according to the events.
    pub(crate) fn summary(&self, planned: &Assignment<'_>) -> TaskSummary {
        let Reported {
            trained, together, ..
        } = self.reported;
        let all = rate(self.most_samples, trained.as_secs_f64());
        let rate_together = rate(together.samples, together.time.as_secs_f64());
        TaskSummary {
            finished: self.stage == Stage::Done,
            interrupted: self.interrupted && self.stage != Stage::Done,
            samples: self.most_samples,
            batch: Some(planned.batch),
            share: Some(planned.share),
            trained: self.reported.any.then(|| as_seconds(trained)),
            together: rate_together.map(|_| as_seconds(together.time)),
            rate: rate_together.or(all),
            predicted: planned.predicted,
            first_loss: self.reported.first_loss,
            last_loss: self.reported.last_loss,
            restarts: self.restarts,
            dropped: self.dropped,
            end: self.exit.map(process_end),
            ..TaskSummary::new(planned.planned.id.clone())
        }
    }
}

#[cfg(test)]
mod tests;
