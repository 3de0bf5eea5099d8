//! The loop of an elastic launch.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use cli::Failure;
use doc::{EventPayload, Provenance, TrainingNews, Workload};
use host::Host;
use jobs::Journal;
use runner::{Runner, Sink};
use units::TaskId;

use super::arrivals::{Arrivals, Due};
use super::controller::{Controller, ControllerMessage};
use super::member::{Key, Leaving, Member, Stage};
use crate::session::{Played, unfinished};
use crate::settings::LaunchSettings;

/// Maximum number of refused decisions that are reported individually, and likewise of refused arrivals.
pub(super) const TOLD: u32 = 5;

/// Polling interval for an expected answer of the controller, since an answer does not wake the wait on the host. Short
/// compared with the pause of a reconfiguration, which is some tenths of a second.
const LISTEN: Duration = Duration::from_millis(10);

/// The runner of an elastic launch.
pub(super) type Run<'a> = Runner<'a, Key>;

/// An elastic launch in progress: the policy that follows a controller.
pub(super) struct ElasticLaunch<'a> {
    pub(super) workload: &'a Workload,
    pub(super) settings: &'a LaunchSettings,
    pub(super) controller: Controller,
    arrivals: Arrivals,
    pub(super) logs: PathBuf,
    /// Equal parts of one device that are allocated instead of GPUs.
    pub(super) parts: Option<u32>,
    pub(super) members: Vec<Member>,
    pub(super) free: BTreeSet<usize>,
    /// Lost GPUs.
    pub(super) lost: BTreeSet<usize>,
    /// The newest decision that has not been applied.
    pub(super) pending: Option<Box<doc::Allocation>>,
    /// Number of the last decision that was checked.
    pub(super) seq: u64,
    /// Time at which a decision was last applied, and how long the last reconfiguration paused a training.
    pub(super) decided: Instant,
    pub(super) last_pause: Duration,
    pub(super) told_silent: bool,
    /// Number of refused decisions that were reported.
    pub(super) refusals: u32,
    /// Number of arrivals that were refused or invalid.
    ignored: u32,
    /// The reason why the launch cannot continue.
    pub(super) broken: Option<String>,
}

impl<'a> ElasticLaunch<'a> {
    pub(super) fn new(
        workload: &'a Workload,
        settings: &'a LaunchSettings,
        controller: Controller,
        arrivals: Arrivals,
        logs: PathBuf,
        parts: Option<u32>,
        now: Instant,
    ) -> Self {
        let count = parts.unwrap_or(workload.device.gpus);
        Self {
            workload,
            settings,
            controller,
            arrivals,
            logs,
            parts,
            members: Vec::new(),
            free: (0..count as usize).collect(),
            lost: BTreeSet::new(),
            pending: None,
            seq: 0,
            decided: now,
            last_pause: Duration::ZERO,
            told_silent: false,
            refusals: 0,
            ignored: 0,
            broken: None,
        }
    }

    /// Number of GPUs, or of parts of one GPU, that can be allocated.
    pub(super) fn count(&self) -> u32 {
        self.parts.unwrap_or(self.workload.device.gpus)
    }

    /// Runs until every training has ended and no further one can arrive.
    ///
    /// # Errors
    /// [`Failure::Environment`] if the controller fails before its first decision.
    pub(super) fn play(
        mut self,
        host: &mut dyn Host,
        sink: &mut dyn Sink,
        provenance: Provenance,
    ) -> (Played, Option<Failure>) {
        let journal = Journal::new(host.now());
        sink.event(&journal.launch(host.fingerprint(), None, provenance));
        let over = Runner::new(host, sink, &self.settings.supervision, journal).run(&mut self);
        if self.ignored > TOLD {
            let text = format!(
                "{} lines of the arrivals were refused or ignored in all",
                self.ignored
            );
            sink.warn(&text);
        }
        let tasks: Vec<_> = self.members.iter().map(Member::summary).collect();
        let (interrupted, failed) = unfinished(&tasks);
        let stopped = over.signal.is_some() || self.broken.is_some();
        let ok = failed.is_empty() && interrupted.is_empty() && !stopped;
        sink.event(&journal.summary(host.now(), ok, tasks));
        let played = Played {
            ok,
            signal: over.signal,
            failed,
            interrupted,
        };
        let broken = self.broken.filter(|_| over.signal.is_none());
        (played, broken.map(Failure::Environment))
    }

    pub(super) fn is_over(&self, run: &Run<'_>) -> bool {
        let ends = run.is_stopping() || self.arrivals.is_over();
        ends && self.members.iter().all(|m| m.stage == Stage::Ended)
    }

    /// Asks every training to save and stop; nothing starts any more.
    pub(super) fn end_all(&mut self, run: &mut Run<'_>) {
        for i in 0..self.members.len() {
            let member = &mut self.members[i];
            member.interrupted |= member.stage != Stage::Ended;
            self.leave(run, i, Leaving::Away);
            self.dismiss(run, i);
            if matches!(self.members[i].stage, Stage::Starting | Stage::Training) {
                self.stop(run, i);
            }
        }
    }

    pub(super) fn take_arrivals(&mut self, run: &mut Run<'_>) {
        if run.is_stopping() {
            return;
        }
        while let Some(due) = self.arrivals.due(run.elapsed().get()) {
            match due {
                Due::Arrive(arrival) => {
                    let name = arrival.task.to_string();
                    if let Err(why) = self.arrive(run, arrival) {
                        self.ignore(run, &format!("{name} is refused: {why}"));
                    }
                }
                Due::Leave(task) => {
                    let found = self.members.iter().position(|m| m.arrival.task == task);
                    match found {
                        Some(i) => self.leave(run, i, Leaving::Away),
                        None => self.ignore(
                            run,
                            &format!("{task} is not here, so it cannot be taken away"),
                        ),
                    }
                }
                Due::Gpu { gpu, lost } => {
                    if let Err(why) = self.gpu_event(run, gpu, lost) {
                        self.ignore(run, &format!("ignored: {why}"));
                    }
                }
                Due::Bad(why) => self.ignore(run, &format!("ignored: {why}")),
            }
        }
    }

    /// Reports the first invalid arrivals, and at the end their number: a file for another workload has thousands.
    fn ignore(&mut self, run: &mut Run<'_>, text: &str) {
        self.ignored += 1;
        if self.ignored <= TOLD {
            run.warn(text);
        }
    }

    fn arrive(&mut self, run: &mut Run<'_>, arrival: doc::Arrival) -> Result<(), String> {
        let has = self.count();
        let task = self
            .workload
            .task_index(&arrival.task)
            .ok_or("the workload has no such task, so nothing says what to start")?;
        if self.workload.tasks[task].job.is_none() {
            return Err("its task has no job, so there is nothing to start".to_owned());
        }
        if self.members.iter().any(|m| m.arrival.task == arrival.task) {
            return Err("a training of this name is already here".to_owned());
        }
        let needs = arrival.min_gpus.unwrap_or(1);
        if needs > has {
            return Err(format!("it needs {needs} GPUs, and the device has {has}"));
        }
        if self.parts.is_some() && arrival.batch_per_gpu.is_some() {
            return Err(
                "batch_per_gpu: on parts of one GPU it is one process; give batch".to_owned(),
            );
        }
        let mut arrival = arrival;
        if arrival.training_batch().is_none() {
            arrival.batch = self.workload.tasks[task].batch_sizes.first().copied();
        }
        let news = TrainingNews::Arrive(Box::new(arrival.clone()));
        self.members.push(Member::new(arrival, task, run.now()));
        self.tell_controller(run, news);
        Ok(())
    }

    /// A GPU is gone, or is back.
    fn gpu_event(&mut self, run: &mut Run<'_>, gpu: u32, lost: bool) -> Result<(), String> {
        if self.parts.is_some() {
            return Err("lost and found are for GPUs, and these are parts of one".to_owned());
        }
        if gpu >= self.count() {
            return Err(format!(
                "the device has no GPU {gpu}; they are numbered from 0"
            ));
        }
        let number = gpu as usize;
        let changed = match lost {
            true => self.lost.insert(number),
            false => self.lost.remove(&number),
        };
        if !changed {
            return Ok(());
        }
        let state = if lost { "lost" } else { "found" };
        run.tell(EventPayload::Fault {
            round: None,
            task: None,
            reason: format!("GPU {gpu} is {state}"),
        });
        if lost {
            self.free.remove(&number);
            for i in 0..self.members.len() {
                self.loses(run, i, number);
            }
            self.tell_controller(run, TrainingNews::Lost { gpu });
        } else {
            self.free.insert(number);
            self.tell_controller(run, TrainingNews::Found { gpu });
        }
        Ok(())
    }

    /// Handles the messages of the controller.
    pub(super) fn hear(&mut self, run: &mut Run<'_>) {
        while let Some(answer) = self.controller.answer() {
            match answer {
                ControllerMessage::Decision(decision) => self.pending = Some(decision),
                ControllerMessage::Bad(why) => run.warn(&format!(
                    "the controller has written a line that is not an allocation: {why}"
                )),
                ControllerMessage::Ended(why) => run.warn(&format!(
                    "the controller is gone ({why}); the last allocation stays"
                )),
                ControllerMessage::Failed(status) => self.give_up(run, &status),
            }
        }
    }

    /// Ends a launch whose controller never made a decision: there is no allocation to continue with, and the
    /// controller's own message on standard error explains the error.
    fn give_up(&mut self, run: &mut Run<'_>, status: &str) {
        let why = format!("the controller has failed before its first decision ({status})");
        run.give_up(why.clone());
        self.broken = Some(format!("{why}; its own message says why, or run it alone"));
    }

    pub(super) fn next_look(&self, run: &Run<'_>) -> Option<Instant> {
        let now = run.now();
        let hopes = self.controller.is_ending()
            || self.controller.is_alive() && (self.pending.is_some() || self.has_idle());
        let listen = hopes.then(|| now + LISTEN);
        let arrival = self
            .arrivals
            .next_at()
            .map(|at| run.launched() + Duration::from_secs_f64(at.clamp(0.0, 1e9)));
        let retries = self.members.iter().filter_map(|m| m.retry_at);
        retries.chain(listen).chain(arrival).min()
    }

    /// Whether a training waits while GPUs are free.
    fn has_idle(&self) -> bool {
        let waits = |m: &Member| m.stage == Stage::Waiting;
        !self.free.is_empty() && self.members.iter().any(waits)
    }

    /// Ends a training for good.
    pub(super) fn leave(&mut self, run: &mut Run<'_>, i: usize, why: Leaving) {
        let member = &mut self.members[i];
        if member.leaving.is_some() || member.stage == Stage::Ended {
            return;
        }
        member.leaving = Some(why);
        if member.stage == Stage::Waiting {
            self.close(run, i, why == Leaving::Reached, "it was taken away");
        }
    }

    pub(super) fn id(&self, i: usize) -> TaskId {
        self.members[i].arrival.task.clone()
    }
}
