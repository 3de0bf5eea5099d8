//! One round: ordered transfers, concurrent compute, and supervision of every job.
//!
//! A round is a policy of [`runner`]: it decides what may start, and is independent of the kind of host and its clock.
//! On the simulator the same code runs the same round in virtual time.

mod begin;
mod job_events;

use std::path::Path;
use std::time::Instant;

use doc::{EventPayload, Hold, PhaseKind, TaskSummary};
use host::Regrants;
use jobs::as_seconds;
use overlap::{Order, Transfer, divided};
use runner::{Row, Runner};
use units::{SamplesPerSec, Seconds, Share, TaskId};

use crate::launch::{Assignment, Launch};
use crate::settings::LaunchSettings;
use crate::task::TaskRun;
use crate::turns::{Stage, is_held, may_begin};

/// Result of a round.
pub(crate) struct RoundOutcome {
    /// Whether every task finished.
    pub(crate) ok: bool,
    /// One for each task.
    pub(crate) tasks: Vec<TaskSummary>,
}

/// What stays the same during a round.
pub(crate) struct Context<'r> {
    pub(crate) launch: &'r Launch,
    pub(crate) settings: &'r LaunchSettings,
    /// Processors of each task.
    pub(crate) cpus: &'r [Vec<usize>],
    /// Folder of logs.
    pub(crate) logs: &'r Path,
}

/// A round in progress: the policy that follows a plan or a timeline.
pub(crate) struct RoundRun<'r> {
    with: Context<'r>,
    tasks: Vec<TaskRun>,
    order: Order,
    holds: Vec<Hold>,
    number: u32,
    begun: Instant,
    /// End of the last phase, from the start of the round.
    last_end: Seconds,
    /// Time since which all tasks train.
    opened: Option<Instant>,
}

/// Identifies a process in a round by the index of its task, which has one process at a time.
pub(crate) type Key = usize;

/// The runner of a round.
type Run<'a> = Runner<'a, Key>;

/// Holds of a round. With `--no-overlap` all downloads come first and all uploads last, so a phase that is held by a
/// later kind of phase would wait for ever; such holds are dropped.
fn holds_of(with: &Context<'_>) -> Vec<Hold> {
    let mut holds = with.launch.holds();
    if with.settings.no_overlap {
        holds.retain(|h| h.end_of <= h.phase);
    }
    holds
}

impl<'r> RoundRun<'r> {
    pub(crate) fn new(with: Context<'r>, number: u32, begun: Instant) -> Self {
        let total = with.settings.total;
        let no_progress = with.settings.no_progress;
        let tasks = with
            .launch
            .assignments()
            .map(|task| TaskRun::new(begun, task.share, total, no_progress || task.is_silent()))
            .collect();
        Self {
            tasks,
            order: with.launch.order(),
            holds: holds_of(&with),
            number,
            begun,
            last_end: Seconds::ZERO,
            opened: None,
            with,
        }
    }

    /// The event at the end of the round, and its result.
    pub(crate) fn outcome(self) -> (EventPayload, RoundOutcome) {
        let ok = self.tasks.iter().all(|t| t.stage == Stage::Done);
        let tasks = self.summaries();
        let event = EventPayload::Round {
            round: self.number,
            ok,
            makespan: self.last_end,
            planned_makespan: self.with.launch.timeline.as_ref().map(|t| t.makespan),
            tasks: tasks.clone(),
            learning: None,
        };
        (event, RoundOutcome { ok, tasks })
    }

    fn rows(&self) -> Vec<Row> {
        let row = |(task, planned): (&TaskRun, Assignment<'_>)| Row {
            task: planned.planned.id.to_string(),
            state: task.state(),
            share: task.share.percent(),
            batch: planned.batch.get(),
            samples: (!task.silent).then_some(task.samples),
            wanted: planned.samples(),
            rate: task.rate.filter(|_| task.stage == Stage::Computing),
            predicted: planned.predicted.map(SamplesPerSec::get),
            loss: task.loss,
            restarts: task.restarts,
        };
        let planned = self.with.launch.assignments();
        self.tasks.iter().zip(planned).map(row).collect()
    }

    fn summaries(&self) -> Vec<TaskSummary> {
        let planned = self.with.launch.assignments();
        self.tasks
            .iter()
            .zip(planned)
            .map(|(task, planned)| task.summary(&planned))
            .collect()
    }

    fn start_what_may(&mut self, run: &mut Run<'_>) {
        if run.is_stopping() || run.is_faulted() {
            return;
        }
        let now = run.now();
        for i in 0..self.tasks.len() {
            if self.tasks[i].retry_at.is_some_and(|at| at <= now) {
                self.start(run, i);
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
                self.begin_phase(run, i, stage);
                begun = true;
            }
            let all_down = stages.iter().all(|s| *s > Stage::Downloading);
            for (i, stage) in stages.iter().enumerate() {
                let gate = !self.with.settings.no_overlap || all_down;
                let waits = *stage == Stage::WaitCompute;
                if waits && gate && !is_held(&self.holds, i, PhaseKind::Compute, &stages) {
                    self.begin_phase(run, i, Stage::Computing);
                    computing.push(self.name(i));
                    begun = true;
                }
            }
            // A phase without a program ends at once, after which another phase may begin.
            if !begun {
                break;
            }
        }
        if !computing.is_empty() {
            self.reshare(run, &format!("begun: {}", computing.join(", ")));
        }
    }

    /// The transfers that are not held; with `--no-overlap`, no upload begins before all tasks have computed.
    fn permitted(&self, transfers: Vec<Transfer>, stages: &[Stage]) -> Vec<Transfer> {
        let computed = stages.iter().all(|s| *s > Stage::Computing);
        transfers
            .into_iter()
            .filter(|t| match *t {
                Transfer::Download(i) => !is_held(&self.holds, i, PhaseKind::Download, stages),
                Transfer::Upload(i) => {
                    (computed || !self.with.settings.no_overlap)
                        && !is_held(&self.holds, i, PhaseKind::Upload, stages)
                }
            })
            .collect()
    }

    /// Ends the current phase of a task.
    fn end_phase(&mut self, run: &mut Run<'_>, i: usize, reason: Option<String>) {
        let now = run.now();
        let (Some(kind), Some(began)) = (self.tasks[i].phase(), self.tasks[i].phase_began) else {
            return;
        };
        let end = as_seconds(now.duration_since(self.begun));
        run.tell(EventPayload::Phase {
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
        task.runs = false;
        task.retry_at = None;
        task.stage = match (reason, kind) {
            (Some(_), _) => Stage::Failed,
            (None, PhaseKind::Download) => Stage::WaitCompute,
            (None, PhaseKind::Compute) => Stage::WaitUpload,
            (None, PhaseKind::Upload) => Stage::Done,
        };
        if kind == PhaseKind::Compute || task.stage == Stage::Failed {
            self.reshare(run, &format!("ended: {}", self.name(i)));
        }
    }

    /// Divides the shares among the tasks that compute now, if the device supports it.
    fn reshare(&mut self, run: &mut Run<'_>, why: &str) {
        let fixed = run.regrants() == Regrants::NextStart;
        if self.with.settings.keep_shares || fixed || run.is_stopping() {
            return;
        }
        let planned: Vec<Share> = self.with.launch.assignments().map(|t| t.share).collect();
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
            // A job that is not ready yet gets its share when it becomes ready.
            if self.tasks[i].runs
                && let Err(error) = run.regrant(i, share)
            {
                reason = format!("{reason}, but the share could not be changed: {error}");
            }
            run.tell(EventPayload::Reshare {
                round: self.number,
                task: self.id(i),
                share: Some(share),
                gpus: None,
                expected_end: None,
                reason,
            });
        }
    }

    fn name(&self, i: usize) -> String {
        self.id(i).to_string()
    }

    fn id(&self, i: usize) -> TaskId {
        self.with.launch.plan.tasks[i].id.clone()
    }
}
