//! Events of tasks and their consequences.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use doc::{EventPayload, PhaseKind, ProcessEnd};
use jobs::{Event, Exit, Happening};
use units::Seconds;

use crate::Place;
use crate::driver::{Driver, Running};

/// Deviation of a job's training times from the planned ones above which everything not yet started
/// is planned again: with durations that deviate by up to 20 %, a plan that does not react loses
/// about 4 % (the online row of the reproduction), so smaller deviations do not justify another
/// order.
const DRIFT: f64 = 0.25;

/// Between two new plans for drift. The first tasks of every job may all be slower at once.
const CALM: Duration = Duration::from_secs(1);

/// A GPU is given up once tasks of this many jobs in a row have failed on it and none succeeded:
/// with fewer, the job itself may be at fault.
const FAILED_JOBS: usize = 2;

impl Driver<'_> {
    /// Something happened to a task.
    pub fn happened(&mut self, event: Event) {
        let Some(&running) = self.running.get(&event.job) else {
            if let Happening::Exited { .. } = event.what {
                self.parked.remove(&event.job);
            }
            return;
        };
        let place = running.place;
        if let Some(why) = running.ended {
            if let Happening::Exited { exit, .. } = event.what {
                self.running.remove(&event.job);
                let end = end_of(exit);
                self.jobs[place.job].lanes[place.task].end = Some(end);
                self.tell_exit(place, end, why);
            }
            return;
        }
        match event.what {
            Happening::Ready { .. } => {
                if let Some(r) = self.running.get_mut(&event.job).filter(|r| !r.ready) {
                    r.ready = true;
                    let task = self.name(place);
                    let round = place.round as u32;
                    self.tell(EventPayload::Ready { round, task });
                }
            }
            Happening::Steps { samples, loss, .. } => {
                let told = &mut self.jobs[place.job].lanes[place.task];
                told.samples = told.samples.saturating_add(samples);
                told.first_loss = told.first_loss.or(loss);
                told.last_loss = loss.or(told.last_loss);
            }
            // The GPU is free; what remains until the end of the process is synchronisation.
            Happening::Done { .. } if running.trained.is_none() && self.stopped.is_none() => {
                let at = self.trained(&running);
                if let Some(r) = self.running.get_mut(&event.job) {
                    r.trained = Some(at);
                }
            }
            // For a job that takes orders: its result is synchronised.
            Happening::Parked if running.stays && self.stopped.is_none() => {
                self.running.remove(&event.job);
                self.park(event.job, running);
                let given_up = self.jobs[place.job].given_up;
                if !given_up {
                    self.confirm(place);
                }
                self.phases_end(&running);
                if given_up {
                    self.dismiss(event.job);
                } else {
                    self.succeeded(running);
                }
            }
            Happening::Exited {
                exit, strays, tail, ..
            } => {
                self.running.remove(&event.job);
                self.exited(running, exit, strays.len(), &tail);
            }
            Happening::LogFailed(why) => {
                let text = format!("{}: its log cannot be written: {why}", self.name(place));
                self.console.warn(&text);
            }
            _ => {}
        }
    }

    /// Training of a task has ended; returns when.
    fn trained(&mut self, running: &Running) -> f64 {
        let now = self.now();
        let place = running.place;
        if let Some(ratio) = self.agenda.trained(place, now) {
            let (sum, count) = &mut self.jobs[place.job].drift;
            *sum += ratio;
            *count += 1;
        }
        self.phase(running, PhaseKind::Compute, now);
        self.jobs[place.job].lanes[place.task].trained += now - running.since;
        now
    }

    /// A phase of a task has ended: it has trained, or it has synchronised what it trained.
    fn phase(&mut self, running: &Running, phase: PhaseKind, end: f64) {
        let start = running.trained.unwrap_or(running.since);
        let second = |s: f64| Seconds::new(s).unwrap_or(Seconds::ZERO);
        self.tell(EventPayload::Phase {
            round: running.place.round as u32,
            task: self.name(running.place),
            phase,
            start: second(start),
            end: second(end),
            reason: None,
        });
    }

    fn exited(&mut self, running: Running, exit: Exit, strays: usize, tail: &str) {
        let place = running.place;
        let end = end_of(exit);
        self.jobs[place.job].lanes[place.task].end = Some(end);
        let good = end == ProcessEnd::Code(0);
        let words = tail.lines().rev().find(|line| !line.trim().is_empty());
        let last = &words.map_or_else(|| format!("{end}, and it printed nothing"), str::to_owned);
        let mut reason = if good {
            String::new()
        } else {
            format!("it failed: {last}")
        };
        if strays > 0 {
            reason += &format!(" ({strays} processes that it left behind were killed)");
        }
        let ended = self.stopped.is_some() || self.jobs[place.job].given_up;
        if good && !ended {
            self.confirm(place);
            self.phases_end(&running);
        }
        self.tell_exit(place, end, reason.trim());
        if ended {
            self.agenda.failed(place, self.now());
            if self.jobs[place.job].given_up && self.stopped.is_none() && running.trained.is_none()
            {
                // Until now its GPU was expected to be busy for as long as it would have trained.
                self.replan("a task of a job that was given up has ended");
            }
            return;
        }
        if !good {
            return self.failed(place, running.gpu, last);
        }
        self.succeeded(running);
    }

    fn tell_exit(&mut self, place: Place, end: ProcessEnd, reason: &str) {
        let told = EventPayload::Exit {
            round: place.round as u32,
            task: self.name(place),
            phase: Some(PhaseKind::Compute),
            end,
            reason: Some(reason.to_owned()).filter(|r| !r.is_empty()),
        };
        self.tell(told);
    }

    /// Ends the rest of a gang when one task has failed: the others would wait for it for ever.
    pub fn end_gang(&mut self, job: usize) {
        let grace = self.settings.supervision.grace;
        let own = self.running.iter_mut().filter(|(_, r)| r.place.job == job);
        let mut ids = Vec::new();
        for (&id, running) in own.filter(|(_, r)| r.ended.is_none()) {
            running.ended = Some("another task of its gang failed");
            ids.push(id);
        }
        for id in ids {
            self.supervisor.stop(id, grace);
        }
        self.dismiss_those(|p| p.job == job);
    }

    /// A task is done: with its training, if it has not said so before, or with what came after.
    fn phases_end(&mut self, running: &Running) {
        if running.trained.is_some() {
            self.phase(running, PhaseKind::Upload, self.now());
        } else {
            self.trained(running);
        }
    }

    /// A task has trained and synchronised.
    fn succeeded(&mut self, running: Running) {
        let place = running.place;
        self.view.done += 1;
        self.failures[running.gpu].clear();
        let now = self.now();
        if self.agenda.synced(place, now) {
            self.dismiss_those(|p| p.job == place.job);
        }
        let suspect = self.moved.remove(&place);
        if let Some(gpu) = suspect.filter(|&gpu| !self.failures[gpu].is_empty()) {
            self.lose(
                gpu,
                "a task that failed there twice succeeded on another GPU",
            );
        }
        self.look_at_drift(place.job);
    }

    /// Retries a failed task, or gives up its job or its GPU.
    pub fn failed(&mut self, place: Place, gpu: usize, why: &str) {
        let now = self.now();
        self.agenda.failed(place, now);
        if self.agenda.is_gang(place.job) {
            self.end_gang(place.job);
            let written = self.kept.undone(self.cluster, place.job);
            self.look_at_journal(written);
        }
        self.failures[gpu].insert(place.job);
        if self.failures[gpu].len() >= FAILED_JOBS && self.seats.all.len() > 1 {
            return self.lose(gpu, "tasks of several jobs failed there and none succeeded");
        }
        let told = &mut self.jobs[place.job];
        let attempt = told.attempts.entry(place).or_insert(0);
        *attempt += 1;
        let attempt = *attempt;
        if attempt > self.settings.supervision.restarts {
            return self.give_up(
                place.job,
                &format!("it failed {attempt} times, at last: {why}"),
            );
        }
        told.lanes[place.task].restarts += 1;
        // Twice on one GPU: the third try is on another, which shows whether the task or the GPU is
        // at fault.
        if attempt >= 2 && self.agenda.elsewhere(place, gpu, now) {
            self.moved.entry(place).or_insert(gpu);
        }
        self.pauses[gpu] = Instant::now() + self.settings.supervision.pause(attempt);
        let restart = EventPayload::Restart {
            round: place.round as u32,
            task: self.name(place),
            restarts: Some(attempt),
            reason: format!("it failed: {why}"),
        };
        self.tell(restart);
    }

    fn lose(&mut self, gpu: usize, why: &str) {
        self.agenda.use_gpu(gpu, false);
        self.lost.insert(gpu);
        self.leave(gpu, why);
        self.give_up_stuck();
    }

    /// Plans everything that has not started without a GPU.
    pub fn leave(&mut self, gpu: usize, why: &str) {
        let name = self.seats.all[gpu].name.clone();
        let reason = format!("{name} is no longer used: {why}");
        self.tell(EventPayload::Fault {
            round: None,
            task: None,
            reason,
        });
        self.failures[gpu] = BTreeSet::new();
        self.dismiss_those(|p| p.gpu == gpu);
        self.replan(&format!("{name} is lost"));
    }

    pub fn give_up(&mut self, job: usize, reason: &str) {
        self.jobs[job].given_up = true;
        self.agenda.give_up(job);
        self.dismiss_those(|p| p.job == job);
        let own = self.running.iter().filter(|(_, r)| r.place.job == job);
        let ids: Vec<_> = own.map(|(id, _)| *id).collect();
        for id in ids {
            self.supervisor.stop(id, self.settings.supervision.grace);
        }
        let id = self.cluster.jobs[job].id.clone();
        self.console.error(&format!("{id} is given up: {reason}"));
        self.tell(EventPayload::Stop {
            round: None,
            task: Some(id),
            reason: reason.to_owned(),
        });
        self.replan("a job was given up");
    }

    /// Plans again if the times of a job were far from the planned ones.
    fn look_at_drift(&mut self, job: usize) {
        let (sum, count) = self.jobs[job].drift;
        // A complete round, so that one slow task does not decide for all.
        if count < self.cluster.jobs[job].tasks {
            return;
        }
        self.jobs[job].drift = (0.0, 0);
        let factor = sum / f64::from(count);
        if (factor - 1.0).abs() <= DRIFT || self.replanned.elapsed() < CALM {
            return;
        }
        self.agenda.drifted(job, factor);
        let id = &self.cluster.jobs[job].id;
        self.replan(&format!(
            "tasks of {id} take {factor:.2} times as long as planned"
        ));
    }

    pub fn replan(&mut self, reason: &str) {
        self.replanned = Instant::now();
        let now = self.now();
        self.agenda.replan(now);
        self.tell(EventPayload::Replan {
            round: None,
            reason: format!("{reason}: what has not started is planned again"),
            planned: None,
        });
    }
}

fn end_of(exit: Exit) -> ProcessEnd {
    match exit {
        Exit::Code(code) => ProcessEnd::Code(code),
        Exit::Signal(signal) => ProcessEnd::Signal(signal),
    }
}
