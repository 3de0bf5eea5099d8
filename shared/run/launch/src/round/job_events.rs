//! Events of jobs, and their consequences.

use std::time::{Duration, Instant};

use doc::{EventPayload, PhaseKind};
use jobs::Steps;
use runner::{Ended, Happened, Policy, RunState, Stop, TELLS_NONE, Verdict, process_end};
use units::TaskId;

use super::{Key, RoundRun, Run};
use crate::task::TaskRun;
use crate::turns::Stage;

impl Policy for RoundRun<'_> {
    type Key = Key;

    fn round(&self) -> Option<u32> {
        Some(self.number)
    }

    fn task(&self, i: Key) -> TaskId {
        self.id(i)
    }

    fn decide(&mut self, run: &mut Run<'_>) {
        self.start_what_may(run);
    }

    fn happened(&mut self, run: &mut Run<'_>, i: Key, at: Instant, what: &Happened) {
        match what {
            Happened::Ready => self.ready(run, i, at),
            Happened::Steps { first, steps } => {
                self.stepped(i, at, steps);
                // This report must be delivered, because it begins an interval that can be compared with a prediction:
                // all tasks train in it, and the number of samples at its beginning is known.
                if *first || self.tasks[i].is_untold(self.opened) {
                    self.tell_progress(run, i, true);
                }
                self.finish(run, i);
            }
            Happened::Done { samples } => self.told_done(run, i, *samples),
            Happened::Loaded | Happened::Parked => {}
        }
    }

    fn ended(&mut self, run: &mut Run<'_>, i: Key, ended: &Ended) -> Result<(), String> {
        self.report_progress(run, true);
        self.opened = None;
        let judged = self.judge(i, ended);
        run.tell(EventPayload::Exit {
            round: self.number,
            task: self.id(i),
            phase: self.tasks[i].phase(),
            end: process_end(ended.exit),
            reason: ended.reason(judged.as_ref().err().map(String::as_str)),
        });
        let task = &mut self.tasks[i];
        task.exit = Some(ended.exit);
        task.runs = false;
        if judged.is_ok() {
            self.end_phase(run, i, None);
        }
        judged
    }

    /// After a failure of the current phase: a retry, or the end of the task.
    fn failed(&mut self, run: &mut Run<'_>, i: Key, why: String) {
        self.tasks[i].runs = false;
        let why = match self.tasks[i].interrupted {
            true => format!("interrupted: {why}"),
            false => why,
        };
        let overdue = self.tasks[i].due.is_some_and(|due| due <= run.now());
        let restart = self.tasks[i].restarts_of_phase + 1;
        if run.is_stopping() || overdue || restart > run.supervision().restarts {
            run.tell(EventPayload::Stop {
                round: Some(self.number),
                task: Some(self.id(i)),
                reason: why.clone(),
            });
            self.end_phase(run, i, Some(why));
            return;
        }
        let task = &mut self.tasks[i];
        task.restarts += 1;
        task.restarts_of_phase = restart;
        task.retry_at = Some(run.retry_at(restart));
        let restarts = task.restarts;
        run.tell(EventPayload::Restart {
            round: self.number,
            task: self.id(i),
            restarts: Some(restarts),
            reason: why,
        });
    }

    /// Tasks that have not ended when a round is stopped from outside count as interrupted.
    fn stopped(&mut self, _: &mut Run<'_>, why: &Stop) {
        if let Stop::Signal(_) | Stop::ReaderGone = why {
            for task in &mut self.tasks {
                task.interrupted = !task.stage.is_over();
            }
        }
    }

    fn turned(&mut self, run: &mut Run<'_>) {
        self.give_up_the_overdue(run);
        self.report_progress(run, false);
    }

    fn due(&self, run: &Run<'_>) -> Option<Instant> {
        if run.is_faulted() || run.is_stopping() {
            return None;
        }
        let waiting = self.tasks.iter().filter(|t| t.retry_at.is_some());
        waiting
            .flat_map(|t| t.retry_at.into_iter().chain(t.due))
            .min()
    }

    fn postpone(&mut self, pause: Duration) {
        for task in &mut self.tasks {
            task.due = task.due.map(|due| due + pause);
        }
    }

    fn is_over(&self, run: &Run<'_>) -> bool {
        run.is_stopping() || self.tasks.iter().all(|t| t.stage.is_over())
    }

    fn state(&self, _: &Run<'_>) -> RunState {
        RunState {
            round: self.number,
            rows: self.rows(),
            line: None,
        }
    }
}

impl RoundRun<'_> {
    fn ready(&mut self, run: &mut Run<'_>, i: usize, at: Instant) {
        let now = run.now();
        self.tasks[i].warm(at, now);
        if self.tasks.iter().all(TaskRun::is_training) {
            self.opened = Some(now);
        }
        run.tell(EventPayload::Ready {
            round: self.number,
            task: self.id(i),
        });
    }

    fn stepped(&mut self, i: usize, at: Instant, steps: &Steps) {
        let task = &mut self.tasks[i];
        if task.stage == Stage::Computing {
            task.step(at, steps.samples, steps.loss);
            task.gradients(&steps.gradient);
        }
    }

    fn told_done(&mut self, run: &mut Run<'_>, i: usize, samples: Option<u64>) {
        let told = samples.unwrap_or(self.tasks[i].samples);
        self.tasks[i].told_done = Some(told);
        self.finish(run, i);
    }

    /// Marks a computing job as finished once it has reported that it has trained on all its samples.
    fn finish(&self, run: &mut Run<'_>, i: usize) {
        let task = &self.tasks[i];
        let planned = self.with.launch.assignments().nth(i);
        let wanted = planned.and_then(|a| a.samples()).unwrap_or(0);
        let told = task
            .told_done
            .is_some_and(|told| told.max(task.samples) >= wanted);
        if task.stage == Stage::Computing && told {
            run.finished(i);
        }
    }

    /// Checks whether an ended process has done its work: a computing one must have trained on all its samples. The
    /// error is the reason why not.
    fn judge(&self, i: usize, ended: &Ended) -> Result<(), String> {
        let task = &self.tasks[i];
        if ended.verdict != Verdict::Done {
            return Err(ended.why.clone().unwrap_or_default());
        }
        let compute = task.phase() == Some(PhaseKind::Compute);
        let planned = self.with.launch.assignments().nth(i);
        let wanted = planned.and_then(|a| a.samples());
        let Some(wanted) = wanted.filter(|_| compute && !task.silent && !ended.outstayed) else {
            return Ok(());
        };
        let done = task.told_done.unwrap_or(0).max(task.samples);
        let advice = match (task.ready, self.has_regex(i)) {
            (true, _) => "",
            (false, true) => jobs::NO_MATCH,
            (false, false) => TELLS_NONE,
        };
        let last = jobs::last_words(ended.last_line());
        match done < wanted {
            true => Err(format!(
                "ended after {done} of {wanted} samples{advice}{last}"
            )),
            false => Ok(()),
        }
    }

    /// Gives up tasks that still wait for a retry when their time limit has passed.
    fn give_up_the_overdue(&mut self, run: &mut Run<'_>) {
        let now = run.now();
        for i in 0..self.tasks.len() {
            let task = &mut self.tasks[i];
            if !task.runs && task.retry_at.is_some() && task.due.is_some_and(|due| due <= now) {
                task.retry_at = None;
                let limit = self.with.settings.total.unwrap_or_default();
                let why = format!("not done after {} s", limit.as_secs_f64());
                self.failed(run, i, why);
            }
        }
    }

    /// Whether progress is read from the log lines of a task's job.
    pub(super) fn has_regex(&self, i: usize) -> bool {
        let planned = self.with.launch.assignments().nth(i);
        planned.is_some_and(|a| a.job().is_some_and(|job| job.progress.regex.is_some()))
    }

    /// Reports the progress of tasks since the last report; `all`: even if it is not time yet.
    fn report_progress(&mut self, run: &mut Run<'_>, all: bool) {
        let every = self.with.settings.progress_every;
        for i in 0..self.tasks.len() {
            let now = run.now();
            let at = self.tasks[i].reported.at;
            if all || at.is_none_or(|at| now.duration_since(at) >= every) {
                self.tell_progress(run, i, all);
            }
        }
    }

    /// Reports the progress of a task. `needed`: the report must be delivered, because the next one cannot replace it.
    fn tell_progress(&mut self, run: &mut Run<'_>, i: usize, needed: bool) {
        let before = self.tasks[i].reported;
        let Some(progress) = self.tasks[i].tell(run.now(), self.opened) else {
            return;
        };
        let payload = EventPayload::Progress {
            round: self.number,
            task: self.id(i),
            progress,
        };
        if needed {
            run.tell(payload);
        } else if !run.tell_progress(payload) {
            self.tasks[i].not_told(before);
        }
    }
}
