//! One round: transfers in their turn, compute beside them, every process looked after.

mod begin;
mod happen;

use std::time::{Duration, Instant};

use doc::{EventPayload, PhaseKind, TaskSummary};
use jobs::JobId;
use overlap::{Order, Transfer, divided};
use units::{SamplesPerSec, Seconds, Share, TaskId};

use super::Live;
use super::task::TaskRun;
use super::turns::{Stage, may_begin};
use crate::journal::as_seconds;
use crate::launch::Assignment;
use crate::status::Row;

/// How often deadlines and signals are looked at.
const LOOK: Duration = Duration::from_millis(100);

/// How long a server may take to recover from a fault.
const RECOVERY: Duration = Duration::from_secs(30);

/// A turn of the loop takes [`LOOK`] and the work of a moment. One that took longer than this was
/// none: this process was stopped (Ctrl-Z, SIGSTOP), or the machine slept.
const LONGEST_TURN: Duration = Duration::from_secs(1);

/// What became of a round.
pub(super) struct Outcome {
    /// Whether every task finished.
    pub(super) ok: bool,
    /// One for each task.
    pub(super) tasks: Vec<TaskSummary>,
}

/// A round under way.
pub(super) struct Round<'r, 'a> {
    live: &'r mut Live<'a>,
    tasks: Vec<TaskRun>,
    order: Order,
    number: u32,
    begun: Instant,
    /// When the last turn of the loop began.
    turned: Instant,
    /// End of the last phase, from the start of the round.
    last_end: Seconds,
    /// No new process is started any more.
    stopping: bool,
    /// The device has had a fault and is not good yet.
    faulted: bool,
    /// When a server that has not recovered from the fault by itself is replaced.
    recovery_ends: Option<Instant>,
    /// Signals that have been acted on.
    signals: u32,
}

impl<'r, 'a> Round<'r, 'a> {
    pub(super) fn new(live: &'r mut Live<'a>, number: u32) -> Self {
        let begun = Instant::now();
        let total = live.settings.total;
        let tasks = live
            .launch
            .assignments()
            .map(|task| TaskRun::new(begun, task.share, total))
            .collect();
        Self {
            tasks,
            order: live.launch.order(),
            number,
            begun,
            turned: begun,
            last_end: Seconds::ZERO,
            stopping: false,
            faulted: false,
            recovery_ends: None,
            signals: 0,
            live,
        }
    }

    /// Plays the round to its end.
    pub(super) fn play(mut self) -> Outcome {
        loop {
            self.heed_signals();
            self.start_what_may();
            if self.is_over() {
                break;
            }
            let events = self.live.supervisor.poll(self.patience());
            for event in events {
                self.happened(&event);
            }
            self.judge();
            self.report_progress(false);
            self.show(false);
            if self.live.journal.is_closed() {
                self.stop("the reader of the events has gone");
            }
        }
        self.show(true);
        let ok = self.tasks.iter().all(|t| t.stage == Stage::Done);
        let tasks = self.summaries();
        self.live.journal.write(EventPayload::Round {
            round: self.number,
            ok,
            makespan: self.last_end,
            planned_makespan: self.live.launch.timeline.as_ref().map(|t| t.makespan),
            tasks: tasks.clone(),
        });
        Outcome { ok, tasks }
    }

    /// Looks at deadlines, unless this process did not look at its jobs for a while: what they
    /// printed meanwhile is in their pipes and counts first, and the while counts for nobody.
    fn judge(&mut self) {
        let now = Instant::now();
        let turn = now.duration_since(self.turned);
        self.turned = now;
        if turn <= LONGEST_TURN {
            return self.look_at_deadlines();
        }
        for task in &mut self.tasks {
            task.postpone(turn, now);
        }
    }

    fn show(&mut self, last: bool) {
        if !self.live.is_due(last) {
            return;
        }
        let row = |(task, planned): (&TaskRun, Assignment<'_>)| Row {
            task: planned.planned.id.to_string(),
            state: task.state(),
            share: task.share.percent(),
            batch: planned.batch.get(),
            samples: task.samples,
            wanted: planned.samples(),
            rate: task.rate.filter(|_| task.stage == Stage::Computing),
            predicted: planned.predicted.map(SamplesPerSec::get),
            loss: task.loss,
            restarts: task.restarts,
        };
        let planned = self.live.launch.assignments();
        let rows: Vec<Row> = self.tasks.iter().zip(planned).map(row).collect();
        self.live.show(self.number, &rows);
    }

    fn summaries(&self) -> Vec<TaskSummary> {
        let planned = self.live.launch.assignments();
        self.tasks
            .iter()
            .zip(planned)
            .map(|(task, planned)| task.summary(&planned.planned.id, planned.predicted))
            .collect()
    }

    fn is_over(&self) -> bool {
        let done = self.stopping || self.tasks.iter().all(|t| t.stage.is_over());
        done && self.live.supervisor.running() == 0
    }

    /// Until the next thing that is due by the clock.
    fn patience(&self) -> Duration {
        let now = Instant::now();
        let retries = self.tasks.iter().filter_map(|t| t.retry_at);
        let retries = retries.filter(|_| !self.faulted);
        let next = retries.min().map(|at| at.saturating_duration_since(now));
        next.unwrap_or(LOOK).min(LOOK)
    }

    /// The first signal asks the jobs to end, the second kills them.
    fn heed_signals(&mut self) {
        let arrived = self.live.supervisor.arrived();
        if arrived.count == self.signals {
            return;
        }
        if self.live.signal.is_none() {
            self.live.signal = arrived.first;
            let reason = format!("signal {}", arrived.first.unwrap_or_default());
            self.stop(&reason);
        }
        if arrived.count > 1 {
            self.live.supervisor.stop_all(Duration::ZERO);
        }
        self.signals = arrived.count;
    }

    /// Ends every job and starts no other.
    fn stop(&mut self, reason: &str) {
        if self.stopping {
            return;
        }
        self.stopping = true;
        self.live.journal.write(EventPayload::Stop {
            round: Some(self.number),
            task: None,
            reason: reason.to_owned(),
        });
        for task in &self.tasks {
            if let Some(pid) = task.job.and_then(|j| self.live.supervisor.pid(j)) {
                self.live.enforcer.release(pid);
            }
        }
        let grace = self.live.settings.grace;
        self.live.supervisor.stop_all(grace);
    }

    fn start_what_may(&mut self) {
        self.recover();
        if self.stopping || self.faulted {
            return;
        }
        let now = Instant::now();
        for i in 0..self.tasks.len() {
            if self.tasks[i].retry_at.is_some_and(|at| at <= now) {
                self.spawn(i);
            }
        }
        let mut computing = Vec::new();
        loop {
            let stages: Vec<Stage> = self.tasks.iter().map(|t| t.stage).collect();
            let mut begun = false;
            for transfer in self.permitted(may_begin(&self.order, &stages), &stages) {
                let (i, stage) = match transfer {
                    Transfer::Download(i) => (i, Stage::Downloading),
                    Transfer::Upload(i) => (i, Stage::Uploading),
                };
                self.begin_phase(i, stage);
                begun = true;
            }
            let all_down = stages.iter().all(|s| *s > Stage::Downloading);
            for (i, stage) in stages.iter().enumerate() {
                let gate = !self.live.settings.no_overlap || all_down;
                if *stage == Stage::WaitCompute && gate {
                    self.begin_phase(i, Stage::Computing);
                    computing.push(self.name(i));
                    begun = true;
                }
            }
            // A phase without a program ends at once and may let the next begin.
            if !begun {
                break;
            }
        }
        if !computing.is_empty() {
            self.reshare(&format!("begun: {}", computing.join(", ")));
        }
    }

    /// With `--no-overlap` no upload begins while a task has not computed.
    fn permitted(&self, transfers: Vec<Transfer>, stages: &[Stage]) -> Vec<Transfer> {
        let computed = stages.iter().all(|s| *s > Stage::Computing);
        transfers
            .into_iter()
            .filter(|t| match t {
                Transfer::Download(_) => true,
                Transfer::Upload(_) => computed || !self.live.settings.no_overlap,
            })
            .collect()
    }

    /// Ends the phase under way of a task.
    fn end_phase(&mut self, i: usize, reason: Option<String>) {
        let now = Instant::now();
        let (Some(kind), Some(began)) = (self.tasks[i].phase(), self.tasks[i].phase_began) else {
            return;
        };
        let end = as_seconds(now.duration_since(self.begun));
        self.live.journal.write(EventPayload::Phase {
            round: self.number,
            task: self.id(i),
            phase: kind,
            start: as_seconds(began.duration_since(self.begun)),
            end,
            reason: reason.clone(),
        });
        if end > self.last_end {
            self.last_end = end;
        }
        let task = &mut self.tasks[i];
        task.phase_began = None;
        task.job = None;
        task.retry_at = None;
        task.stage = match (reason, kind) {
            (Some(_), _) => Stage::Failed,
            (None, PhaseKind::Download) => Stage::WaitCompute,
            (None, PhaseKind::Compute) => Stage::WaitUpload,
            (None, PhaseKind::Upload) => Stage::Done,
        };
        if kind == PhaseKind::Compute || task.stage == Stage::Failed {
            self.reshare(&format!("ended: {}", self.name(i)));
        }
    }

    /// Divides the shares among the tasks that compute now, where the device can.
    fn reshare(&mut self, why: &str) {
        if self.live.settings.keep_shares || !self.live.enforcer.is_live() || self.stopping {
            return;
        }
        let planned: Vec<Share> = self.live.launch.assignments().map(|t| t.share).collect();
        let computes: Vec<bool> = self
            .tasks
            .iter()
            .map(|t| t.stage == Stage::Computing)
            .collect();
        let shares = divided(&planned, &computes);
        for (i, share) in shares.into_iter().enumerate() {
            if !computes[i] || share == self.tasks[i].share {
                continue;
            }
            self.tasks[i].share = share;
            let mut reason = why.to_owned();
            // One that is not ready yet gets its share when it is.
            if self.tasks[i].ready {
                let id = self.live.launch.plan.tasks[i].id.clone();
                if let Err(error) = self.live.enforcer.reshare(&id, share) {
                    reason = format!("{reason}, but the share could not be changed: {error}");
                }
            }
            self.live.journal.write(EventPayload::Reshare {
                round: self.number,
                task: self.id(i),
                share: Some(share),
                reason,
            });
        }
    }

    fn name(&self, i: usize) -> String {
        self.live.launch.plan.tasks[i].id.to_string()
    }

    fn id(&self, i: usize) -> TaskId {
        self.live.launch.plan.tasks[i].id.clone()
    }

    fn task_of(&self, job: JobId) -> Option<usize> {
        self.tasks.iter().position(|t| t.job == Some(job))
    }
}
