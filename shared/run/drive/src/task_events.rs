//! Events of the tasks of a schedule, and their consequences.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use doc::{EventPayload, PhaseKind, ProcessEnd};
use runner::{Ended, Happened, Policy, Row, RunState, Stop, Verdict, process_end};
use units::{Seconds, TaskId};

use crate::TaskPlace;
use crate::driver::{Driver, Key, Run, Running, look_at_journal, now};

/// Relative deviation of a job's training times from the planned ones above which all tasks that
/// have not started are planned again. With durations that deviate by up to 20 %, a plan that does
/// not react loses about 4 % (the online row of the reproduction), so smaller deviations do not
/// justify another order.
const DRIFT: f64 = 0.25;

/// Minimum time between two new plans because of drift: the first tasks of all jobs may be slower
/// at the same time.
const CALM: Duration = Duration::from_secs(1);

/// A GPU is given up once tasks of this many jobs in a row have failed on it and none succeeded:
/// with fewer jobs, the job itself may be at fault.
const FAILED_JOBS: usize = 2;

impl Policy for Driver<'_> {
    type Key = Key;

    fn task(&self, key: Key) -> TaskId {
        let place = self.running.get(&key).map(|r| r.place);
        let parked = self.parked.get(&key).map(|p| p.job);
        match (place, parked) {
            (Some(place), _) => self.name(place),
            (None, job) => self.cluster.jobs[job.unwrap_or_default()].id.clone(),
        }
    }

    fn decide(&mut self, run: &mut Run<'_>) {
        if !self.stopped {
            self.heed_orders(run);
            self.start_all(run);
        }
        self.keep_status(run);
        if self.running.is_empty() && self.agenda.done() {
            self.dismiss_those(run, |_| true);
        }
    }

    fn happened(&mut self, run: &mut Run<'_>, key: Key, _: Instant, what: &Happened) {
        let Some(&running) = self.running.get(&key) else {
            return;
        };
        let place = running.place;
        if running.ended.is_some() {
            return;
        }
        match what {
            Happened::Ready => run.tell(EventPayload::Ready {
                round: place.round as u32,
                task: self.name(place),
            }),
            Happened::Steps { steps, .. } => {
                let told = &mut self.jobs[place.job].lanes[place.task];
                told.samples = told.samples.saturating_add(steps.samples);
                told.first_loss = told.first_loss.or(steps.loss);
                told.last_loss = steps.loss.or(told.last_loss);
            }
            // The GPU is free; until its end the process only synchronises.
            Happened::Done { .. } if running.trained.is_none() && !self.stopped => {
                run.finished(key);
                let at = self.trained(run, &running);
                if let Some(r) = self.running.get_mut(&key) {
                    r.trained = Some(at);
                }
            }
            // A job that takes orders is parked when its result is synchronised.
            Happened::Parked if running.stays && !self.stopped => {
                run.suspend(key);
                self.running.remove(&key);
                self.park(key, running);
                let given_up = self.jobs[place.job].given_up;
                if !given_up {
                    self.confirm(run, place);
                }
                self.phases_end(run, &running);
                if given_up {
                    self.dismiss(run, key);
                } else {
                    self.succeeded(run, running);
                }
            }
            _ => {}
        }
    }

    fn ended(&mut self, run: &mut Run<'_>, key: Key, ended: &Ended) -> Result<(), String> {
        let Some(&running) = self.running.get(&key) else {
            self.parked.remove(&key);
            return Ok(());
        };
        let place = running.place;
        let end = process_end(ended.exit);
        self.jobs[place.job].lanes[place.task].end = Some(end);
        if let Some(why) = running.ended {
            self.running.remove(&key);
            self.tell_exit(run, place, end, Some(why.to_owned()));
            return Ok(());
        }
        self.exited(run, key, running, ended)
    }

    fn failed(&mut self, run: &mut Run<'_>, key: Key, why: String) {
        if let Some(running) = self.running.remove(&key) {
            self.try_again(run, running.place, running.gpu, &why);
        }
    }

    fn stopped(&mut self, _: &mut Run<'_>, _: &Stop) {
        self.stopped = true;
    }

    fn turned(&mut self, run: &mut Run<'_>) {
        let at = run.now();
        let if_late = |(place, due): (&TaskPlace, &Instant)| (*due <= at).then_some(*place);
        let late: Vec<TaskPlace> = self.due.iter().filter_map(if_late).collect();
        // A task that waits for a retry has no process whose limits could expire, so its deadline
        // is checked here.
        for place in late {
            let runs = self.running.values().any(|r| r.place == place);
            if !runs && !self.stopped && !self.jobs[place.job].given_up {
                let limit = self.settings.limits.total.unwrap_or_default();
                let why = format!("not done after {} s", limit.as_secs_f64());
                self.give_up(run, place.job, &why);
            }
        }
    }

    fn due(&self, run: &Run<'_>) -> Option<Instant> {
        let arrival = self
            .agenda
            .next_arrival(now(run))
            .map(|at| run.now() + Duration::try_from_secs_f64(at - now(run)).unwrap_or_default());
        let paused = self.pauses.iter().copied().filter(|at| *at > run.now());
        arrival.into_iter().chain(paused).min()
    }

    fn postpone(&mut self, pause: Duration) {
        for due in self.due.values_mut() {
            *due += pause;
        }
    }

    fn is_over(&self, _: &Run<'_>) -> bool {
        self.stopped || self.agenda.done()
    }

    fn state(&self, run: &Run<'_>) -> RunState {
        let at = now(run);
        let row = |r: &Running| {
            let lane = &self.jobs[r.place.job].lanes[r.place.task];
            Row {
                task: self.name(r.place).to_string(),
                state: match r.trained {
                    Some(_) => "synchronising",
                    None => "training",
                },
                share: 100.0,
                batch: 0,
                samples: (lane.samples > 0).then_some(lane.samples),
                wanted: None,
                rate: None,
                predicted: None,
                loss: lane.last_loss,
                restarts: lane.restarts,
            }
        };
        let mut line = self.view.line(at, self.running.len());
        for r in self.running.values() {
            let gpu = &self.seats.all[r.gpu].name;
            let round = r.place.round;
            let (name, since) = (self.name(r.place), at - r.since);
            line += &format!("\n  {gpu}: {name}, round {round}, {since:.1} s");
        }
        RunState {
            round: 0,
            rows: self.running.values().map(row).collect(),
            line: Some(line),
        }
    }
}

impl Driver<'_> {
    /// Training of a task has ended; returns the time of the end.
    fn trained(&mut self, run: &mut Run<'_>, running: &Running) -> f64 {
        let at = now(run);
        let place = running.place;
        if let Some(ratio) = self.agenda.trained(place, at) {
            let (sum, count) = &mut self.jobs[place.job].drift;
            *sum += ratio;
            *count += 1;
        }
        self.phase(run, running, PhaseKind::Compute, at);
        self.jobs[place.job].lanes[place.task].trained += at - running.since;
        at
    }

    /// Reports the end of a phase of a task: training, or synchronisation of the result.
    fn phase(&mut self, run: &mut Run<'_>, running: &Running, phase: PhaseKind, end: f64) {
        let start = running.trained.unwrap_or(running.since);
        let second = |s: f64| Seconds::new(s).unwrap_or(Seconds::ZERO);
        run.tell(EventPayload::Phase {
            round: running.place.round as u32,
            task: self.name(running.place),
            phase,
            start: second(start),
            end: second(end),
            reason: None,
        });
    }

    fn exited(
        &mut self,
        run: &mut Run<'_>,
        key: Key,
        running: Running,
        ended: &Ended,
    ) -> Result<(), String> {
        let place = running.place;
        let good = ended.verdict == Verdict::Done;
        let over = self.stopped || self.jobs[place.job].given_up;
        if good && !over {
            self.confirm(run, place);
            self.phases_end(run, &running);
        }
        let why = ended.why.as_ref().map(|why| format!("it failed: {why}"));
        self.tell_exit(
            run,
            place,
            process_end(ended.exit),
            ended.reason(why.as_deref()),
        );
        if over {
            self.running.remove(&key);
            self.agenda.failed(place, now(run));
            if self.jobs[place.job].given_up && !self.stopped && running.trained.is_none() {
                // Until now, the plan assumed that its GPU would be busy for the whole training.
                self.replan(run, "a task of a job that was given up has ended");
            }
            return Ok(());
        }
        match &ended.verdict {
            Verdict::Done => {
                self.running.remove(&key);
                self.succeeded(run, running);
                Ok(())
            }
            // Neither the job nor its GPU is at fault.
            Verdict::Fault => {
                self.running.remove(&key);
                self.agenda.failed(place, now(run));
                Ok(())
            }
            _ => Err(ended.why.clone().unwrap_or_default()),
        }
    }

    fn tell_exit(
        &self,
        run: &mut Run<'_>,
        place: TaskPlace,
        end: ProcessEnd,
        reason: Option<String>,
    ) {
        run.tell(EventPayload::Exit {
            round: place.round as u32,
            task: self.name(place),
            phase: Some(PhaseKind::Compute),
            end,
            reason,
        });
    }

    /// Ends the other tasks of a gang when one has failed, because they would wait for it for ever.
    pub fn end_gang(&mut self, run: &mut Run<'_>, job: usize) {
        let own = self.running.iter_mut().filter(|(_, r)| r.place.job == job);
        let mut ids = Vec::new();
        for (&id, running) in own.filter(|(_, r)| r.ended.is_none()) {
            running.ended = Some("another task of its gang failed");
            ids.push(id);
        }
        for id in ids {
            run.stop(id, "another task of its gang failed".to_owned());
        }
        self.dismiss_those(run, |p| p.job == job);
    }

    /// A task is done: ends its training phase, if it did not report the end of training, or else
    /// its synchronisation phase.
    fn phases_end(&mut self, run: &mut Run<'_>, running: &Running) {
        if running.trained.is_some() {
            let end = now(run);
            self.phase(run, running, PhaseKind::Upload, end);
        } else {
            self.trained(run, running);
        }
    }

    /// A task has trained and synchronised.
    fn succeeded(&mut self, run: &mut Run<'_>, running: Running) {
        let place = running.place;
        self.view.done += 1;
        self.failures[running.gpu].clear();
        self.due.remove(&place);
        if self.agenda.synced(place, now(run)) {
            self.dismiss_those(run, |p| p.job == place.job);
        }
        let suspect = self.moved.remove(&place);
        if let Some(gpu) = suspect.filter(|&gpu| !self.failures[gpu].is_empty()) {
            self.lose(
                run,
                gpu,
                "a task that failed there twice succeeded on another GPU",
            );
        }
        self.look_at_drift(run, place.job);
    }

    /// Retries a failed task, or gives up its job or its GPU.
    pub fn try_again(&mut self, run: &mut Run<'_>, place: TaskPlace, gpu: usize, why: &str) {
        let at = now(run);
        self.agenda.failed(place, at);
        if self.agenda.is_gang(place.job) {
            self.end_gang(run, place.job);
            let written = self.kept.undone(self.cluster, place.job);
            look_at_journal(run, written);
        }
        self.failures[gpu].insert(place.job);
        if self.failures[gpu].len() >= FAILED_JOBS && self.seats.all.len() > 1 {
            return self.lose(
                run,
                gpu,
                "tasks of several jobs failed there and none succeeded",
            );
        }
        let told = &mut self.jobs[place.job];
        let attempt = told.attempts.entry(place).or_insert(0);
        *attempt += 1;
        let attempt = *attempt;
        if attempt > self.settings.supervision.restarts {
            return self.give_up(
                run,
                place.job,
                &format!("it failed {attempt} times, at last: {why}"),
            );
        }
        told.lanes[place.task].restarts += 1;
        // After two failures on one GPU, the third attempt is on another GPU, which shows whether
        // the task or the GPU is at fault.
        if attempt >= 2 && self.agenda.elsewhere(place, gpu, at) {
            self.moved.entry(place).or_insert(gpu);
        }
        self.pauses[gpu] = run.retry_at(attempt);
        let restart = EventPayload::Restart {
            round: place.round as u32,
            task: self.name(place),
            restarts: Some(attempt),
            reason: format!("it failed: {why}"),
        };
        run.tell(restart);
    }

    fn lose(&mut self, run: &mut Run<'_>, gpu: usize, why: &str) {
        self.agenda.use_gpu(gpu, false);
        self.lost.insert(gpu);
        self.leave(run, gpu, why);
        self.give_up_stuck(run);
    }

    /// Plans all tasks that have not started again, without this GPU.
    pub fn leave(&mut self, run: &mut Run<'_>, gpu: usize, why: &str) {
        let name = self.seats.all[gpu].name.clone();
        let reason = format!("{name} is no longer used: {why}");
        run.tell(EventPayload::Fault {
            round: None,
            task: None,
            reason,
        });
        self.failures[gpu] = BTreeSet::new();
        self.dismiss_those(run, |p| p.gpu == gpu);
        self.replan(run, &format!("{name} is lost"));
    }

    pub fn give_up(&mut self, run: &mut Run<'_>, job: usize, reason: &str) {
        self.jobs[job].given_up = true;
        self.agenda.give_up(job);
        self.dismiss_those(run, |p| p.job == job);
        let own = self.running.iter().filter(|(_, r)| r.place.job == job);
        let ids: Vec<_> = own.map(|(id, _)| *id).collect();
        for id in ids {
            run.stop(id, reason.to_owned());
        }
        let id = self.cluster.jobs[job].id.clone();
        run.warn(&format!("{id} is given up: {reason}"));
        run.tell(EventPayload::Stop {
            round: None,
            task: Some(id),
            reason: reason.to_owned(),
        });
        self.replan(run, "a job was given up");
    }

    /// Plans again if the training times of a job deviate much from the plan.
    fn look_at_drift(&mut self, run: &mut Run<'_>, job: usize) {
        let (sum, count) = self.jobs[job].drift;
        // Waits for a complete round, so that a single slow task does not decide.
        if count < self.cluster.jobs[job].tasks {
            return;
        }
        self.jobs[job].drift = (0.0, 0);
        let factor = sum / f64::from(count);
        if (factor - 1.0).abs() <= DRIFT || run.now() < self.replanned + CALM {
            return;
        }
        self.agenda.drifted(job, factor);
        let id = &self.cluster.jobs[job].id;
        self.replan(
            run,
            &format!("tasks of {id} take {factor:.2} times as long as planned"),
        );
    }

    pub fn replan(&mut self, run: &mut Run<'_>, reason: &str) {
        self.replanned = run.now();
        self.agenda.replan(now(run));
        run.tell(EventPayload::Replan {
            round: None,
            reason: format!("{reason}: what has not started is planned again"),
            planned: None,
        });
    }
}
