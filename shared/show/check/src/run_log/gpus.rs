//! Checks the GPUs in a run of a schedule: on each GPU trains one task at a time, or two if the events say that
//! they share it.

use std::collections::BTreeMap;

use doc::{EventPayload, PhaseKind, RunEvent};
use units::TaskId;

use super::event::at_event;
use crate::judge::Judge;

/// Judges the GPU that a start names: every earlier task there must have finished training, or its process must
/// have ended, except for the task beside which the new one is started. A task that synchronises does not occupy
/// the GPU.
pub fn judge(events: &[RunEvent], j: &mut Judge) {
    let mut busy: BTreeMap<&str, Vec<(&TaskId, u32)>> = BTreeMap::new();
    for (at, event) in events.iter().enumerate() {
        match &event.payload {
            EventPayload::Start {
                gpu: Some(gpu),
                beside,
                task,
                round,
                ..
            } => {
                let there = busy.entry(gpu).or_default();
                let names: Vec<&TaskId> = there.iter().map(|t| t.0).collect();
                let told: Vec<&TaskId> = beside.iter().collect();
                at_event(at, j, |j| match (&names[..], &told[..]) {
                    (names, told) if names == told => {}
                    ([], [other, ..]) => {
                        j.contradiction("beside", other, "absent: nothing trains there");
                    }
                    ([others @ .., other], _) => {
                        let more = others.len();
                        let truth = format!("another: {other} and {more} more train there");
                        j.contradiction("gpu", gpu, truth);
                    }
                    _ => {}
                });
                there.push((task, *round));
            }
            EventPayload::Phase {
                phase: PhaseKind::Compute,
                task,
                round,
                ..
            }
            | EventPayload::Exit { task, round, .. } => {
                for there in busy.values_mut() {
                    there.retain(|own| *own != (task, *round));
                }
            }
            _ => {}
        }
    }
}
