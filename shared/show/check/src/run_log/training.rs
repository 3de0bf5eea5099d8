//! Checks what summaries report about a task's training: batch size, share, seconds, and the throughput over those
//! seconds.
//!
//! If a plan is followed, seconds and throughput are summed over the intervals between progress events. All tasks
//! trained during an interval if it begins after every task of the plan was ready and ends before any process has
//! ended. The number of samples at a restart is not recorded, so the first interval of a restarted process never
//! counts.

use std::collections::BTreeMap;

use doc::{EventPayload, PhaseKind, Planned, RunEvent, TaskProgress, TaskSummary};
use units::{SamplesPerSec, Seconds, TaskId};

use super::event::at_event;
use crate::judge::Judge;

/// Judges the summaries of rounds and of the run.
pub fn judge(events: &[RunEvent], j: &mut Judge) {
    let tells = |e: &RunEvent| match &e.payload {
        EventPayload::Progress { progress, .. } => progress.trained.is_some(),
        _ => false,
    };
    let mut log = Log {
        measured: events.iter().any(tells),
        ..Log::default()
    };
    for (at, event) in events.iter().enumerate() {
        if let Some(planned) = event.planned() {
            log.planned = Some(planned);
        }
        match &event.payload {
            EventPayload::Round { tasks, .. } => {
                each(at, tasks, j, |task, j| {
                    let truth = log.round.remove(&task.id).unwrap_or_default().outcome();
                    let sum = log.run.entry(&task.id).or_default();
                    sum.add(truth);
                    log.compare(task, truth, j);
                });
                log.round.clear();
                log.opened = None;
            }
            EventPayload::Summary { tasks, .. } => {
                each(at, tasks, j, |task, j| {
                    let of_rounds = log.run.get(&task.id).copied();
                    let own = log.round.get(&task.id).cloned().unwrap_or_default();
                    log.compare(task, of_rounds.unwrap_or_else(|| own.outcome()), j);
                });
            }
            _ => log.take(at, event, j),
        }
    }
}

fn each<'a>(
    at: usize,
    tasks: &'a [TaskSummary],
    j: &mut Judge,
    mut look: impl FnMut(&'a TaskSummary, &mut Judge),
) {
    for (i, task) in tasks.iter().enumerate() {
        at_event(at, j, |j| {
            j.field("tasks", |j| j.index(i, |j| look(task, j)))
        });
    }
}

/// State of the run up to the current event.
#[derive(Default)]
struct Log<'a> {
    /// Whether progress events contain the seconds of training.
    measured: bool,
    planned: Option<&'a Planned>,
    round: BTreeMap<&'a TaskId, Trained>,
    run: BTreeMap<&'a TaskId, ExpectedSummary>,
    /// Time since which every task of the plan trains; `None` if not all do.
    opened: Option<f64>,
}

/// The training of a task in the current round.
#[derive(Debug, Clone, Default)]
struct Trained {
    starts: u32,
    ready: bool,
    /// Time and number of samples of the last report.
    told: Option<(f64, u64)>,
    /// Seconds of training in its last progress event.
    seconds: Option<f64>,
    /// Seconds of its compute phases.
    computed: f64,
    /// Samples and seconds of intervals in which all tasks trained.
    together: (u64, f64),
}

/// Expected values of a summary.
#[derive(Debug, Clone, Copy, Default)]
struct ExpectedSummary {
    seconds: Option<f64>,
    together: Option<(u64, f64)>,
    /// Seconds of compute phases.
    computed: f64,
}

impl<'a> Log<'a> {
    fn take(&mut self, at: usize, event: &'a RunEvent, j: &mut Judge) {
        let Some(task) = event.task() else {
            return;
        };
        let (now, opened) = (event.time.get(), self.opened);
        // In a run of a plan, either every progress event reports its seconds or none does.
        let judged = self.measured && self.planned.is_some();
        let known = self.round.entry(task).or_default();
        match &event.payload {
            EventPayload::Start { .. } => {
                known.starts += 1;
                (known.ready, known.told) = (false, None);
            }
            EventPayload::Ready { .. } => {
                known.ready = true;
                known.told = (known.starts == 1).then_some((now, 0));
                let all = self.planned.is_some_and(|planned| {
                    let tasks = planned.plan().tasks.iter();
                    let ready = |id| self.round.get(id).is_some_and(|known| known.ready);
                    tasks.map(|t| &t.id).all(ready)
                });
                self.opened = all.then_some(now);
            }
            EventPayload::Progress { progress, .. } => {
                if judged {
                    at_event(at, j, |j| known.rate(progress, j));
                }
                known.progress(progress, now, opened);
            }
            EventPayload::Exit { .. } => {
                known.ready = false;
                self.opened = None;
            }
            EventPayload::Phase {
                phase: PhaseKind::Compute,
                start,
                end,
                ..
            } => known.computed += end.get() - start.get(),
            _ => {}
        }
    }

    /// Compares a summary with the sums of the events.
    fn compare(&self, task: &TaskSummary, truth: ExpectedSummary, j: &mut Judge) {
        if let Some(planned) = self.planned {
            as_planned(task, planned, j);
        }
        let rate = task.rate.map(SamplesPerSec::get);
        let seconds = task.trained.map(Seconds::get);
        // A run of a schedule reports phases instead of seconds; older runs report neither.
        let expected = match (self.measured, self.planned) {
            (true, _) => truth.seconds,
            (false, None) => seconds.map(|_| truth.computed),
            (false, Some(_)) => None,
        };
        // Older summaries have neither seconds nor a mean over them.
        if seconds.is_none() && together_is_absent(task) {
            return;
        }
        j.optional_number("seconds", seconds, expected);
        let together = task.together.map(Seconds::get);
        let scale = expected.unwrap_or(0.0);
        match (together, truth.together) {
            (Some(claimed), Some((_, truth))) => {
                j.number_of("together_s", claimed, truth, scale);
            }
            (claimed, truth) => {
                j.optional_number("together_s", claimed, truth.map(|(_, seconds)| seconds));
            }
        }
        // Divide by the seconds of the summary itself, which were checked above: they are a difference of two
        // times, which has fewer digits than either.
        let (samples, over) = match truth.together {
            Some((samples, truth)) => (samples, Some(together.unwrap_or(truth))),
            None => (task.samples, seconds.or(expected)),
        };
        let over = over.filter(|_| samples > 0 || self.measured);
        let truth = over.map(|s| samples as f64 / s).filter(|r| r.is_finite());
        j.optional_number("samples_per_s", rate, truth);
    }
}

fn together_is_absent(task: &TaskSummary) -> bool {
    task.together.is_none() && task.batch.is_none()
}

/// Batch size and share must be the plan's.
fn as_planned(task: &TaskSummary, planned: &Planned, j: &mut Judge) {
    let plan = planned.plan();
    let Some(i) = plan.task_index(&task.id) else {
        return;
    };
    let ordered = planned.timeline().and_then(|t| t.batches[i]);
    if let (Some(claimed), Some(batch)) = (task.batch, ordered.or(plan.given(i).batch)) {
        j.same("batch", claimed, batch);
    }
    if let (Some(claimed), Some(share)) = (task.share, plan.given(i).share) {
        j.same("share_percent", claimed.percent(), share.percent());
    }
}

impl Trained {
    /// The throughput of a progress event must follow from samples and seconds since the previous event.
    fn rate(&self, progress: &TaskProgress, j: &mut Judge) {
        let Some(seconds) = progress.trained.map(Seconds::get) else {
            return j.contradiction("seconds", "nothing", "what the task has trained");
        };
        let time = seconds - self.seconds.unwrap_or(0.0);
        if time < 0.0 {
            let truth = format!("at least {}, reported before", self.seconds.unwrap_or(0.0));
            return j.contradiction("seconds", seconds, truth);
        }
        let Some((_, before)) = self.told else {
            return;
        };
        let rate = progress.samples.saturating_sub(before) as f64 / time;
        let truth = Some(rate).filter(|rate| rate.is_finite());
        let claimed = progress.rate.map(SamplesPerSec::get);
        match (claimed, truth) {
            (Some(claimed), Some(truth)) => {
                // A difference of two sums of seconds has fewer digits than either: allow some units in the last
                // place of the later sum, expressed in billionths of the rate.
                let digits = 1e9 * 8.0 * f64::EPSILON * seconds / time;
                j.number_of("samples_per_s", claimed, truth, truth * digits.max(1.0));
            }
            (Some(claimed), None) => j.contradiction("samples_per_s", claimed, "nothing"),
            // The rate may be absent.
            (None, _) => {}
        }
    }

    fn progress(&mut self, progress: &TaskProgress, now: f64, opened: Option<f64>) {
        let Some(seconds) = progress.trained.map(Seconds::get) else {
            return;
        };
        let time = seconds - self.seconds.unwrap_or(0.0);
        if let (Some(opened), Some((told, samples))) = (opened, self.told)
            && told >= opened
            && time > 0.0
        {
            self.together.0 += progress.samples.saturating_sub(samples);
            self.together.1 += time;
        }
        self.told = Some((now, progress.samples));
        self.seconds = Some(seconds);
    }

    fn outcome(&self) -> ExpectedSummary {
        ExpectedSummary {
            seconds: self.seconds,
            together: Some(self.together).filter(|(_, seconds)| *seconds > 0.0),
            computed: self.computed,
        }
    }
}

impl ExpectedSummary {
    /// Adds a round: seconds add up, while the throughput of all tasks together is that of the last round that has
    /// one.
    fn add(&mut self, round: Self) {
        self.seconds = match (self.seconds, round.seconds) {
            (Some(before), Some(now)) => Some(before + now),
            (before, now) => before.or(now),
        };
        self.together = round.together.or(self.together);
        self.computed += round.computed;
    }
}
