//! One training under the launcher.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use doc::{Arrival, Expected, TaskSummary, TrainingBatch};
use efficiency::Moments;
use jobs::{Exit, Steps, as_seconds};
use runner::{Ended, process_end};
use units::Batch;

use crate::task::rate;

/// State of a training.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// No process of it runs.
    Waiting,
    /// Its processes were started.
    Starting,
    /// It is ready.
    Training,
    /// It was asked to stop.
    Stopping,
    /// It is done, was removed, or was given up.
    Ended,
}

/// The part of a decision that concerns one training.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Allotment {
    pub(super) gpus: u32,
    pub(super) batches: Vec<Batch>,
    pub(super) expected: Option<Expected>,
}

/// The reason why it is being ended for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leaving {
    /// Its target is reached.
    Reached,
    /// It was removed, or the launch ends.
    Away,
}

/// Identifies a process of an elastic launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    /// Its training.
    pub(super) member: usize,
    /// Number of the start of its training.
    pub(super) start: u32,
    /// Its rank among the processes of that start.
    pub(super) rank: usize,
}

/// A process of a training.
#[derive(Debug)]
pub(super) struct Rank {
    pub(super) key: Key,
    pub(super) exit: Option<Exit>,
}

/// Processes that were started for an allocation while their predecessors still train. They do all start-up work that
/// does not depend on the checkpoint, and then wait for `run`.
#[derive(Debug)]
pub(super) struct Standby {
    /// GPUs that they will get, and that may still be in use.
    pub(super) gpus: Vec<usize>,
    /// Samples per step with these processes.
    pub(super) batch: u64,
    pub(super) ranks: Vec<Rank>,
    pub(super) loaded: bool,
}

/// A training.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) arrival: Arrival,
    /// Its index in the workload.
    pub(super) task: usize,
    pub(super) stage: Stage,
    /// Its part of the last decision.
    pub(super) wanted: Option<Allotment>,
    /// Number of GPUs with which it last became ready.
    pub(super) worked_on: Option<u32>,
    pub(super) leaving: Option<Leaving>,
    /// GPUs that it uses, by number.
    pub(super) gpus: Vec<usize>,
    /// Samples per step with the current processes.
    pub(super) batch: u64,
    pub(super) ranks: Vec<Rank>,
    /// The successor of these processes, to be started when its GPUs are free.
    pub(super) next: Option<Standby>,
    /// Whether its program has turned out not to support standby.
    pub(super) cold: bool,
    /// Starts of its processes so far.
    pub(super) starts: u32,
    /// When the current stage began.
    pub(super) since: Instant,
    /// When its process was asked to stop for a reconfiguration.
    pub(super) paused_at: Option<Instant>,
    pub(super) retry_at: Option<Instant>,
    pub(super) arrived: Instant,
    /// Whether rank 0 of the current processes has reported that it is parked, or done.
    pub(super) parked: bool,
    pub(super) done: bool,
    /// Why its processes are being ended, if that is a failure.
    pub(super) fault: Option<String>,
    /// Descriptions of processes that its processes had left behind.
    pub(super) strays: Vec<String>,
    /// Number of consecutive failures.
    pub(super) failures: u32,
    pub(super) finished: bool,
    /// A signal ended the launch, or its reader went away, before this training had ended.
    pub(super) interrupted: bool,
    pub(super) progress: Counters,
}

/// Its progress.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) step: u64,
    pub(super) samples: u64,
    /// Number of steps of the current processes.
    pub(super) steps_since_ready: u64,
    pub(super) last_step: Option<Instant>,
    /// Duration of the longest step of the current processes.
    pub(super) longest: Duration,
    pub(super) trained: Duration,
    /// Value of `trained` at the last progress event.
    pub(super) told: Option<Duration>,
    pub(super) loss: Option<f64>,
    pub(super) first_loss: Option<f64>,
    /// Gradient norms of the steps since the last progress event.
    pub(super) gradient: Moments,
    recent: VecDeque<f64>,
    pub(super) reported_at: Option<Instant>,
    /// Time of the last step at the last attempt to report.
    pub(super) tried_at: Option<Instant>,
    /// Number of progress events that did not fit into the reader's queue: since the last one that did, and in total.
    pub(super) dropped: (u64, u64),
    pub(super) reported_samples: u64,
    pub(super) rate: Option<f64>,
    pub(super) restarts: u32,
    pub(super) exit: Option<Exit>,
}

/// Number of steps that a training may make after the request to stop: the current one, one more if another process got
/// the request a moment later, and the same again for the checkpoint and for increasing load.
const STEPS_TO_SAVE: u32 = 4;

/// Number of reports whose mean loss is compared with the target, as in the paper of Wei and Shudo.
const REPORTS: usize = 10;

impl Counters {
    /// Records the result of a progress event. `last_step`: time of the last step in it; `told`: whether the reader's
    /// queue had room for it.
    pub(super) fn was_told(&mut self, last_step: Instant, told: bool) {
        if !told {
            self.dropped = (self.dropped.0 + 1, self.dropped.1 + 1);
            return;
        }
        self.dropped.0 = 0;
        self.gradient = Moments::default();
        self.reported_at = Some(last_step);
        self.told = Some(self.trained);
        self.reported_samples = self.samples;
        self.first_loss = self.first_loss.or(self.loss);
    }
}

impl Member {
    pub(super) fn new(arrival: Arrival, task: usize, now: Instant) -> Self {
        Self {
            arrival,
            task,
            stage: Stage::Waiting,
            wanted: None,
            worked_on: None,
            leaving: None,
            gpus: Vec::new(),
            batch: 0,
            ranks: Vec::new(),
            next: None,
            cold: false,
            starts: 0,
            since: now,
            paused_at: None,
            retry_at: None,
            arrived: now,
            parked: false,
            done: false,
            fault: None,
            strays: Vec::new(),
            failures: 0,
            finished: false,
            interrupted: false,
            progress: Counters::default(),
        }
    }

    /// Whether any of its processes run.
    pub(super) fn runs(&self) -> bool {
        matches!(
            self.stage,
            Stage::Starting | Stage::Training | Stage::Stopping
        )
    }

    /// Whether a reconfiguration of it is in progress: it has not made its first step yet, or is stopping.
    pub(super) fn is_moving(&self) -> bool {
        if self.next.is_some() {
            return true;
        }
        match self.stage {
            Stage::Starting | Stage::Stopping => true,
            Stage::Training => self.progress.steps_since_ready == 0,
            Stage::Waiting | Stage::Ended => false,
        }
    }

    /// Number of GPUs according to the last decision.
    pub(super) fn wanted_gpus(&self) -> u32 {
        match self.leaving {
            Some(_) => 0,
            None => self.wanted.as_ref().map_or(0, |w| w.gpus),
        }
    }

    /// Time for its processes to save a checkpoint after the request to stop for a reconfiguration. They notice the
    /// request between two steps, and on a loaded machine a step may take seconds. A fixed time could kill them before
    /// they have saved, and the steps since the last checkpoint would be trained and reported twice.
    pub(super) fn time_to_save(&self, grace: Duration) -> Duration {
        grace + STEPS_TO_SAVE * self.progress.longest
    }

    /// Records steps.
    pub(super) fn stepped(&mut self, at: Instant, steps: &Steps) {
        let p = &mut self.progress;
        p.step = p.step.saturating_add(steps.steps);
        p.samples = p.samples.saturating_add(steps.samples);
        p.steps_since_ready = p.steps_since_ready.saturating_add(steps.steps);
        p.gradient.merge(&steps.gradient);
        let before = p.last_step.unwrap_or(at);
        let took = at.saturating_duration_since(before);
        p.trained += took;
        // The line may contain several steps.
        p.longest = p
            .longest
            .max(took / u32::try_from(steps.steps).unwrap_or(u32::MAX).max(1));
        p.last_step = Some(at);
        if let Some(loss) = steps.loss {
            p.loss = Some(loss);
            p.recent.push_back(loss);
            if p.recent.len() > REPORTS {
                p.recent.pop_front();
            }
        }
        if p.steps_since_ready > 0 {
            self.failures = 0;
        }
    }

    /// Takes the number of the last step from a job that counts its steps. So steps that it repeats after an older
    /// checkpoint do not count twice.
    pub(super) fn is_at(&mut self, step: u64) {
        let p = &mut self.progress;
        if step != p.step && p.step > 0 {
            let each = p.samples as f64 / p.step as f64;
            p.samples = (each * step as f64).round() as u64;
        }
        p.step = step;
    }

    /// Whether it has reached its goal.
    pub(super) fn has_reached(&self) -> bool {
        let p = &self.progress;
        let steps = self.arrival.total_steps.is_some_and(|n| p.step >= n);
        let samples = self
            .arrival
            .total_samples
            .is_some_and(|n| p.samples >= n.get());
        let loss = self.arrival.target_loss.is_some_and(|target| {
            p.recent.len() == REPORTS && p.recent.iter().sum::<f64>() / REPORTS as f64 <= target
        });
        steps || samples || loss
    }

    /// Batch size of every process on `gpus` GPUs: from the decision, or an even split.
    pub(super) fn batches(&self, gpus: u32, smallest: Option<Batch>) -> Vec<u64> {
        if let Some(wanted) = &self.wanted
            && wanted.batches.len() == gpus as usize
        {
            return wanted.batches.iter().map(|b| u64::from(b.get())).collect();
        }
        let global = match self.arrival.training_batch() {
            Some(TrainingBatch::PerGpu(each)) => {
                return vec![u64::from(each.get()); gpus as usize];
            }
            Some(TrainingBatch::Global(batch)) => Some(batch),
            None => smallest,
        };
        let split = global.and_then(|batch| learning::split_batch(batch, gpus));
        split
            .unwrap_or_default()
            .iter()
            .map(|b| u64::from(b.get()))
            .collect()
    }

    /// Number of samples after which its program may end by itself, if known.
    pub(super) fn samples(&self, batch: u64) -> Option<u64> {
        let steps = match self.arrival.training_batch() {
            Some(TrainingBatch::PerGpu(_)) => None,
            _ => self
                .arrival
                .total_steps
                .map(|steps| steps.saturating_mul(batch)),
        };
        let samples = self.arrival.total_samples.map(units::Samples::get);
        steps.into_iter().chain(samples).min()
    }

    pub(super) fn summary(&self) -> TaskSummary {
        let p = &self.progress;
        TaskSummary {
            finished: self.finished,
            interrupted: self.interrupted && !self.finished,
            samples: p.samples,
            trained: p.told.map(as_seconds),
            rate: p.told.and_then(|told| rate(p.samples, told.as_secs_f64())),
            first_loss: p.first_loss,
            last_loss: p.loss.filter(|_| p.first_loss.is_some()),
            restarts: p.restarts,
            dropped: p.dropped.1,
            end: p.exit.map(process_end),
            ..TaskSummary::new(self.arrival.task.clone())
        }
    }

    /// Whether its program may end by itself with exit code 0, as scripts without the worker protocol do. A training
    /// that reports steps has ended too early if it made fewer than declared.
    pub(super) fn may_end(&self, takes_orders: bool) -> bool {
        let runs = matches!(self.stage, Stage::Starting | Stage::Training);
        let silent = self.progress.step == 0 && !takes_orders;
        let declared = self.arrival.total_steps.is_some() || self.arrival.total_samples.is_some();
        let free = !declared && self.arrival.target_loss.is_none() && !takes_orders;
        runs && self.fault.is_none() && (silent || free || self.has_reached())
    }

    /// Name of its state, one word.
    pub(super) fn state(&self) -> &'static str {
        match self.stage {
            Stage::Waiting if self.retry_at.is_some() => "restarting",
            Stage::Waiting => "waiting",
            Stage::Starting => "starting",
            Stage::Training => "training",
            Stage::Stopping => "stopping",
            Stage::Ended if self.finished => "done",
            Stage::Ended if self.interrupted => "interrupted",
            Stage::Ended => "failed",
        }
    }
}

/// A message why a process has ended.
pub(super) fn why_ended(rank: usize, ended: &Ended) -> String {
    if let Some(why) = ended.cause() {
        return why.to_owned();
    }
    let last = ended.last_line();
    let said = if last.is_empty() { "" } else { ": " };
    format!(
        "process {rank} ended by {}{said}{last}",
        process_end(ended.exit)
    )
}
