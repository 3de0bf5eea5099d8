//! Events of jobs, and their consequences.

use std::time::{Duration, Instant};

use doc::{EventPayload, PhaseKind};
use efficiency::Moments;
use host::{Health, HostError, Recovery};
use jobs::{Event, Exit, Happening, JobId};

use super::RoundRun;
use crate::task::{TaskRun, process_end};
use crate::turns::Stage;

/// For a job that reported nothing.
const TELLS_NONE: &str = " (it reported nothing; a program that reports no progress needs \"progress\": {\"none\": true} in its job)";

impl RoundRun<'_> {
    /// Handles one event of a job.
    pub(super) fn happened(&mut self, event: &Event) {
        let Some(i) = self.task_of(event.job) else {
            return;
        };
        match &event.what {
            Happening::Ready { .. } => self.ready(i, event.at),
            Happening::Steps {
                samples,
                loss,
                gradient,
                ..
            } => self.stepped(i, event.at, (*samples, *loss), gradient),
            Happening::Done { samples } => {
                let told = samples.unwrap_or(self.tasks[i].samples);
                self.tasks[i].told_done = Some(told);
            }
            Happening::Loaded | Happening::Parked | Happening::Overlong(_) => {}
            Happening::LogFailed(why) => {
                let name = self.name(i);
                let text = format!("the log of {name} ends here: {why}");
                self.with.sink.warn(&text);
            }
            Happening::Doubt(why) => {
                let name = self.name(i);
                self.with.sink.warn(&format!("{name}: {why}"));
            }
            Happening::NormsLeftOut(why) => {
                let name = self.name(i);
                let text = format!("{name}: norms of gradients are left out: {why}");
                self.with.sink.warn(&text);
            }
            Happening::Unkillable => {
                let name = self.name(i);
                self.with.sink.warn(&format!(
                    "{name} does not end, even after SIGKILL, and is left running"
                ));
            }
            Happening::Exited {
                exit, strays, tail, ..
            } => self.exited(i, *exit, strays.len(), tail),
        }
    }

    fn ready(&mut self, i: usize, at: Instant) {
        let now = self.with.host.now();
        let task = &mut self.tasks[i];
        if task.ready || task.stage != Stage::Computing {
            return;
        }
        task.warm(at, now);
        if self.tasks.iter().all(TaskRun::is_training) {
            self.opened = Some(now);
        }
        self.tell(EventPayload::Ready {
            round: self.number,
            task: self.id(i),
        });
        let Some(job) = self.tasks[i].job else {
            return;
        };
        self.settle(i, job);
    }

    /// Applies the share of a process.
    pub(super) fn settle(&mut self, i: usize, job: JobId) {
        match self.with.host.settle(job) {
            // It has ended meanwhile; the next event says how.
            Ok(_) | Err(HostError::Ended) => {}
            Err(why) => self.end_process(i, why.to_string()),
        }
    }

    fn stepped(
        &mut self,
        i: usize,
        at: Instant,
        (samples, loss): (u64, Option<f64>),
        gradient: &Moments,
    ) {
        // A job that only reports steps is ready with its first one.
        let first = !self.tasks[i].ready;
        self.ready(i, at);
        let task = &mut self.tasks[i];
        if task.stage != Stage::Computing {
            return;
        }
        task.step(at, samples, loss);
        task.gradients(gradient);
        // This report begins an interval that can be compared with a prediction: one in which all tasks train, with a
        // known number of samples at its beginning.
        if first || task.is_untold(self.opened) {
            self.tell_progress(i, true);
        }
    }

    fn exited(&mut self, i: usize, exit: Exit, strays: usize, tail: &str) {
        self.report_progress(true);
        self.opened = None;
        let why = self.verdict(i, exit, tail);
        let left = (strays > 0).then(|| format!("{strays} processes that it left were killed"));
        let stayed = self.tasks[i].outstayed;
        let stayed = stayed.then(|| "it was done and did not end; it was stopped".to_owned());
        let reasons: Vec<String> = why.iter().cloned().chain(left).chain(stayed).collect();
        self.tell(EventPayload::Exit {
            round: self.number,
            task: self.id(i),
            phase: self.tasks[i].phase(),
            end: process_end(exit),
            reason: (!reasons.is_empty()).then(|| reasons.join("; ")),
        });
        let task = &mut self.tasks[i];
        task.exit = Some(exit);
        task.job = None;
        match why {
            None => self.end_phase(i, None),
            Some(why) => {
                self.look_for_fault(i);
                self.failed(i, why);
            }
        }
    }

    /// A fault of the device affects every job on it: they are ended in the order of the plan, and started again
    /// after the device has recovered.
    fn look_for_fault(&mut self, cause: usize) {
        if self.faulted || self.stopping {
            return;
        }
        match self.with.host.health() {
            Health::Faulted => {}
            // If the device cannot be asked, its jobs show whether it works.
            Health::Good | Health::Unknown(_) => return,
        }
        self.faulted = true;
        self.tell(EventPayload::Fault {
            round: Some(self.number),
            task: Some(self.id(cause)),
            reason: "the MPS server faulted; every job is stopped".to_owned(),
        });
        for i in 0..self.tasks.len() {
            if self.tasks[i].stage == Stage::Computing {
                self.end_process(i, "stopped because of a fault of the MPS server".to_owned());
            }
        }
    }

    /// After a fault, when the jobs have gone: checks whether the device has recovered, and recovers it when its time
    /// is over.
    pub(super) fn recover(&mut self) {
        let computes = |t: &TaskRun| t.stage == Stage::Computing && t.job.is_some();
        if !self.faulted || self.stopping || self.tasks.iter().any(computes) {
            return;
        }
        let recovered = match self.with.host.recover() {
            Ok(Recovery::Pending) => return,
            Ok(Recovery::Recovered) => Ok("the MPS server has recovered"),
            Ok(Recovery::Replaced) => Ok("the MPS daemon was replaced"),
            Err(error) => Err(error.to_string()),
        };
        self.faulted = false;
        self.lost = recovered.is_err();
        let reason = recovered.map_or_else(|why| why, str::to_owned);
        self.tell(EventPayload::Fault {
            round: Some(self.number),
            task: None,
            reason: reason.clone(),
        });
        if self.lost {
            self.stop(&reason);
        }
    }

    /// Why a process that has ended has not done its work; `None` if it has.
    fn verdict(&self, i: usize, exit: Exit, tail: &str) -> Option<String> {
        let task = &self.tasks[i];
        let last = tail.lines().last().unwrap_or_default();
        let said = |text: String| {
            if last.is_empty() {
                text
            } else {
                format!("{text}; its last line was: {last}")
            }
        };
        if let Some(why) = &task.ending {
            return Some(why.clone());
        }
        if task.outstayed {
            return None;
        }
        match exit {
            Exit::Signal(signal) => return Some(said(format!("ended by signal {signal}"))),
            Exit::Code(0) => {}
            Exit::Code(code) => return Some(said(format!("exit code {code}"))),
        }
        if task.phase() != Some(PhaseKind::Compute) || task.silent {
            return None;
        }
        let wanted = self.with.launch.assignments().nth(i)?.samples()?;
        let done = task.told_done.unwrap_or(0).max(task.samples);
        let advice = match (task.ready, self.has_regex(i)) {
            (true, _) => "",
            (false, true) => jobs::NO_MATCH,
            (false, false) => TELLS_NONE,
        };
        (done < wanted).then(|| said(format!("ended after {done} of {wanted} samples{advice}")))
    }

    /// After a failure of the current phase: a retry, or the end of the task.
    pub(super) fn failed(&mut self, i: usize, why: String) {
        self.tasks[i].job = None;
        let why = match self.tasks[i].interrupted {
            true => format!("interrupted: {why}"),
            false => why,
        };
        let now = self.with.host.now();
        let overdue = self.tasks[i].due.is_some_and(|due| due <= now);
        let restart = self.tasks[i].restarts_of_phase + 1;
        if self.stopping || overdue || restart > self.with.settings.supervision.restarts {
            self.tell(EventPayload::Stop {
                round: Some(self.number),
                task: Some(self.id(i)),
                reason: why.clone(),
            });
            self.end_phase(i, Some(why));
            return;
        }
        let task = &mut self.tasks[i];
        task.restarts += 1;
        task.restarts_of_phase = restart;
        task.retry_at = Some(now + self.with.settings.supervision.pause(restart));
        let restarts = task.restarts;
        self.tell(EventPayload::Restart {
            round: self.number,
            task: self.id(i),
            restarts: Some(restarts),
            reason: why,
        });
    }

    /// Ends the current process of a task, which counts as a failure.
    fn end_process(&mut self, i: usize, why: String) {
        let task = &mut self.tasks[i];
        let Some(job) = task.job else {
            return;
        };
        if task.ending.is_none() {
            task.ending = Some(why);
            self.with
                .host
                .stop(job, self.with.settings.supervision.grace);
        }
    }

    pub(super) fn look_at_deadlines(&mut self) {
        let now = self.with.host.now();
        for i in 0..self.tasks.len() {
            let why = self.overdue(i, now);
            if let Some(why) = why {
                if self.is_done(i) {
                    self.end_done(i);
                } else if self.tasks[i].job.is_some() {
                    self.end_process(i, why);
                } else {
                    self.tasks[i].retry_at = None;
                    self.failed(i, why);
                }
            }
        }
    }

    /// Whether the computing job has reported that it has trained on all its samples.
    fn is_done(&self, i: usize) -> bool {
        let task = &self.tasks[i];
        let planned = self.with.launch.assignments().nth(i);
        let wanted = planned.and_then(|a| a.samples()).unwrap_or(0);
        let told = task
            .told_done
            .is_some_and(|told| told.max(task.samples) >= wanted);
        task.stage == Stage::Computing && task.job.is_some() && task.ending.is_none() && told
    }

    /// Stops the process of a job that is done but does not end (because of a data loader's thread that is never
    /// joined). Its work counts.
    fn end_done(&mut self, i: usize) {
        let task = &mut self.tasks[i];
        if let (Some(job), false) = (task.job, task.outstayed) {
            task.outstayed = true;
            self.with
                .host
                .stop(job, self.with.settings.supervision.grace);
        }
    }

    /// Whether the log lines of a task's job are read.
    fn has_regex(&self, i: usize) -> bool {
        let planned = self.with.launch.assignments().nth(i);
        planned.is_some_and(|a| a.job().is_some_and(|job| job.progress.regex.is_some()))
    }

    /// Notes that no line of a task's job has matched, with the last line.
    fn unmatched(&self, i: usize) -> String {
        const LAST: usize = 3;
        let tail = self.tasks[i].job.map(|job| self.with.host.tail(job));
        let tail = tail.unwrap_or_default();
        let mut last: Vec<&str> = tail.lines().rev().take(LAST).collect();
        last.reverse();
        let last = last.join(" | ");
        format!("{}; its last lines: {last}", jobs::NO_MATCH)
    }

    /// Which deadline of a task has passed, as a message.
    fn overdue(&self, i: usize, now: Instant) -> Option<String> {
        let task = &self.tasks[i];
        if self.deadline(task).is_none_or(|at| at > now) {
            return None;
        }
        let settings = self.with.settings;
        let seconds = |limit: Option<Duration>| limit.unwrap_or_default().as_secs_f64();
        Some(if task.due.is_some_and(|due| due <= now) {
            format!("not done after {} s", seconds(settings.total))
        } else if !task.ready {
            let words = match self.has_regex(i) {
                true => self.unmatched(i),
                false => TELLS_NONE.to_owned(),
            };
            format!("not ready after {} s{words}", seconds(settings.ready))
        } else {
            // After reporting that it is done, a job may take as long to end: it may save a checkpoint.
            format!("no step for {} s", seconds(settings.stall))
        })
    }

    /// When a task is late: with its round, with getting ready, or with its next step.
    pub(super) fn deadline(&self, task: &TaskRun) -> Option<Instant> {
        let waits = task.phase().is_some() && (task.job.is_some() || task.retry_at.is_some());
        // A job that is being ended has the time that was given for that.
        let ends = task.job.is_some() && (task.ending.is_some() || task.outstayed);
        if !waits || ends {
            return None;
        }
        let settings = self.with.settings;
        let of_job = match (task.stage, task.job) {
            (Stage::Computing, Some(_)) if task.silent => None,
            (Stage::Computing, Some(_)) if task.ready => {
                settings.stall.map(|limit| task.last_step + limit)
            }
            (Stage::Computing, Some(_)) => settings.ready.map(|limit| task.spawned + limit),
            _ => None,
        };
        task.due.into_iter().chain(of_job).min()
    }

    /// Reports the progress of tasks since the last report; `all`: even if it is not time yet.
    pub(super) fn report_progress(&mut self, all: bool) {
        let every = self.with.settings.progress_every;
        for i in 0..self.tasks.len() {
            let now = self.with.host.now();
            let at = self.tasks[i].reported.at;
            if all || at.is_none_or(|at| now.duration_since(at) >= every) {
                self.tell_progress(i, all);
            }
        }
    }

    /// `needed`: the next report cannot replace this one.
    fn tell_progress(&mut self, i: usize, needed: bool) {
        let now = self.with.host.now();
        let before = self.tasks[i].reported;
        let Some(progress) = self.tasks[i].tell(now, self.opened) else {
            return;
        };
        let payload = EventPayload::Progress {
            round: self.number,
            task: self.id(i),
            progress,
        };
        if needed {
            self.tell(payload);
        } else if !self
            .with
            .sink
            .progress(&self.with.journal.event(now, payload))
        {
            self.tasks[i].not_told(before);
        }
    }
}
