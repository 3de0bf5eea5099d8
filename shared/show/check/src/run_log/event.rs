//! Access to the parts of an event, for the checks of a run.

use doc::{EventPayload, Plan, Planned, RunEvent, TaskSummary};

use crate::judge::Judge;

/// The plan that an event carries.
pub fn plan_of(event: &RunEvent) -> Option<&Plan> {
    event.planned().map(Planned::plan)
}

/// Outcome of each task, at the end of a round or a run.
pub fn summaries(event: &RunEvent) -> &[TaskSummary] {
    match &event.payload {
        EventPayload::Round { tasks, .. } | EventPayload::Summary { tasks, .. } => tasks,
        _ => &[],
    }
}

/// Enters event `at` for the duration of `look`.
pub fn at_event(at: usize, j: &mut Judge, look: impl FnOnce(&mut Judge)) {
    j.field("events", |j| j.index(at, look));
}
