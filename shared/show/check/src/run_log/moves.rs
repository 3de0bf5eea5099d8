//! Checks trainings that move between GPUs: their reports must match their allocations.

use std::collections::BTreeMap;

use doc::{EventPayload, PhaseKind, RunEvent};
use units::TaskId;

use super::event::at_event;
use crate::judge::Judge;

/// State of one training.
#[derive(Debug, Default)]
struct Moved {
    /// Number of GPUs in the last decision.
    given: Option<u32>,
    /// Number of GPUs in the decision that held when its processes were started.
    runs_on: Option<u32>,
    step: u64,
    /// Whether it was restarted after a failure: it may then repeat steps since its checkpoint.
    restarted: bool,
}

/// Progress must come from the GPUs that were allocated before the start. Steps decrease only after a restart: a
/// training that saved a checkpoint when it was stopped repeats no step.
pub fn judge(events: &[RunEvent], j: &mut Judge) {
    let mut all: BTreeMap<&TaskId, Moved> = BTreeMap::new();
    for (at, event) in events.iter().enumerate() {
        match &event.payload {
            EventPayload::Reshare {
                task,
                gpus: Some(gpus),
                ..
            } => all.entry(task).or_default().given = Some(*gpus),
            EventPayload::Start { task, .. } => {
                let moved = all.entry(task).or_default();
                moved.runs_on = moved.given;
                if moved.given == Some(0) {
                    at_event(at, j, |j| {
                        j.contradiction("event", "start", "none: it has no GPU")
                    });
                }
            }
            EventPayload::Exit {
                task,
                phase: Some(phase),
                ..
            } if *phase != PhaseKind::Compute
                && all.get(task).is_some_and(|moved| moved.given.is_some()) =>
            {
                let claimed = doc::name_of(phase);
                let truth = "compute: it transfers nothing";
                at_event(at, j, |j| j.contradiction("phase", claimed, truth));
            }
            EventPayload::Restart { task, .. } => all.entry(task).or_default().restarted = true,
            EventPayload::Progress { task, progress, .. } => {
                let moved = all.entry(task).or_default();
                let Some(given) = moved.runs_on else {
                    continue;
                };
                at_event(at, j, |j| {
                    if let Some(gpus) = progress.gpus.filter(|_| !moved.restarted) {
                        j.same("gpus", gpus, given);
                    }
                    let step = progress.step.unwrap_or(moved.step);
                    if step < moved.step && !moved.restarted {
                        let truth = format!("at least {}, which it had reached", moved.step);
                        j.contradiction("step", step, truth);
                    }
                    moved.step = step;
                });
            }
            _ => {}
        }
    }
}
