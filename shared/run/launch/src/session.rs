//! All rounds of a launch on one host.

use std::ops::Range;
use std::path::PathBuf;

use doc::{EventPayload, Provenance, TaskSummary};
use host::Host;
use jobs::Journal;
use runner::{Runner, Sink, Stop};
use units::{Seconds, TaskId};

use crate::adapt::{Adapted, Correction, Hearing};
use crate::launch::Launch;
use crate::learn::Course;
use crate::round::{Context, RoundRun};
use crate::settings::LaunchSettings;
use crate::task::rate;

/// State of a launch over all its rounds.
pub struct Rounds<'a> {
    /// The launch as in its first round.
    pub launch: Launch,
    /// How jobs are supervised.
    pub settings: &'a LaunchSettings,
    /// Host of the jobs. It is dropped before the summary is reported, which ends everything that still runs.
    pub host: Box<dyn Host>,
    /// Processors of each task.
    pub cpus: Vec<Vec<usize>>,
    /// Folder of the tasks' logs.
    pub logs: PathBuf,
    /// The learner, if the shares of rounds are learnt.
    pub course: Option<Course>,
}

/// Result of a launch.
#[derive(Debug, Clone, PartialEq)]
pub struct Played {
    /// Whether every task finished in every round.
    pub ok: bool,
    /// The signal that ended the launch.
    pub signal: Option<i32>,
    /// Tasks that did not finish, except interrupted ones.
    pub failed: Vec<TaskId>,
    /// Tasks that had not ended when the launch was stopped from outside.
    pub interrupted: Vec<TaskId>,
}

/// Name of a task's log.
pub(crate) fn log_name(task: &TaskId) -> String {
    format!("{task}.log")
}

impl Rounds<'_> {
    /// Runs the rounds and reports every event, from `launch` to `summary`.
    pub fn play(
        mut self,
        rounds: Range<u32>,
        provenance: Provenance,
        sink: &mut dyn Sink,
    ) -> Played {
        let journal = Journal::new(self.host.now());
        let planned = Some(self.launch.planned());
        sink.event(&journal.launch(self.host.fingerprint(), planned, provenance));
        let mut totals: Vec<TaskSummary> = Vec::new();
        let mut ok = true;
        let mut signal = None;
        let mut correction = Correction::default();
        self.learn(rounds.start, journal, sink);
        for number in rounds.clone() {
            let mut hearing = Hearing {
                inner: &mut *sink,
                noise: &mut correction.noise,
                course: self.course.as_mut(),
            };
            let context = Context {
                launch: &self.launch,
                settings: self.settings,
                cpus: &self.cpus,
                logs: &self.logs,
            };
            let mut round = RoundRun::new(context, number, self.host.now());
            let supervision = &self.settings.supervision;
            let host = self.host.as_mut();
            let over = Runner::new(host, &mut hearing, supervision, journal).run(&mut round);
            let (mut event, outcome) = round.outcome();
            if let Some(course) = &mut self.course {
                course.end(&mut event);
            }
            sink.event(&journal.event(self.host.now(), event));
            ok &= outcome.ok;
            signal = over.signal;
            if number + 1 < rounds.end && outcome.ok {
                self.adapt(&mut correction, number, journal, &outcome.tasks, sink);
                self.learn(number + 1, journal, sink);
            }
            correction.noise.next_round();
            add(&mut totals, outcome.tasks);
            let rest = number + 1 < rounds.end;
            if signal.is_some() || over.lost {
                ok &= !rest && signal.is_none();
                break;
            }
            if rest && sink.is_closed() {
                // Explains why rounds are missing although no task failed.
                let stop = EventPayload::Stop {
                    round: None,
                    task: None,
                    reason: Stop::ReaderGone.to_string(),
                };
                sink.event(&journal.event(self.host.now(), stop));
                ok = false;
                break;
            }
        }
        let ended = self.host.now();
        // No job may run any more when the summary is written.
        drop(self.host);
        let (interrupted, failed) = unfinished(&totals);
        sink.event(&journal.summary(ended, ok, totals));
        Played {
            ok,
            signal,
            failed,
            interrupted,
        }
    }

    /// Corrects model and plan by the measurements of a round, if requested.
    fn adapt(
        &mut self,
        correction: &mut Correction,
        round: u32,
        journal: Journal,
        measured: &[TaskSummary],
        sink: &mut dyn Sink,
    ) {
        let Some(part) = self.settings.adapt else {
            return;
        };
        let (launch, what) = match correction.adapt(&self.launch, measured, part) {
            Ok(Adapted::Anew(launch, what)) => (launch, what),
            Ok(Adapted::Stays(why)) | Err(why) => {
                return sink.note(&format!("the plan stays as it is: {why}"));
            }
        };
        let replan = EventPayload::Replan {
            round: Some(round + 1),
            reason: what,
            planned: Some(launch.planned()),
        };
        sink.event(&journal.event(self.host.now(), replan));
        self.launch = *launch;
    }

    /// Sets the shares of a round to those learnt from the rounds so far.
    fn learn(&mut self, round: u32, journal: Journal, sink: &mut dyn Sink) {
        let Some((choice, reason)) = self.course.as_mut().map(Course::next) else {
            return;
        };
        if self
            .launch
            .assignments()
            .map(|a| a.share)
            .eq(choice.shares.iter().copied())
        {
            return;
        }
        match self.launch.with_shares(&choice.shares) {
            Ok(launch) => {
                let replan = EventPayload::Replan {
                    round: Some(round),
                    reason,
                    planned: Some(launch.planned()),
                };
                sink.event(&journal.event(self.host.now(), replan));
                self.launch = launch;
            }
            Err(error) => sink.note(&format!("the shares stay as they are: {error}")),
        }
    }
}

/// The interrupted tasks, and the others that did not finish.
pub(crate) fn unfinished(tasks: &[TaskSummary]) -> (Vec<TaskId>, Vec<TaskId>) {
    let unfinished = tasks.iter().filter(|t| !t.finished);
    let (interrupted, failed): (Vec<_>, Vec<_>) = unfinished.partition(|t| t.interrupted);
    let names = |tasks: Vec<&TaskSummary>| tasks.into_iter().map(|t| t.id.clone()).collect();
    (names(interrupted), names(failed))
}

fn add(totals: &mut Vec<TaskSummary>, round: Vec<TaskSummary>) {
    if totals.is_empty() {
        *totals = round;
        return;
    }
    for task in round {
        // A plan that was solved again may have the tasks in another order.
        let Some(total) = totals.iter_mut().find(|t| t.id == task.id) else {
            totals.push(task);
            continue;
        };
        total.finished &= task.finished;
        total.interrupted |= task.interrupted;
        total.samples += task.samples;
        total.restarts += task.restarts;
        total.dropped += task.dropped;
        total.batch = task.batch;
        total.share = task.share;
        total.trained = match (total.trained, task.trained) {
            (Some(before), Some(now)) => Seconds::new(before.get() + now.get()).ok(),
            (before, now) => before.or(now),
        };
        if task.together.is_some() {
            (total.together, total.rate) = (task.together, task.rate);
        } else if total.together.is_none() {
            let seconds = total.trained.map_or(0.0, Seconds::get);
            total.rate = rate(total.samples, seconds);
        }
        total.predicted = task.predicted;
        total.first_loss = total.first_loss.or(task.first_loss);
        total.last_loss = task.last_loss.or(total.last_loss);
        total.end = task.end;
    }
}

#[cfg(test)]
mod tests;
