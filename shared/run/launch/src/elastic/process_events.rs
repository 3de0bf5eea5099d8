//! Events of the processes of trainings, and their consequences.

use std::time::{Duration, Instant};

use doc::{EventPayload, PhaseKind, TrainingNews};
use host::HostError;
use jobs::{Event, Exit, Happening};

use super::member::{Leaving, Rank, Stage};
use super::session::ElasticLaunch;
use crate::task::process_end;

impl ElasticLaunch<'_> {
    /// Handles one event of a process. Only rank 0 reports for a training.
    pub(super) fn happened(&mut self, event: &Event) {
        if let Happening::Exited { .. } = event.what {
            self.strays.retain(|job| *job != event.job);
        }
        let rank_in = |ranks: &[Rank]| ranks.iter().position(|r| r.job == event.job);
        let standby = self.members.iter().enumerate().find_map(|(i, m)| {
            let rank = rank_in(&m.next.as_ref()?.ranks)?;
            Some((i, rank))
        });
        if let Some((i, rank)) = standby {
            return self.standby_happened(i, rank, event);
        }
        let mut members = self.members.iter().enumerate();
        let found = members.find_map(|(i, m)| Some((i, rank_in(&m.ranks)?)));
        let Some((i, rank)) = found else {
            return;
        };
        match &event.what {
            Happening::Exited { exit, tail, .. } => self.exited(i, rank, *exit, tail),
            Happening::Unkillable => {
                let text = format!("a process of {} does not end", self.id(i));
                self.sink.warn(&text);
            }
            Happening::LogFailed(why) => {
                let text = format!("the log of {} ends here: {why}", self.id(i));
                self.sink.warn(&text);
            }
            Happening::NormsLeftOut(why) => {
                let text = format!("{}: norms of gradients are left out: {why}", self.id(i));
                self.sink.warn(&text);
            }
            Happening::Ready { .. } => {
                self.settle(i, rank);
                if rank == 0 {
                    self.ready(i, event.at);
                }
            }
            Happening::Steps {
                steps,
                samples,
                loss,
                last,
                gradient,
            } if rank == 0 => {
                self.members[i].progress.gradient.merge(gradient);
                self.stepped(i, event.at, (*steps, *samples), (*loss, *last));
            }
            Happening::Parked if rank == 0 => self.parked(i),
            Happening::Done { .. } if rank == 0 => self.members[i].done = true,
            _ => {}
        }
    }

    /// Whether the program of training `i` speaks the worker protocol in both directions.
    fn takes_orders(&self, i: usize) -> bool {
        let job = self.workload.tasks[self.members[i].task].job.as_ref();
        job.is_some_and(|job| job.pool)
    }

    fn settle(&mut self, i: usize, rank: usize) {
        let job = self.members[i].ranks[rank].job;
        match self.host.settle(job) {
            // It has ended meanwhile; the next event says how.
            Ok(_) | Err(HostError::Ended) => {}
            Err(why) => self.end_processes(i, why.to_string()),
        }
    }

    fn ready(&mut self, i: usize, at: Instant) {
        if self.members[i].stage != Stage::Starting {
            return;
        }
        // Ranks other than 0 report nothing, and are ready when it is.
        for rank in 1..self.members[i].ranks.len() {
            self.settle(i, rank);
        }
        let member = &mut self.members[i];
        member.stage = Stage::Training;
        member.since = at;
        member.progress.last_step = Some(at);
        member.worked_on = u32::try_from(member.gpus.len()).ok();
        if let Some(paused) = member.paused_at.take() {
            self.last_pause = at.saturating_duration_since(paused);
        }
        self.tell(EventPayload::Ready {
            round: 0,
            task: self.id(i),
        });
    }

    fn stepped(
        &mut self,
        i: usize,
        at: Instant,
        (steps, samples): (u64, u64),
        (loss, last): (Option<f64>, Option<u64>),
    ) {
        // A job that only reports steps is ready with its first one.
        self.ready(i, at);
        let member = &mut self.members[i];
        let before = member.progress.step;
        member.stepped(at, steps, samples, loss);
        if let Some(last) = last {
            member.is_at(last);
            if before > 0 && last < before && member.progress.steps_since_ready == steps {
                let text = format!(
                    "{} continues from an older checkpoint: at step {last}, it was at {before}",
                    self.id(i)
                );
                self.sink.note(&text);
            }
        }
        if self.members[i].has_reached() {
            self.leave(i, Leaving::Reached);
        }
    }

    fn parked(&mut self, i: usize) {
        self.members[i].parked = true;
        self.report_one(i, true);
        let step = Some(self.members[i].progress.step);
        let task = self.id(i);
        self.tell_controller(TrainingNews::Parked { task, step });
    }

    /// Asks the processes of a training to save and stop.
    pub(super) fn stop(&mut self, i: usize) {
        let now = self.host.now();
        let member = &mut self.members[i];
        member.paused_at.get_or_insert(now);
        member.stage = Stage::Stopping;
        member.since = now;
        let grace = member.time_to_save(self.settings.supervision.grace);
        self.signal_all(i, grace);
    }

    /// A GPU is lost: a training on it is ended at once, because nothing there answers and its other processes wait
    /// for it. Until the controller decides, it continues on its remaining GPUs.
    pub(super) fn loses(&mut self, i: usize, gpu: usize) {
        let standby = self.members[i].next.as_ref();
        if standby.is_some_and(|next| next.gpus.contains(&gpu)) {
            self.dismiss(i);
        }
        if !self.members[i].gpus.contains(&gpu) {
            return;
        }
        let now = self.host.now();
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
        self.kill(i);
        self.tell_gpus(i, format!("GPU {gpu} is lost"));
    }

    /// Ends the processes of a training at once.
    pub(super) fn kill(&mut self, i: usize) {
        self.signal_all(i, Duration::ZERO);
    }

    /// Ends processes whose training cannot continue with them.
    fn end_processes(&mut self, i: usize, why: String) {
        let member = &mut self.members[i];
        if member.fault.is_none() && member.stage != Stage::Stopping {
            member.fault = Some(why);
            self.signal_all(i, self.settings.supervision.grace);
        }
    }

    fn signal_all(&mut self, i: usize, grace: Duration) {
        let running = self.members[i].ranks.iter().filter(|r| r.exit.is_none());
        let jobs: Vec<_> = running.map(|r| r.job).collect();
        for job in jobs {
            self.host.stop(job, grace);
        }
    }

    fn exited(&mut self, i: usize, rank: usize, exit: Exit, tail: &str) {
        let takes_orders = self.takes_orders(i);
        let member = &mut self.members[i];
        member.ranks[rank].exit = Some(exit);
        let ends_well = exit == Exit::Code(0) && member.may_end(takes_orders);
        if rank == 0 {
            member.progress.exit = Some(exit);
            member.done |= ends_well;
        }
        let expected = member.stage == Stage::Stopping || member.done || member.parked || ends_well;
        if !expected || (exit != Exit::Code(0) && !member.parked && !member.done) {
            let last = tail.lines().last().unwrap_or_default();
            let said = if last.is_empty() { "" } else { ": " };
            let why = format!("process {rank} ended by {}{said}{last}", process_end(exit));
            member.fault.get_or_insert(why);
        }
        if member.ranks.iter().all(|r| r.exit.is_some()) {
            self.ended(i);
        } else if !expected && exit != Exit::Code(0) {
            // The others would wait for it for ever. But a process that ends well may just be the first of a group
            // that is done.
            self.signal_all(i, self.settings.supervision.grace);
        } else if rank == 0 {
            self.signal_all(i, self.settings.supervision.grace);
        }
    }

    /// All processes of a training have ended, or none could be started.
    pub(super) fn ended(&mut self, i: usize) {
        self.report_one(i, true);
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
        member.stage = Stage::Waiting;
        member.since = self.host.now();
        if let Some(exit) = member.progress.exit.filter(|_| started) {
            self.tell(EventPayload::Exit {
                round: 0,
                task: self.id(i),
                phase: Some(PhaseKind::Compute),
                end: process_end(exit),
                reason: fault.clone().filter(|_| !good),
            });
        }
        let member = &self.members[i];
        if member.done || member.leaving == Some(Leaving::Reached) {
            return self.close(i, true, "");
        }
        if member.leaving == Some(Leaving::Away) {
            return self.close(i, false, "it was taken away");
        }
        if member.parked {
            return;
        }
        let why = fault.unwrap_or_else(|| "it ended before it was done".to_owned());
        match stage {
            Stage::Stopping => self.restart(
                i,
                format!("stopped without saving ({why}); it continues from its last checkpoint"),
                Duration::ZERO,
            ),
            _ => self.failed(i, why, stage == Stage::Starting, tried),
        }
    }

    /// After a failure: return to the number of GPUs that worked before, try again, or give up.
    pub(super) fn failed(&mut self, i: usize, why: String, starting: bool, tried: u32) {
        let room = self.room(i);
        let member = &mut self.members[i];
        member.failures += 1;
        let failures = member.failures;
        if failures > self.settings.supervision.restarts {
            self.tell(EventPayload::Stop {
                round: Some(0),
                task: Some(self.id(i)),
                reason: why.clone(),
            });
            return self.close(i, false, &why);
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
            return self.restart(i, text, Duration::ZERO);
        }
        let pause = self.settings.supervision.pause(failures);
        self.restart(i, why, pause);
    }

    /// GPUs that remain for training `i` after those that the others have or were promised.
    fn room(&self, i: usize) -> u32 {
        let others = self.members.iter().enumerate();
        let others = others.filter(|(k, m)| *k != i && m.stage != Stage::Ended);
        let taken: usize = others
            .map(|(_, m)| (m.wanted_gpus() as usize).max(m.gpus.len()))
            .sum();
        let taken = u32::try_from(taken).unwrap_or(u32::MAX);
        let usable = self.count().saturating_sub(self.lost.len() as u32);
        usable.saturating_sub(taken)
    }

    fn restart(&mut self, i: usize, reason: String, pause: Duration) {
        let member = &mut self.members[i];
        member.progress.restarts += 1;
        member.retry_at = Some(self.host.now() + pause);
        let restarts = Some(member.progress.restarts);
        self.tell(EventPayload::Restart {
            round: 0,
            task: self.id(i),
            restarts,
            reason,
        });
    }

    /// The end of a training.
    pub(super) fn close(&mut self, i: usize, finished: bool, why: &str) {
        self.dismiss(i);
        let member = &mut self.members[i];
        member.stage = Stage::Ended;
        member.finished = finished;
        let task = self.id(i);
        self.tell_controller(match finished {
            true => TrainingNews::Done { task },
            false => TrainingNews::Failed {
                task,
                reason: Some(why.to_owned()),
            },
        });
    }

    /// Ends a training that is not ready in time, or makes no step.
    pub(super) fn judge_deadlines(&mut self) {
        let now = self.host.now();
        for i in 0..self.members.len() {
            let late = |limit: Option<Duration>, since: Instant| {
                limit.filter(|limit| now.saturating_duration_since(since) > *limit)
            };
            let loading = self.members[i].next.as_ref().filter(|n| !n.loaded);
            if let Some((count, since)) = loading.map(|n| (n.gpus.len(), n.since))
                && let Some(limit) = late(self.settings.ready, since)
            {
                let why = format!("not loaded after {} s", limit.as_secs_f64());
                self.not_standing_by(i, count, &why);
            }
            let member = &self.members[i];
            let why = match member.stage {
                Stage::Starting => late(self.settings.ready, member.since)
                    .map(|limit| format!("not ready after {} s", limit.as_secs_f64())),
                Stage::Training => {
                    let since = member.progress.last_step.unwrap_or(member.since);
                    late(self.settings.stall, since)
                        .map(|limit| format!("no step for {} s", limit.as_secs_f64()))
                }
                _ => None,
            };
            if let Some(why) = why {
                self.end_processes(i, why);
            }
        }
    }
}
