//! Checks shares in a run of a plan. They are as planned or, if the host can change the share of a running job,
//! divided among the tasks that compute.

use std::collections::BTreeMap;

use doc::{EventPayload, PhaseKind, Plan, RunEvent};
use units::{Share, TaskId};

use super::event::{at_event, plan_of};
use crate::judge::Judge;

/// Tolerance in percentage points: shares are rounded down to hundredths of a percent, so the last digit may differ
/// from ours.
const ROUNDING: f64 = 0.015;

/// A task in the current round; its shares are in percent.
#[derive(Debug, Clone, Copy)]
struct Part {
    planned: f64,
    share: f64,
    computes: bool,
    /// Whether its last process has ended without a reported retry.
    exited: bool,
}

/// Judges starts and changes of shares.
pub fn judge(events: &[RunEvent], j: &mut Judge) {
    let divides = events.iter().any(|e| is_reshare(&e.payload));
    let mut parts: BTreeMap<&TaskId, Part> = BTreeMap::new();
    // Whether the set of computing tasks is known; shares are judged only then.
    let mut known = true;
    for (at, event) in events.iter().enumerate() {
        if let Some(plan) = plan_of(event) {
            parts = planned(plan);
        }
        if parts.is_empty() {
            continue;
        }
        let settled = is_settled(&event.payload);
        if divides && known && settled {
            at_event(at, j, |j| all_divided(&parts, j));
        }
        match &event.payload {
            EventPayload::Start { task, share, .. } => {
                let Some(part) = parts.get_mut(task) else {
                    continue;
                };
                part.computes = true;
                at_event(at, j, |j| same(*share, part.share, j));
            }
            EventPayload::Reshare {
                task,
                share: Some(share),
                gpus: None,
                ..
            } => {
                let truth = divided(&parts).get(task).copied();
                let Some(part) = parts.get_mut(task) else {
                    continue;
                };
                let truth = truth.filter(|_| known);
                at_event(at, j, |j| {
                    if let Some(truth) = truth {
                        same(Some(*share), truth, j);
                    }
                    if (share.percent() - part.share).abs() < ROUNDING / 2.0 {
                        j.contradiction("event", "reshare", "another share than it has");
                    }
                });
                part.share = share.percent();
            }
            EventPayload::Exit { task, .. } => {
                if let Some(part) = parts.get_mut(task) {
                    part.exited = true;
                }
            }
            EventPayload::Restart { task, .. } => {
                if let Some(part) = parts.get_mut(task) {
                    // A restart without an exit: a program could not be started, and the event does not record its
                    // phase.
                    known &= part.computes || part.exited;
                    part.exited = false;
                }
            }
            EventPayload::Phase {
                task,
                phase,
                reason,
                ..
            } => {
                if let Some(part) = parts.get_mut(task) {
                    part.computes &= *phase != PhaseKind::Compute && reason.is_none();
                    part.exited = false;
                }
            }
            // Shares are no longer divided while all tasks are being stopped.
            EventPayload::Stop { task: None, .. } => known = false,
            EventPayload::Round { .. } => {
                known = true;
                for part in parts.values_mut() {
                    (part.share, part.computes, part.exited) = (part.planned, false, false);
                }
            }
            _ => {}
        }
    }
}

/// Whether all necessary changes of shares are reported before this event. Starts, and programs that could not be
/// started, are reported before the changes.
fn is_settled(payload: &EventPayload) -> bool {
    matches!(
        payload,
        EventPayload::Ready { .. }
            | EventPayload::Progress { .. }
            | EventPayload::Exit { .. }
            | EventPayload::Phase { reason: None, .. }
            | EventPayload::Round { .. }
    )
}

fn is_reshare(payload: &EventPayload) -> bool {
    matches!(
        payload,
        EventPayload::Reshare {
            share: Some(_),
            gpus: None,
            ..
        }
    )
}

/// The tasks of a plan; empty if one of them has no share.
fn planned(plan: &Plan) -> BTreeMap<&TaskId, Part> {
    let part = |i: usize| {
        let planned = plan.given(i).share?.percent();
        let part = Part {
            planned,
            share: planned,
            computes: false,
            exited: false,
        };
        Some((&plan.tasks[i].id, part))
    };
    let all: Option<BTreeMap<_, _>> = (0..plan.tasks.len()).map(part).collect();
    all.unwrap_or_default()
}

fn same(claimed: Option<Share>, truth: f64, j: &mut Judge) {
    if let Some(claimed) = claimed.map(Share::percent)
        && (claimed - truth).abs() > ROUNDING
    {
        j.contradiction("share_percent", claimed, truth);
    }
}

/// Divides the plan's sum of shares among the computing tasks, in proportion to their planned shares, but at most the
/// whole device each. The shares are `min(100, x p_i)`, where `x` grows until the sum is reached or every task has
/// the whole device.
fn divided<'a>(parts: &BTreeMap<&'a TaskId, Part>) -> BTreeMap<&'a TaskId, f64> {
    let full = Share::FULL.percent();
    let total: f64 = parts.values().map(|p| p.planned).sum();
    let computing: Vec<(&TaskId, f64)> = parts
        .iter()
        .filter(|(_, p)| p.computes && p.planned > 0.0)
        .map(|(id, p)| (*id, p.planned))
        .collect();
    // The values of `x` at which a task reaches the whole device; the sum of shares is linear between them.
    let mut knees: Vec<f64> = computing.iter().map(|(_, p)| full / p).collect();
    knees.sort_by(f64::total_cmp);
    let at = |x: f64| -> f64 { computing.iter().map(|(_, p)| (x * p).min(full)).sum() };
    let mut x = knees.last().copied().unwrap_or(0.0);
    let mut low = 0.0;
    for &knee in &knees {
        if at(knee) >= total {
            // Interpolate `x` linearly between two of these values.
            let (a, b) = (at(low), at(knee));
            x = low + (knee - low) * (total - a) / (b - a);
            break;
        }
        low = knee;
    }
    let share = |(id, p): (&'a TaskId, f64)| (id, (x * p).min(full));
    computing.into_iter().map(share).collect()
}

/// Before any other event, every computing task must have the share that is due.
fn all_divided(parts: &BTreeMap<&TaskId, Part>, j: &mut Judge) {
    for (id, truth) in divided(parts) {
        let has = parts[id].share;
        if (has - truth).abs() > ROUNDING {
            let claimed = format!("{id} still at {has}");
            j.contradiction(
                "event",
                claimed,
                format!("a change of its share to {truth}"),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_divided_up_to_the_whole_device() {
        let ids = ["a", "b", "c"].map(|id| TaskId::new(id).unwrap());
        for (planned, computes, expected) in [
            ([60.0, 20.0, 20.0], [true, true, true], [60.0, 20.0, 20.0]),
            ([60.0, 20.0, 20.0], [false, true, true], [0.0, 50.0, 50.0]),
            ([80.0, 60.0, 20.0], [true, false, true], [100.0, 0.0, 60.0]),
            ([90.0, 90.0, 90.0], [true, false, false], [100.0, 0.0, 0.0]),
        ] {
            let part = |i: usize| Part {
                planned: planned[i],
                share: planned[i],
                computes: computes[i],
                exited: false,
            };
            let parts = (0..3).map(|i| (&ids[i], part(i))).collect();
            let found = divided(&parts);
            for i in 0..3 {
                let share = found.get(&ids[i]).copied().unwrap_or(0.0);
                assert!((share - expected[i]).abs() < 1e-9, "{planned:?}: {found:?}");
            }
        }
    }
}
