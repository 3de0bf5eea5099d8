//! Checks the batch sizes with which jobs are started, and the round that each event belongs to.

use std::collections::BTreeMap;

use doc::{EventKind, EventPayload, Planned, RunEvent};
use units::{Batch, TaskId};

use super::event::at_event;
use crate::judge::Judge;

/// Jobs start with the batch sizes of the timeline or plan. Rounds are numbered consecutively, and each round that
/// begins also ends.
pub fn judge(events: &[RunEvent], j: &mut Judge) {
    let is_round = |e: &RunEvent| matches!(e.payload, EventPayload::Round { .. });
    if events.first().and_then(RunEvent::planned).is_none() && !events.iter().any(is_round) {
        return own_rounds(events, j);
    }
    let mut current = events.first().and_then(RunEvent::planned);
    // A server may number rounds over several launches, so the first event gives the number of the first round.
    let mut round = events.iter().find_map(RunEvent::round).unwrap_or(0);
    for (at, event) in events.iter().enumerate() {
        let replan = matches!(event.payload, EventPayload::Replan { .. });
        if let Some(claimed) = event.round().filter(|_| !replan) {
            at_event(at, j, |j| j.same("round", claimed, round));
        }
        match &event.payload {
            EventPayload::Round { .. } => {
                round += 1;
            }
            EventPayload::Replan { planned, .. } => current = planned.as_ref(),
            EventPayload::Start { task, batch, .. } => {
                if let Some(current) = current {
                    at_event(at, j, |j| start(task, *batch, current, j));
                }
            }
            EventPayload::Summary { .. } => {
                let before = events[..at].last().filter(|e| e.round() == Some(round));
                if before.is_some_and(|e| e.task().is_some()) && events.iter().any(is_round) {
                    at_event(at, j, |j| {
                        j.contradiction(
                            "event",
                            "summary",
                            format!("after the end of round {round}"),
                        );
                    });
                }
            }
            _ => {}
        }
    }
}

/// In a run of a schedule, each task goes through its own rounds one by one. A run that begins with a new plan
/// continues a killed run, so each task starts in the round that it had reached.
fn own_rounds(events: &[RunEvent], j: &mut Judge) {
    let goes_on = matches!(events.get(1), Some(e) if e.kind() == EventKind::Replan);
    let mut rounds: BTreeMap<&TaskId, u32> = BTreeMap::new();
    for (at, event) in events.iter().enumerate() {
        let (Some(task), Some(claimed)) = (event.task(), event.round()) else {
            continue;
        };
        let before = rounds.get(task).copied();
        let next = match before {
            Some(round) => round + 1,
            None if goes_on => claimed,
            None => 0,
        };
        if before != Some(claimed) && claimed != next {
            at_event(at, j, |j| j.contradiction("round", claimed, next));
        }
        rounds.insert(task, claimed);
    }
}

/// Judges the batch size of one start, if it is given.
fn start(task: &TaskId, claimed_batch: Option<Batch>, current: &Planned, j: &mut Judge) {
    let plan = current.plan();
    let Some(i) = plan.task_index(task) else {
        return j.contradiction("task", task, "a task of the plan");
    };
    let ordered = current.timeline().and_then(|t| t.batches[i]);
    if let (Some(claimed), Some(batch)) = (claimed_batch, ordered.or(plan.given(i).batch)) {
        j.same("batch", claimed, batch);
    }
}
