//! Checks that the device of a run matches its events.

use doc::{DeviceFingerprint, DeviceKind, EventPayload, RunEvent};

use super::event::{at_event, plan_of};
use crate::judge::Judge;
use crate::model;

/// Judges the device that the launch names.
///
/// Real processes have ids and simulated jobs have none, so a simulated run cannot pass as a run on a real device,
/// or vice versa.
pub fn judge(events: &[RunEvent], j: &mut Judge) {
    let Some(EventPayload::Launch { device, .. }) = events.first().map(|e| &e.payload) else {
        return;
    };
    let simulated = device.kind == DeviceKind::Sim;
    if matches!(device.kind, DeviceKind::Auto | DeviceKind::Replay) {
        at_event(0, j, |j| {
            j.field("device", |j| {
                let claimed = doc::name_of(&device.kind);
                j.contradiction("kind", claimed, "a device that runs jobs");
            });
        });
    }
    at_event(0, j, |j| {
        if simulated {
            let workload = events.first().and_then(plan_of).and_then(|p| p.workload());
            match workload {
                Some(workload) => model::simulator(workload, device, j),
                None => j.field("device", |j| j.same("simulated", device.simulated, true)),
            }
        } else {
            j.field("device", |j| j.same("simulated", device.simulated, false));
            processes(events, device, j);
        }
    });
    for (at, event) in events.iter().enumerate().filter(|_| simulated) {
        if let EventPayload::Start { pid: Some(pid), .. } = event.payload {
            at_event(at, j, |j| {
                j.contradiction("pid", pid, "nothing: a simulated job has no process");
            });
        }
    }
}

fn processes(events: &[RunEvent], device: &DeviceFingerprint, j: &mut Judge) {
    let mut pids = events.iter().filter_map(|e| match e.payload {
        EventPayload::Start { pid, .. } => Some(pid),
        _ => None,
    });
    // A run that started nothing gives no evidence about its device.
    let (first, rest) = (pids.next(), pids);
    if first == Some(None) && rest.into_iter().all(|pid| pid.is_none()) {
        j.field("device", |j| {
            let truth = "sim: no job that was started has a process";
            j.contradiction("kind", doc::name_of(&device.kind), truth);
        });
    }
}
