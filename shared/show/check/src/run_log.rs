//! Checks a run: its events must be possible in this order, and its summary must match them.

mod assignments;
mod device;
mod event;
mod gpus;
mod learning;
mod moves;
mod outcome;
mod phases;
mod processes;
mod shares;
mod simulated;
mod tally;
mod training;
mod verdict;

use doc::{EventKind, EventPayload, Planned, RunEvent};
use units::{SamplesPerSec, TaskId};

use crate::judge::Judge;
use crate::rates::{Rates, everyone};
use crate::{plan, timeline};
use event::{at_event, plan_of, summaries};

/// Judges the events of a run; returns its name. A JSON path names the event: `$.events[3]`.
pub fn judge(events: &[RunEvent], j: &mut Judge) -> Option<String> {
    carried(events, j);
    order(events, j);
    processes::judge(events, j);
    gpus::judge(events, j);
    phases::judge(events, j);
    tally::judge(events, j);
    training::judge(events, j);
    outcome::judge(events, j);
    device::judge(events, j);
    assignments::judge(events, j);
    shares::judge(events, j);
    moves::judge(events, j);
    simulated::judge(events, j);
    learning::judge(events, j);
    verdict::judge(events, j);
    predictions(events, j);
    plan_of(events.first()?)?.id.clone()
}

/// Throughput of each task of the plan while all run, if known. If a timeline changes batch sizes, it is
/// predicted again; an error says why it cannot be.
fn rates_of(planned: &Planned) -> Result<Vec<Option<f64>>, String> {
    let plan = planned.plan();
    let batches = planned.timeline().into_iter().flat_map(|t| &t.batches);
    let varied = batches
        .enumerate()
        .any(|(i, ordered)| ordered.is_some() && *ordered != plan.given(i).batch);
    match (planned.timeline(), &plan.model) {
        (Some(timeline), Some(model)) if varied => {
            let row = Rates::predicted(timeline, model)?.row(everyone(plan.tasks.len()))?;
            Ok(row.into_iter().map(Some).collect())
        }
        _ => {
            let planned = |i| plan.given(i).throughput.map(|e| e.mean.get());
            Ok((0..plan.tasks.len()).map(planned).collect())
        }
    }
}

/// Judges the timelines and plans that events carry.
fn carried(events: &[RunEvent], j: &mut Judge) {
    for (at, event) in events.iter().enumerate() {
        at_event(at, j, |j| match event.planned() {
            Some(Planned::Timeline(t)) => j.field("timeline", |j| timeline::judge(t, j)),
            Some(Planned::Plan(p)) => j.field("plan", |j| plan::judge(p, j)),
            None => {}
        });
    }
}

/// Times never decrease, a job is started before it does anything, and nothing follows the summary.
fn order(events: &[RunEvent], j: &mut Judge) {
    let mut now = 0.0_f64;
    let mut started: Vec<&TaskId> = Vec::new();
    for (at, event) in events.iter().enumerate() {
        let time = event.time.get();
        at_event(at, j, |j| {
            if time < now {
                let truth = format!("at least {now}, the time of an event before");
                j.contradiction("time_s", time, truth);
            }
            match &event.payload {
                EventPayload::Ready { task, .. } | EventPayload::Progress { task, .. }
                    if !started.contains(&task) =>
                {
                    let claimed = format!("{} of {task}", event.kind().name());
                    j.contradiction("event", claimed, "after its start");
                }
                EventPayload::Summary { .. } if at + 1 < events.len() => {
                    j.contradiction("event", "summary", "the last event");
                }
                EventPayload::Launch { .. } if at > 0 => {
                    j.contradiction("event", "launch", "the first event");
                }
                EventPayload::Launch { .. } => j.same("time_s", time, 0.0),
                EventPayload::Summary { makespan, .. } => {
                    j.number("makespan_s", makespan.get(), time);
                }
                _ => {}
            }
        });
        now = now.max(time);
        if let EventPayload::Start { task, .. } = &event.payload {
            started.push(task);
        }
    }
    if events.last().is_none_or(|e| e.kind() != EventKind::Summary) {
        j.unjudged(
            "events",
            "the run has no summary: it was stopped or is still running",
        );
    }
}

/// Predictions that events repeat must be those of the plan, at the batch sizes of the timeline.
fn predictions(events: &[RunEvent], j: &mut Judge) {
    let mut predicted: Vec<(&TaskId, f64)> = Vec::new();
    for (at, event) in events.iter().enumerate() {
        if let Some(planned) = event.planned() {
            let names = planned.plan().tasks.iter().map(|t| &t.id);
            let rates = rates_of(planned).unwrap_or_else(|reason| {
                let text = format!("what the tasks are predicted to do is not compared: {reason}");
                at_event(at, j, |j| j.unjudged("", text));
                Vec::new()
            });
            predicted = names
                .zip(rates)
                .filter_map(|(n, r)| Some((n, r?)))
                .collect();
        }
        let compare = |id: &TaskId, claimed: Option<SamplesPerSec>, j: &mut Judge| {
            let known = predicted.iter().find(|(n, _)| *n == id);
            if let (Some(claimed), Some((_, truth))) = (claimed, known) {
                j.number("predicted_samples_per_s", claimed.get(), *truth);
            }
        };
        at_event(at, j, |j| {
            if let EventPayload::Start {
                task, predicted, ..
            } = &event.payload
            {
                compare(task, *predicted, j);
            }
            for (i, task) in summaries(event).iter().enumerate() {
                j.field("tasks", |j| {
                    j.index(i, |j| compare(&task.id, task.predicted, j));
                });
            }
        });
    }
}

#[cfg(test)]
mod tests;
