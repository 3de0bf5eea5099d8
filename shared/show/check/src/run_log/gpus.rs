//! The GPUs of a schedule that is run: one task at a time trains on each.

use std::collections::BTreeMap;

use doc::{EventPayload, PhaseKind, RunEvent};
use units::TaskId;

use super::event::at_event;
use crate::judge::Judge;

/// Judges the GPU that a start names: the task before has trained, or its process has ended. A
/// synchronising task does not occupy it.
pub fn judge(events: &[RunEvent], j: &mut Judge) {
    let mut busy: BTreeMap<&str, (&TaskId, u32)> = BTreeMap::new();
    for (at, event) in events.iter().enumerate() {
        match &event.payload {
            EventPayload::Start {
                gpu: Some(gpu),
                task,
                round,
                ..
            } => {
                if let Some((other, of)) = busy.insert(gpu, (task, *round)) {
                    at_event(at, j, |j| {
                        let truth = format!("another: {other} of round {of} trains there");
                        j.contradiction("gpu", gpu, truth);
                    });
                }
            }
            EventPayload::Phase {
                phase: PhaseKind::Compute,
                task,
                round,
                ..
            }
            | EventPayload::Exit { task, round, .. } => {
                busy.retain(|_, own| *own != (task, *round));
            }
            _ => {}
        }
    }
}
