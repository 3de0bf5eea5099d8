//! The processes of a run: one of a task at a time, each started before it ends, tries counted.

use std::collections::{BTreeMap, BTreeSet};

use doc::{EventPayload, PhaseKind, RunEvent};
use units::TaskId;

use super::{at_event, plan_of};
use crate::judge::Judge;

/// What is known of a task in the round under way.
#[derive(Debug, Default)]
struct Process {
    /// A process computes.
    runs: bool,
    /// It has said that it is ready.
    ready: bool,
    /// Tries after the first one, in this round.
    restarts: u32,
}

/// Judges starts, exits, restarts, and that every task that is named is one of the plan.
pub fn judge(events: &[RunEvent], j: &mut Judge) {
    let mut planned: BTreeSet<&TaskId> = BTreeSet::new();
    // In a run of a schedule each task goes through rounds of its own, side by side.
    let mut tasks: BTreeMap<(&TaskId, Option<u32>), Process> = BTreeMap::new();
    for (at, event) in events.iter().enumerate() {
        if let Some(plan) = plan_of(event) {
            planned = plan.tasks.iter().map(|t| &t.id).collect();
        }
        if let EventPayload::Round { .. } = event.payload {
            tasks.clear();
        }
        let Some(task) = event.task() else {
            continue;
        };
        at_event(at, j, |j| {
            if !planned.is_empty() && !planned.contains(task) {
                j.lie("task", task, "a task of the plan");
            }
            one(event, tasks.entry((task, event.round())).or_default(), j);
        });
    }
}

fn one(event: &RunEvent, process: &mut Process, j: &mut Judge) {
    match &event.payload {
        EventPayload::Start { .. } => {
            if process.runs {
                j.lie("event", "start", "the exit of its process before");
            }
            (process.runs, process.ready) = (true, false);
        }
        EventPayload::Ready { .. } => {
            if process.ready {
                j.lie("event", "ready", "once for each start");
            }
            process.ready = true;
        }
        // Starts of transfers are not told, their exits are.
        EventPayload::Exit { phase, .. }
            if *phase != Some(PhaseKind::Download) && *phase != Some(PhaseKind::Upload) =>
        {
            if !process.runs {
                j.lie("event", "exit", "after its start");
            }
            process.runs = false;
        }
        EventPayload::Restart { restarts, .. } => {
            process.restarts += 1;
            if process.runs {
                j.lie("event", "restart", "after the exit of its process");
            }
            if let Some(claimed) = restarts {
                j.same("restarts", *claimed, process.restarts);
            }
        }
        _ => {}
    }
}
