//! What jobs are started with, and in which round events stand.

use doc::RunEvent;
use doc::wire::EventKind;

use super::{at_event, plan_of};
use crate::judge::Judge;

/// Batch sizes and shares of starts are those of the timeline or plan, until something changed
/// them; rounds are counted from 0.
pub fn judge(events: &[RunEvent], j: &mut Judge) {
    let mut current = events.first();
    let mut reshared: Vec<&str> = Vec::new();
    let mut round = 0;
    for (at, event) in events.iter().enumerate() {
        let f = &event.fields;
        at_event(at, j, |j| {
            if let Some(claimed) = f.round.filter(|_| event.kind() != EventKind::Replan) {
                j.same("round", claimed, round);
            }
        });
        match event.kind() {
            EventKind::Round => {
                round += 1;
                reshared.clear();
            }
            EventKind::Replan => current = Some(event),
            EventKind::Reshare => reshared.extend(f.task.as_deref()),
            EventKind::Start => {
                let free = f.task.as_deref().is_some_and(|t| reshared.contains(&t));
                if let Some(current) = current {
                    at_event(at, j, |j| start(event, current, free, j));
                }
            }
            _ => {}
        }
    }
}

fn start(event: &RunEvent, current: &RunEvent, share_is_free: bool, j: &mut Judge) {
    let f = &event.fields;
    let Some(plan) = plan_of(current) else {
        return;
    };
    let task = f.task.as_deref();
    let Some(i) = plan.tasks.iter().position(|t| Some(t.id.as_str()) == task) else {
        return j.lie(
            "task",
            f.task.clone().unwrap_or_default(),
            "a task of the plan",
        );
    };
    let ordered = current.timeline.as_ref().and_then(|t| t.batches[i]);
    let batch = ordered.or(plan.tasks[i].batch).map(|b| u64::from(b.get()));
    if let (Some(claimed), Some(batch)) = (f.batch, batch) {
        j.same("batch", claimed, batch);
    }
    if let (Some(claimed), Some(share)) = (f.share_percent, plan.tasks[i].share)
        && !share_is_free
    {
        j.number("share_percent", claimed, share.percent());
    }
}
