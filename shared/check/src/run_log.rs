//! A run: are its events possible in this order, and is the summary theirs?

mod assignments;
mod phases;
mod simulated;
mod tally;

use doc::wire::EventKind;
use doc::{Plan, PlanTask, RunEvent};

use crate::judge::Judge;
use crate::rates::{Rates, everyone};
use crate::{plan, timeline};

/// Judges the events of a run; answers its name. Paths name events: `$.events[3]`.
pub fn judge(events: &[RunEvent], j: &mut Judge) -> Option<String> {
    carried(events, j);
    order(events, j);
    phases::judge(events, j);
    tally::judge(events, j);
    assignments::judge(events, j);
    simulated::judge(events, j);
    predictions(events, j);
    plan_of(events.first()?)?.id.clone()
}

/// The plan that an event carries.
fn plan_of(event: &RunEvent) -> Option<&Plan> {
    let of_timeline = event.timeline.as_ref().map(|t| &t.plan);
    of_timeline.or(event.plan.as_ref())
}

/// Throughput of each task of the plan that an event carries while all run, where it is known:
/// predicted anew if a timeline has changed batch sizes.
fn rates_of(event: &RunEvent, plan: &Plan) -> Vec<Option<f64>> {
    let batches = event.timeline.iter().flat_map(|t| &t.batches);
    let varied = batches
        .zip(&plan.tasks)
        .any(|(ordered, task)| ordered.is_some() && *ordered != task.batch);
    match (&event.timeline, &plan.model) {
        (Some(timeline), Some(model)) if varied => {
            let row = Rates::predicted(timeline, model)
                .and_then(|mut rates| rates.row(everyone(plan.tasks.len())));
            row.map_or_else(|_| Vec::new(), |row| row.into_iter().map(Some).collect())
        }
        _ => {
            let planned = |t: &PlanTask| t.throughput.map(|e| e.mean.get());
            plan.tasks.iter().map(planned).collect()
        }
    }
}

/// Looks into event `at` while `look` runs.
fn at_event(at: usize, j: &mut Judge, look: impl FnOnce(&mut Judge)) {
    j.field("events", |j| j.index(at, look));
}

/// Timelines and plans that stand in events.
fn carried(events: &[RunEvent], j: &mut Judge) {
    for (at, event) in events.iter().enumerate() {
        at_event(at, j, |j| {
            if let Some(t) = &event.timeline {
                j.field("timeline", |j| timeline::judge(t, j));
            }
            if let Some(p) = &event.plan {
                j.field("plan", |j| plan::judge(p, j));
            }
        });
    }
}

/// Times never fall, a job is started before it does anything, nothing follows the summary.
fn order(events: &[RunEvent], j: &mut Judge) {
    let mut now = 0.0_f64;
    let mut started: Vec<&str> = Vec::new();
    for (at, event) in events.iter().enumerate() {
        let f = &event.fields;
        at_event(at, j, |j| {
            if f.time_s < now {
                j.lie(
                    "time_s",
                    f.time_s,
                    format!("at least {now}, the time of an event before"),
                );
            }
            let task = f.task.as_deref().unwrap_or_default();
            let needs_start = matches!(event.kind(), EventKind::Ready | EventKind::Progress);
            if needs_start && !started.contains(&task) {
                j.lie(
                    "event",
                    format!("{:?} of {task}", event.kind()),
                    "after its start",
                );
            }
            if event.kind() == EventKind::Summary && at + 1 < events.len() {
                j.lie("event", "summary", "the last event");
            }
            if event.kind() == EventKind::Launch && at > 0 {
                j.lie("event", "launch", "the first event");
            }
        });
        now = now.max(f.time_s);
        if event.kind() == EventKind::Start {
            started.extend(f.task.as_deref());
        }
    }
    if events.last().is_none_or(|e| e.kind() != EventKind::Summary) {
        j.unjudged(
            "events",
            "the run has no summary: it was stopped or still goes on",
        );
    }
}

/// Predictions that events repeat are those of the plan, at the batch sizes of the timeline.
fn predictions(events: &[RunEvent], j: &mut Judge) {
    let mut predicted: Vec<(&str, f64)> = Vec::new();
    for (at, event) in events.iter().enumerate() {
        if let Some(plan) = plan_of(event) {
            let rates = rates_of(event, plan);
            let names = plan.tasks.iter().map(|t| t.id.as_str());
            predicted = names
                .zip(rates)
                .filter_map(|(n, r)| Some((n, r?)))
                .collect();
        }
        let known = |id: &str| predicted.iter().find(|(n, _)| *n == id).map(|(_, r)| *r);
        at_event(at, j, |j| {
            let of_event = event.fields.task.as_deref().and_then(known);
            if let (Some(claimed), Some(truth)) = (event.fields.predicted_samples_per_s, of_event) {
                j.number("predicted_samples_per_s", claimed, truth);
            }
            for (i, task) in event.fields.tasks.iter().enumerate() {
                if let (Some(claimed), Some(truth)) =
                    (task.predicted_samples_per_s, known(&task.id))
                {
                    j.field("tasks", |j| {
                        j.index(i, |j| j.number("predicted_samples_per_s", claimed, truth));
                    });
                }
            }
        });
    }
}
