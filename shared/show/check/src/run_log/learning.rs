//! Checks what a launch reports about learning its shares: which shares were new, how long rounds were expected to
//! take, and how much time was saved against the first shares.

mod estimate;

use std::collections::BTreeMap;

use doc::{EventPayload, Learning, PhaseKind, Plan, RunEvent, ShareChoice, TaskSummary};
use units::{Seconds, Share, TaskId};

use super::event::{at_event, plan_of};
use crate::judge::{Judge, ROUNDING, shown};
use estimate::{Estimate, Taught};

/// Tolerance for expected times: two solutions of the same ill-conditioned equations differ by more than rounding.
/// The variance of the unknown level is 4 and the smallest noise variance is 0.003², so a time may differ by up to
/// `1e-6`, a thousand times [`crate::judge::ROUNDING`].
const DIGITS: f64 = 1e3;

/// Judges the end of every round of a launch that learns.
pub fn judge(events: &[RunEvent], j: &mut Judge) {
    let learns = |e: &RunEvent| learning_of(e).is_some();
    let Some((plan, true)) = events
        .first()
        .and_then(plan_of)
        .map(|plan| (plan, events.iter().any(learns)))
    else {
        return none_without_plan(events, j);
    };
    replans(plan, events, j);
    let mut pupil = Pupil::new(plan);
    for (at, event) in events.iter().enumerate() {
        match &event.payload {
            EventPayload::Phase {
                task,
                phase,
                start,
                end,
                reason: None,
                ..
            } => pupil.phase(task, *phase, (start.get(), end.get())),
            EventPayload::Round {
                ok,
                tasks,
                learning,
                ..
            } => at_event(at, j, |j| {
                let taught = pupil.taught(*ok, tasks);
                match learning {
                    Some(told) => j.field("learning", |j| pupil.round(told, tasks, taught, j)),
                    None => j.contradiction("learning", "nothing", "as in the other rounds"),
                }
            }),
            _ => {}
        }
    }
}

/// A new plan must be for the next round, and must have other shares than the previous plan.
fn replans<'a>(mut plan: &'a Plan, events: &'a [RunEvent], j: &mut Judge) {
    let ended = |e: &RunEvent| match e.payload {
        EventPayload::Round { round, .. } => Some(round),
        _ => None,
    };
    let mut next = events.iter().find_map(ended);
    for (at, event) in events.iter().enumerate() {
        next = ended(event).map(|round| round.saturating_add(1)).or(next);
        let (EventPayload::Replan { round, .. }, Some(new)) = (&event.payload, plan_of(event))
        else {
            continue;
        };
        at_event(at, j, |j| {
            j.same_option("round", *round, next);
            if planned(new) == planned(plan) {
                j.contradiction("event", "replan", "other shares than before");
            }
        });
        plan = new;
    }
}

fn learning_of(event: &RunEvent) -> Option<&Learning> {
    match &event.payload {
        EventPayload::Round { learning, .. } => learning.as_ref(),
        _ => None,
    }
}

/// Without a plan no event may report learning, since shares are learnt for the tasks of a plan.
fn none_without_plan(events: &[RunEvent], j: &mut Judge) {
    for (at, event) in events.iter().enumerate() {
        if learning_of(event).is_some() {
            at_event(at, j, |j| {
                j.contradiction("learning", "given", "nothing: the launch has no plan");
            });
        }
    }
}

/// State of learning up to an event.
struct Pupil<'a> {
    plan: &'a Plan,
    /// Start and end of each task's compute phase in this round; `over` has the end of its last phase.
    compute: BTreeMap<&'a TaskId, (f64, f64)>,
    over: BTreeMap<&'a TaskId, f64>,
    estimate: Estimate,
    /// From the previous round: the number of rounds of earlier launches, and the seconds saved.
    before: Option<(u64, f64)>,
    /// Size of the numbers summed so far, for the tolerance.
    scale: f64,
}

impl<'a> Pupil<'a> {
    fn new(plan: &'a Plan) -> Self {
        Self {
            plan,
            compute: BTreeMap::new(),
            over: BTreeMap::new(),
            estimate: Estimate::default(),
            before: None,
            scale: 0.0,
        }
    }

    fn phase(&mut self, task: &'a TaskId, kind: PhaseKind, phase: (f64, f64)) {
        if kind == PhaseKind::Compute {
            self.compute.insert(task, phase);
        }
        self.over.insert(task, phase.1);
    }

    /// Lesson of a round; `None` if a task did not finish at its first try.
    fn taught(&mut self, ok: bool, tasks: &[TaskSummary]) -> Option<Taught> {
        let compute = std::mem::take(&mut self.compute);
        let over = std::mem::take(&mut self.over);
        if !ok || tasks.iter().any(|t| t.restarts > 0) {
            return None;
        }
        let mut taught = Taught {
            shares: shares(self.plan, tasks)?,
            ..Taught::default()
        };
        for task in &self.plan.tasks {
            let (start, end) = *compute.get(&task.id)?;
            taught.seconds.push((end - start).max(1e-3));
            taught.rest.push(start + over.get(&task.id)? - end);
        }
        Some(taught)
    }

    fn round(
        &mut self,
        told: &Learning,
        tasks: &[TaskSummary],
        taught: Option<Taught>,
        j: &mut Judge,
    ) {
        let (earlier, saved_s) = self.before.unwrap_or((told.earlier, 0.0));
        j.same("earlier", told.earlier, earlier);
        for (name, claimed, known) in [
            ("noise", told.noise, &estimate::NOISES[..]),
            ("drift", told.drift, &estimate::DRIFTS[..]),
        ] {
            if !known.contains(&claimed) {
                j.contradiction(name, claimed, format!("one of {known:?}"));
            }
        }
        let alone = told.earlier == 0;
        if !alone && self.before.is_none() {
            let text = "what was expected is not recomputed: rounds of earlier launches were known";
            j.unjudged("", text);
        }
        if let Some(shares) = shares(self.plan, tasks) {
            self.choice(told, &shares, alone, j);
        }
        let mut saved = saved_s;
        if let Some(taught) = &taught {
            self.estimate.learn(taught.clone());
        }
        // Expected times of the next round use the noise and drift that this round reports.
        self.estimate.assume(told.noise, told.drift);
        match (&taught, told.first) {
            (Some(taught), Some(first)) => {
                if alone {
                    let truth = self.estimate.last_under(&planned(self.plan));
                    close(Some(first), truth, "first_s", j);
                }
                saved += first.get() - taught.round_s();
                self.scale += first.get() + taught.round_s();
            }
            (None, None) => {}
            (taught, first) => {
                let truth = taught.as_ref().map_or("nothing", |_| "an estimate");
                j.contradiction("first_s", shown(first.map(Seconds::get)), truth);
            }
        }
        j.number_of("saved_s", told.saved_s, saved, self.scale);
        self.before = Some((told.earlier, told.saved_s));
    }

    /// Judges the reason for the shares of the round, and the expected times.
    fn choice(&self, told: &Learning, shares: &[f64], alone: bool, j: &mut Judge) {
        let known = self.estimate.knows(shares);
        let nothing = alone && self.estimate.is_empty();
        let others = self.estimate.best_but(shares);
        let here = self.estimate.next_under(shares);
        let ahead = |a: f64, b: f64| a < b * (1.0 - DIGITS * ROUNDING);
        let truth = match told.choice {
            _ if nothing => ShareChoice::First,
            ShareChoice::First => ShareChoice::Best,
            // What an earlier launch has tried is not known here.
            choice if !alone => choice,
            _ if !known => ShareChoice::Trial,
            ShareChoice::Best if others.is_some_and(|s| ahead(s, here)) => ShareChoice::Trial,
            // What was tried may be tried again, but not what is the best.
            ShareChoice::Trial if others.is_none_or(|s| ahead(here, s)) => ShareChoice::Best,
            choice => choice,
        };
        j.same("choice", told.choice.name(), truth.name());
        if !alone {
            return;
        }
        let (expected, best) = match nothing {
            true => (None, None),
            false => (Some(self.estimate.next_under(shares)), self.estimate.best()),
        };
        close(told.expected, expected, "expected_s", j);
        close(told.best, best, "best_s", j);
    }
}

fn close(claimed: Option<Seconds>, truth: Option<f64>, name: &str, j: &mut Judge) {
    match (claimed.map(Seconds::get), truth) {
        (Some(claimed), Some(truth)) => j.number_of(name, claimed, truth, DIGITS * truth),
        (claimed, truth) => j.optional_number(name, claimed, truth),
    }
}

/// Shares of a round in the order of the plan; `None` if a task has no share.
fn shares(plan: &Plan, tasks: &[TaskSummary]) -> Option<Vec<f64>> {
    let share = |id: &TaskId| tasks.iter().find(|t| t.id == *id)?.share;
    let all = plan.tasks.iter().map(|t| share(&t.id));
    all.map(|share| share.map(Share::fraction)).collect()
}

/// The launch's first shares.
fn planned(plan: &Plan) -> Vec<f64> {
    let share = |i| plan.given(i).share.map_or(1.0, Share::fraction);
    (0..plan.tasks.len()).map(share).collect()
}
