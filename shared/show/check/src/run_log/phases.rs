//! Checks the phases of the rounds of a run: in order, one transfer at a time, and consistent with
//! the makespan.

use std::collections::BTreeMap;

use doc::{Duplex, EventPayload, PhaseKind, RunEvent};
use units::{Seconds, TaskId};

use super::event::{at_event, plan_of};
use crate::judge::Judge;

/// A phase of a task in a round, and the event that reports it.
struct Told<'a> {
    at: usize,
    task: &'a TaskId,
    kind: PhaseKind,
    start: f64,
    end: f64,
}

/// Judges the phases of every round.
pub fn judge(events: &[RunEvent], j: &mut Judge) {
    let mut rounds: BTreeMap<u32, Vec<Told<'_>>> = BTreeMap::new();
    for (at, event) in events.iter().enumerate() {
        let EventPayload::Phase {
            round,
            task,
            phase,
            start,
            end,
            ..
        } = &event.payload
        else {
            continue;
        };
        let (start, end) = (start.get(), end.get());
        if end < start {
            at_event(at, j, |j| {
                j.contradiction("end_s", end, format!("at least {start}, the start"))
            });
        }
        rounds.entry(*round).or_default().push(Told {
            at,
            task,
            kind: *phase,
            start,
            end,
        });
    }
    let plan = events.first().and_then(plan_of);
    let link = plan.and_then(|p| p.known_link());
    let duplex = link.map_or(Duplex::Shared, |l| l.duplex);
    for phases in rounds.values() {
        sequence(phases, j);
        transfers(phases, duplex, j);
    }
    makespans(events, &rounds, j);
}

/// Compute must follow the download, and the upload must follow compute.
fn sequence(phases: &[Told<'_>], j: &mut Judge) {
    for phase in phases {
        let before = match phase.kind {
            PhaseKind::Download => continue,
            PhaseKind::Compute => PhaseKind::Download,
            PhaseKind::Upload => PhaseKind::Compute,
        };
        let ends = phases
            .iter()
            .filter(|p| p.task == phase.task && p.kind == before && p.at < phase.at);
        let earliest = ends.map(|p| p.end).fold(0.0, f64::max);
        if phase.start < earliest * (1.0 - 1e-9) {
            at_event(phase.at, j, |j| {
                let truth = format!("at least {earliest}, the end of the phase before");
                j.contradiction("start_s", phase.start, truth);
            });
        }
    }
}

/// Transfers must not overlap if the link requires it.
fn transfers(phases: &[Told<'_>], duplex: Duplex, j: &mut Judge) {
    let share_a_link = |a: PhaseKind, b: PhaseKind| match duplex {
        Duplex::Full => a == b && a != PhaseKind::Compute,
        Duplex::Half => a != PhaseKind::Compute && b != PhaseKind::Compute,
        Duplex::Shared => false,
    };
    for (k, late) in phases.iter().enumerate() {
        for early in &phases[..k] {
            let together = share_a_link(early.kind, late.kind);
            let overlap = early.end.min(late.end) - early.start.max(late.start);
            if together && overlap > 1e-9 * late.end {
                at_event(late.at, j, |j| {
                    let truth = format!("no transfer of {} at the same time", early.task);
                    j.contradiction("start_s", late.start, truth);
                });
            }
        }
    }
}

/// The makespan of a round must be the end of its last phase, and the planned one must be the
/// timeline's.
fn makespans(events: &[RunEvent], rounds: &BTreeMap<u32, Vec<Told<'_>>>, j: &mut Judge) {
    let mut planned = None;
    for (at, event) in events.iter().enumerate() {
        if let Some(now) = event.planned() {
            planned = now.timeline().map(|t| t.makespan.get()).or(planned);
        }
        let EventPayload::Round {
            round,
            makespan,
            planned_makespan,
            ..
        } = &event.payload
        else {
            continue;
        };
        let last = rounds.get(round).map(|phases| {
            let ends = phases.iter().map(|p| p.end);
            ends.fold(0.0, f64::max)
        });
        at_event(at, j, |j| {
            if let Some(last) = last {
                j.number_of("makespan_s", makespan.get(), last, 1.0);
            }
            let claimed = planned_makespan.map(Seconds::get);
            if let (Some(claimed), Some(planned)) = (claimed, planned) {
                j.number("planned_makespan_s", claimed, planned);
            }
        });
    }
}
