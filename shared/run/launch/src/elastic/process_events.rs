//! Events of the processes of trainings, and their consequences.

use std::time::{Duration, Instant};

use doc::{EventPayload, PhaseKind, TrainingNews};
use jobs::{Exit, Steps};
use runner::{Ended, Happened, Policy, RunState, Stop, Verdict, process_end, reason};
use units::TaskId;

use super::member::{Key, Leaving, Stage, why_ended};
use super::session::{ElasticLaunch, Run};

impl Policy for ElasticLaunch<'_> {
    type Key = Key;

    fn task(&self, key: Key) -> TaskId {
        self.id(key.member)
    }

    fn decide(&mut self, run: &mut Run<'_>) {
        self.take_arrivals(run);
        self.hear(run);
        // If the launch was given up in this turn, everything is stopped before anything can start.
        if self.broken.is_some() && !run.is_stopping() {
            return;
        }
        self.take_decision(run);
        self.help_the_forgotten(run);
        self.reconcile(run);
    }

    /// Only rank 0 reports for a training.
    fn happened(&mut self, run: &mut Run<'_>, key: Key, at: Instant, what: &Happened) {
        let i = key.member;
        if self.stands_by(key) {
            return self.standby_happened(run, key, what);
        }
        if key.rank != 0 || !self.is_current(key) {
            return;
        }
        match what {
            Happened::Ready => self.ready(run, i, at),
            Happened::Steps { steps, .. } => {
                self.stepped(run, i, at, steps);
            }
            Happened::Parked => self.parked(run, i),
            Happened::Done { .. } => {
                self.members[i].done = true;
                run.finished(key);
            }
            Happened::Loaded => {}
        }
    }

    fn ended(&mut self, run: &mut Run<'_>, key: Key, ended: &Ended) -> Result<(), String> {
        if self.stands_by(key) {
            self.standby_ended(run, key, ended);
        } else if self.is_current(key) {
            return self.rank_ended(run, key, ended);
        }
        Ok(())
    }

    /// All processes of a training have ended although it is not done.
    fn failed(&mut self, run: &mut Run<'_>, key: Key, _: String) {
        self.group_ended(run, key.member);
    }

    fn stopped(&mut self, run: &mut Run<'_>, _: &Stop) {
        self.end_all(run);
    }

    fn turned(&mut self, run: &mut Run<'_>) {
        self.report_progress(run, false);
    }

    fn due(&self, run: &Run<'_>) -> Option<Instant> {
        self.next_look(run)
    }

    fn is_over(&self, run: &Run<'_>) -> bool {
        ElasticLaunch::is_over(self, run)
    }

    fn state(&self, _: &Run<'_>) -> RunState {
        RunState {
            rows: self.rows(),
            ..RunState::default()
        }
    }
}

impl ElasticLaunch<'_> {
    fn stands_by(&self, key: Key) -> bool {
        let next = self.members[key.member].next.as_ref();
        next.is_some_and(|next| next.ranks.iter().any(|rank| rank.key == key))
    }

    /// Whether a process belongs to the training's current processes, and not to an incomplete or dismissed group.
    fn is_current(&self, key: Key) -> bool {
        let ranks = &self.members[key.member].ranks;
        ranks.iter().any(|rank| rank.key == key)
    }

    /// Whether the program of training `i` speaks the worker protocol in both directions.
    fn takes_orders(&self, i: usize) -> bool {
        let job = self.workload.tasks[self.members[i].task].job.as_ref();
        job.is_some_and(|job| job.pool)
    }

    fn ready(&mut self, run: &mut Run<'_>, i: usize, at: Instant) {
        if self.members[i].stage != Stage::Starting {
            return;
        }
        // Ranks other than 0 report nothing; they count as ready when rank 0 is.
        let others: Vec<Key> = self.members[i]
            .ranks
            .iter()
            .skip(1)
            .map(|rank| rank.key)
            .collect();
        for key in others {
            run.settle(key);
        }
        let member = &mut self.members[i];
        member.stage = Stage::Training;
        member.since = at;
        member.progress.last_step = Some(at);
        member.worked_on = u32::try_from(member.gpus.len()).ok();
        if let Some(paused) = member.paused_at.take() {
            self.last_pause = at.saturating_duration_since(paused);
        }
        run.tell(EventPayload::Ready {
            round: 0,
            task: self.id(i),
        });
    }

    fn stepped(&mut self, run: &mut Run<'_>, i: usize, at: Instant, steps: &Steps) {
        let member = &mut self.members[i];
        let before = member.progress.step;
        member.stepped(at, steps);
        if let Some(last) = steps.last {
            member.is_at(last);
            if before > 0 && last < before && member.progress.steps_since_ready == steps.steps {
                let text = format!(
                    "{} continues from an older checkpoint: at step {last}, it was at {before}",
                    self.id(i)
                );
                run.note(&text);
            }
        }
        if self.members[i].has_reached() {
            self.leave(run, i, Leaving::Reached);
        }
    }

    fn parked(&mut self, run: &mut Run<'_>, i: usize) {
        self.members[i].parked = true;
        self.report_one(run, i, true);
        let step = Some(self.members[i].progress.step);
        let task = self.id(i);
        self.tell_controller(run, TrainingNews::Parked { task, step });
    }

    /// Asks the processes of a training to save and stop.
    pub(super) fn stop(&mut self, run: &mut Run<'_>, i: usize) {
        let now = run.now();
        let member = &mut self.members[i];
        member.paused_at.get_or_insert(now);
        member.stage = Stage::Stopping;
        member.since = now;
        let grace = member.time_to_save(self.settings.supervision.grace);
        self.signal_all(run, i, grace);
    }

    /// A GPU is lost. A training on it is ended at once, because its process there does not respond and its other
    /// processes wait for that one. Until the controller decides, it continues on its remaining GPUs.
    pub(super) fn loses(&mut self, run: &mut Run<'_>, i: usize, gpu: usize) {
        let standby = self.members[i].next.as_ref();
        if standby.is_some_and(|next| next.gpus.contains(&gpu)) {
            self.dismiss(run, i);
        }
        if !self.members[i].gpus.contains(&gpu) {
            return;
        }
        let now = run.now();
        let member = &mut self.members[i];
        let least = member.arrival.min_gpus.unwrap_or(1);
        let mut wanted = member.wanted.clone().unwrap_or_default();
        let left = wanted.gpus.saturating_sub(1);
        wanted.gpus = if left < least { 0 } else { left };
        wanted.batches.clear();
        member.wanted = Some(wanted);
        member.paused_at.get_or_insert(now);
        member.stage = Stage::Stopping;
        member.since = now;
        self.kill(run, i);
        self.tell_gpus(run, i, format!("GPU {gpu} is lost"));
    }

    /// Ends the processes of a training at once.
    pub(super) fn kill(&mut self, run: &mut Run<'_>, i: usize) {
        self.signal_all(run, i, Duration::ZERO);
    }

    fn signal_all(&mut self, run: &mut Run<'_>, i: usize, grace: Duration) {
        let running = self.members[i].ranks.iter().filter(|r| r.exit.is_none());
        let keys: Vec<Key> = running.map(|r| r.key).collect();
        for key in keys {
            run.stop_within(key, grace, "its training is stopped".to_owned());
        }
    }

    /// A process of a training has ended. `Err`: it was the last one, although the training is not done.
    fn rank_ended(&mut self, run: &mut Run<'_>, key: Key, ended: &Ended) -> Result<(), String> {
        let (i, exit) = (key.member, ended.exit);
        let takes_orders = self.takes_orders(i);
        let member = &mut self.members[i];
        member.strays.extend(ended.strays.iter().cloned());
        if let Some(rank) = member.ranks.iter_mut().find(|rank| rank.key == key) {
            rank.exit = Some(exit);
        }
        let good = exit == Exit::Code(0) || ended.outstayed;
        let ends_well = good && ended.verdict == Verdict::Done && member.may_end(takes_orders);
        if key.rank == 0 {
            member.progress.exit = Some(exit);
            member.done |= ends_well;
        }
        let expected = member.stage == Stage::Stopping || member.done || member.parked || ends_well;
        if !expected || (!good && !member.parked && !member.done) {
            member.fault.get_or_insert(why_ended(key.rank, ended));
        }
        if member.ranks.iter().all(|r| r.exit.is_some()) {
            let asked = member.stage == Stage::Stopping || member.leaving.is_some();
            if let Some(why) = member.fault.clone().filter(|_| !asked && !member.done) {
                return Err(why);
            }
            self.group_ended(run, i);
        } else if key.rank == 0 || (!expected && !good) {
            // The other processes would wait for this one for ever. This does not apply after exit code 0, because the
            // process may just be the first of a group that is done.
            self.signal_all(run, i, self.settings.supervision.grace);
        }
        Ok(())
    }

    /// All processes of a training have ended, or none could be started.
    pub(super) fn group_ended(&mut self, run: &mut Run<'_>, i: usize) {
        self.report_one(run, i, true);
        let member = &mut self.members[i];
        let started = !member.ranks.is_empty();
        let (stage, fault) = (member.stage, member.fault.take());
        let good = member.parked || member.done || member.leaving.is_some();
        let tried = u32::try_from(member.gpus.len()).unwrap_or(u32::MAX);
        member.ranks.clear();
        let gpus = std::mem::take(&mut member.gpus);
        let left = gpus.into_iter().filter(|gpu| !self.lost.contains(gpu));
        self.free.extend(left);
        let member = &mut self.members[i];
        let strays = std::mem::take(&mut member.strays);
        member.stage = Stage::Waiting;
        member.since = run.now();
        if let Some(exit) = member.progress.exit.filter(|_| started) {
            run.tell(EventPayload::Exit {
                round: 0,
                task: self.id(i),
                phase: Some(PhaseKind::Compute),
                end: process_end(exit),
                reason: reason(&[fault.as_deref().filter(|_| !good)], &strays),
            });
        }
        let member = &self.members[i];
        if member.done || member.leaving == Some(Leaving::Reached) {
            return self.close(run, i, true, "");
        }
        if member.leaving == Some(Leaving::Away) {
            return self.close(run, i, false, "it was taken away");
        }
        if member.parked {
            return;
        }
        let why = fault.unwrap_or_else(|| "it ended before it was done".to_owned());
        match stage {
            Stage::Stopping => self.restart(
                run,
                i,
                format!("stopped without saving ({why}); it continues from its last checkpoint"),
                Duration::ZERO,
            ),
            _ => self.try_again(run, i, why, stage == Stage::Starting, tried),
        }
    }

    /// After a failure: returns to the number of GPUs that worked before, tries again, or gives up.
    pub(super) fn try_again(
        &mut self,
        run: &mut Run<'_>,
        i: usize,
        why: String,
        starting: bool,
        tried: u32,
    ) {
        let room = self.room(i);
        let member = &mut self.members[i];
        member.failures += 1;
        let failures = member.failures;
        if failures > self.settings.supervision.restarts {
            run.tell(EventPayload::Stop {
                round: Some(0),
                task: Some(self.id(i)),
                reason: why.clone(),
            });
            return self.close(run, i, false, &why);
        }
        let back = member
            .worked_on
            .filter(|g| starting && *g != tried && *g <= room);
        if let Some(gpus) = back {
            let expected = None;
            member.wanted = Some(super::member::Allotment {
                gpus,
                batches: Vec::new(),
                expected,
            });
            let text = format!("not ready on {tried} GPUs ({why}); back to {gpus}");
            return self.restart(run, i, text, Duration::ZERO);
        }
        let pause = self.settings.supervision.pause(failures);
        self.restart(run, i, why, pause);
    }

    /// Number of GPUs for training `i` apart from those that other trainings have or were promised.
    fn room(&self, i: usize) -> u32 {
        let others = self
            .members
            .iter()
            .enumerate()
            .filter(|(k, m)| *k != i && m.stage != Stage::Ended);
        let taken: usize = others
            .map(|(_, m)| (m.wanted_gpus() as usize).max(m.gpus.len()))
            .sum();
        let taken = u32::try_from(taken).unwrap_or(u32::MAX);
        let usable = self.count().saturating_sub(self.lost.len() as u32);
        usable.saturating_sub(taken)
    }

    fn restart(&mut self, run: &mut Run<'_>, i: usize, reason: String, pause: Duration) {
        let member = &mut self.members[i];
        member.progress.restarts += 1;
        member.retry_at = Some(run.now() + pause);
        let restarts = Some(member.progress.restarts);
        run.tell(EventPayload::Restart {
            round: 0,
            task: self.id(i),
            restarts,
            reason,
        });
    }

    /// The end of a training.
    pub(super) fn close(&mut self, run: &mut Run<'_>, i: usize, finished: bool, why: &str) {
        self.dismiss(run, i);
        let member = &mut self.members[i];
        member.stage = Stage::Ended;
        member.finished = finished;
        let task = self.id(i);
        self.tell_controller(
            run,
            match finished {
                true => TrainingNews::Done { task },
                false => TrainingNews::Failed {
                    task,
                    reason: Some(why.to_owned()),
                },
            },
        );
    }
}
