//! What the judges of a run ask of an event.

use doc::{EventPayload, Plan, Planned, RunEvent, TaskSummary};

use crate::judge::Judge;

/// The plan that an event carries.
pub fn plan_of(event: &RunEvent) -> Option<&Plan> {
    event.planned().map(Planned::plan)
}

/// What became of each task, as a round or a run says at its end.
pub fn summaries(event: &RunEvent) -> &[TaskSummary] {
    match &event.payload {
        EventPayload::Round { tasks, .. } | EventPayload::Summary { tasks, .. } => tasks,
        _ => &[],
    }
}

/// Looks into event `at` while `look` runs.
pub fn at_event(at: usize, j: &mut Judge, look: impl FnOnce(&mut Judge)) {
    j.field("events", |j| j.index(at, look));
}
