//! One round: transfers in their order, compute beside them, every job supervised.
//!
//! A round runs on a [`Host`], by its clock, and reports events to a [`Sink`]. It does not know the
//! kind of either: on the simulator the same code runs the same round in virtual time.

mod begin;
mod job_events;

use std::path::Path;
use std::time::{Duration, Instant};

use doc::{EventPayload, Hold, PhaseKind, TaskSummary};
use host::{Host, Regrants};
use jobs::{JobId, Journal, as_seconds};
use overlap::{Order, Transfer, divided};
use units::{SamplesPerSec, Seconds, Share, TaskId};

use crate::launch::{Assignment, Launch};
use crate::settings::LaunchSettings;
use crate::sink::{Row, Sink};
use crate::task::TaskRun;
use crate::turns::{Stage, is_held, may_begin};

/// Why a launch ends when its reader has gone.
pub(crate) const READER_GONE: &str = "the reader of the events has gone";

/// Number and name of a signal.
pub(crate) fn signal_text(signal: i32) -> String {
    match nix::sys::signal::Signal::try_from(signal) {
        Ok(known) => format!("signal {signal} ({known})"),
        Err(_) => format!("signal {signal}"),
    }
}

/// A turn of the loop takes [`host::LOOK`] and a moment of work. If it took longer, this process was stopped (Ctrl-Z,
/// SIGSTOP), or the machine slept.
const LONGEST_TURN: Duration = Duration::from_secs(1);

/// Result of a round.
pub(crate) struct Outcome {
    /// Whether every task finished.
    pub(crate) ok: bool,
    /// One for each task.
    pub(crate) tasks: Vec<TaskSummary>,
    /// The signal that ended it.
    pub(crate) signal: Option<i32>,
    /// The device has had a fault from which it does not recover: no further round can be run.
    pub(crate) lost: bool,
}

/// Environment of a round.
pub(crate) struct Context<'r> {
    pub(crate) launch: &'r Launch,
    pub(crate) settings: &'r LaunchSettings,
    pub(crate) host: &'r mut dyn Host,
    pub(crate) sink: &'r mut dyn Sink,
    /// Processors of each task.
    pub(crate) cpus: &'r [Vec<usize>],
    /// Where logs are.
    pub(crate) logs: &'r Path,
    /// The events of the launch, by the host's clock.
    pub(crate) journal: Journal,
}

/// A round in progress.
pub(crate) struct RoundRun<'r> {
    with: Context<'r>,
    tasks: Vec<TaskRun>,
    order: Order,
    holds: Vec<Hold>,
    number: u32,
    begun: Instant,
    /// When the last turn of the loop began, on the clock of this machine.
    turned: Instant,
    /// End of the last phase, from the start of the round.
    last_end: Seconds,
    /// No new job is started any more.
    stopping: bool,
    /// Since when all tasks train.
    opened: Option<Instant>,
    /// The device has had a fault and has not recovered yet.
    faulted: bool,
    /// It will not recover.
    lost: bool,
    /// Number of signals that have been handled.
    signals: u32,
    /// The first of them.
    signal: Option<i32>,
}

/// Holds of a round. With `--no-overlap` all downloads come first and all uploads last, so a phase held by a later
/// kind of phase would wait for ever.
fn holds_of(with: &Context<'_>) -> Vec<Hold> {
    let mut holds = with.launch.holds();
    if with.settings.no_overlap {
        holds.retain(|h| h.end_of <= h.phase);
    }
    holds
}

impl<'r> RoundRun<'r> {
    pub(crate) fn new(with: Context<'r>, number: u32) -> Self {
        let begun = with.host.now();
        let (total, no_progress) = (with.settings.total, with.settings.no_progress);
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
            turned: Instant::now(),
            last_end: Seconds::ZERO,
            stopping: false,
            opened: None,
            faulted: false,
            lost: false,
            signals: 0,
            signal: None,
            with,
        }
    }

    /// Tells an event of now.
    fn tell(&mut self, payload: EventPayload) {
        let now = self.with.host.now();
        self.with.sink.event(&self.with.journal.event(now, payload));
    }

    /// Runs the round to its end.
    pub(crate) fn play(mut self) -> Outcome {
        loop {
            self.heed_signals();
            self.start_what_may();
            if self.is_over() {
                break;
            }
            let events = self.with.host.poll(self.next_deadline());
            for event in events {
                self.happened(&event);
            }
            self.judge();
            self.report_progress(false);
            self.show(false);
            if self.with.sink.is_closed() {
                self.interrupt(READER_GONE);
            }
        }
        self.show(true);
        let ok = self.tasks.iter().all(|t| t.stage == Stage::Done);
        let tasks = self.summaries();
        self.tell(EventPayload::Round {
            round: self.number,
            ok,
            makespan: self.last_end,
            planned_makespan: self.with.launch.timeline.as_ref().map(|t| t.makespan),
            tasks: tasks.clone(),
        });
        Outcome {
            ok,
            tasks,
            signal: self.signal,
            lost: self.lost,
        }
    }

    /// Checks deadlines, unless this process did not poll its jobs for a while: then output in their pipes must be
    /// read first, and that time counts for no job.
    fn judge(&mut self) {
        let now = Instant::now();
        let turn = now.duration_since(self.turned);
        self.turned = now;
        if turn <= LONGEST_TURN {
            return self.look_at_deadlines();
        }
        let now = self.with.host.now();
        for task in &mut self.tasks {
            task.postpone(turn, now);
        }
    }

    fn show(&mut self, last: bool) {
        if !self.with.sink.wants_state(last) {
            return;
        }
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
        let rows: Vec<Row> = self.tasks.iter().zip(planned).map(row).collect();
        self.with.sink.state(self.number, &rows);
    }

    fn summaries(&self) -> Vec<TaskSummary> {
        let planned = self.with.launch.assignments();
        self.tasks
            .iter()
            .zip(planned)
            .map(|(task, planned)| task.summary(&planned))
            .collect()
    }

    /// A device with a fault is recovered first: the next round would start its jobs on it.
    fn is_over(&self) -> bool {
        let all = self.tasks.iter().all(|t| t.stage.is_over());
        let done = self.stopping || (all && !self.faulted);
        done && self.with.host.jobs().is_empty()
    }

    /// When the next thing is due by the clock: a retry, or a deadline of a job.
    fn next_deadline(&self) -> Option<Instant> {
        let retries = self.tasks.iter().filter_map(|t| t.retry_at);
        let retries = retries.filter(|_| !self.faulted && !self.stopping);
        let deadlines = self.tasks.iter().filter_map(|t| self.deadline(t));
        retries.chain(deadlines).min()
    }

    /// The first signal asks the jobs to end, the second kills them.
    fn heed_signals(&mut self) {
        let arrived = self.with.host.arrived();
        if arrived.count == self.signals {
            return;
        }
        if self.signal.is_none() {
            self.signal = arrived.first;
            let reason = signal_text(arrived.first.unwrap_or_default());
            self.interrupt(&reason);
        }
        if arrived.count > 1 {
            self.stop_all(Duration::ZERO);
        }
        self.signals = arrived.count;
    }

    /// Stops a round from outside: what has not ended by then is interrupted.
    fn interrupt(&mut self, reason: &str) {
        if !self.stopping {
            for task in &mut self.tasks {
                task.interrupted = !task.stage.is_over();
            }
        }
        self.stop(reason);
    }

    /// Ends every job and starts no more.
    fn stop(&mut self, reason: &str) {
        if self.stopping {
            return;
        }
        self.stopping = true;
        self.tell(EventPayload::Stop {
            round: Some(self.number),
            task: None,
            reason: reason.to_owned(),
        });
        self.stop_all(self.with.settings.supervision.grace);
    }

    fn stop_all(&mut self, grace: Duration) {
        for job in self.with.host.jobs() {
            self.with.host.stop(job, grace);
        }
    }

    fn start_what_may(&mut self) {
        self.recover();
        if self.stopping || self.faulted {
            return;
        }
        let now = self.with.host.now();
        for i in 0..self.tasks.len() {
            if self.tasks[i].retry_at.is_some_and(|at| at <= now) {
                self.start(i);
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
                let gate = !self.with.settings.no_overlap || all_down;
                let waits = *stage == Stage::WaitCompute;
                if waits && gate && !is_held(&self.holds, i, PhaseKind::Compute, &stages) {
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

    /// The transfers that are not held; with `--no-overlap` no upload begins while a task has not computed.
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
    fn end_phase(&mut self, i: usize, reason: Option<String>) {
        let now = self.with.host.now();
        let (Some(kind), Some(began)) = (self.tasks[i].phase(), self.tasks[i].phase_began) else {
            return;
        };
        let end = as_seconds(now.duration_since(self.begun));
        self.tell(EventPayload::Phase {
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

    /// Divides the shares among the tasks that compute now, if the device supports it.
    fn reshare(&mut self, why: &str) {
        let fixed = self.with.host.regrants() == Regrants::NextStart;
        if self.with.settings.keep_shares || fixed || self.stopping {
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
            // A job that is not ready yet gets its share when it is.
            if let Some(job) = self.tasks[i].job
                && let Err(error) = self.with.host.regrant(job, share)
            {
                reason = format!("{reason}, but the share could not be changed: {error}");
            }
            self.tell(EventPayload::Reshare {
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
        self.with.launch.plan.tasks[i].id.to_string()
    }

    fn id(&self, i: usize) -> TaskId {
        self.with.launch.plan.tasks[i].id.clone()
    }

    fn task_of(&self, job: JobId) -> Option<usize> {
        self.tasks.iter().position(|t| t.job == Some(job))
    }
}
