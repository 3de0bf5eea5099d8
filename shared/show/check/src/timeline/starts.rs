//! Checks start times of phases: as early as possible, or at the end of a hold.

use doc::{Duplex, Hold, Phase, PhaseKind, Timeline};

use super::lane::Lane;
use crate::judge::Judge;

/// Judges every start: a phase waits only if the timeline has a hold for it.
pub fn judge(timeline: &Timeline, lanes: &[Lane], j: &mut Judge) {
    // Without a link, transfers take no time, but may still have to go one at a time (`mt-overlap --link
    // half`).
    let link = timeline.plan.known_link();
    let duplex = link.map_or(Duplex::Half, |l| l.duplex);
    let room = 1e-9 * timeline.makespan.get();
    for (at, hold) in timeline.holds.iter().enumerate() {
        let start = span(lanes, hold.task, hold.phase).0;
        let end = span(lanes, hold.until, hold.end_of).1;
        if start < end - room {
            j.field("holds", |j| {
                j.index(at, |j| {
                    let claimed = format!("the phase starts at {start}");
                    j.contradiction(
                        "",
                        claimed,
                        format!("at least {end}, until when it is held"),
                    );
                });
            });
        }
    }
    for (at, phase) in timeline.phases.iter().enumerate() {
        let own = match phase.kind {
            PhaseKind::Download => 0.0,
            PhaseKind::Compute => lanes[phase.task].download.end,
            PhaseKind::Upload => lanes[phase.task].compute.end,
        };
        let applies = |h: &&Hold| (h.task, h.phase) == (phase.task, phase.kind);
        let held = timeline
            .holds
            .iter()
            .filter(applies)
            .map(|h| span(lanes, h.until, h.end_of).1);
        let turn = link_free(timeline, at, duplex, room);
        let earliest = held.fold(own.max(turn), f64::max);
        let start = phase.start.get();
        if start > earliest + room {
            j.field("phases", |j| {
                j.index(at, |j| {
                    j.contradiction(
                        "start_s",
                        start,
                        format!("{earliest}, since nothing holds it longer"),
                    );
                });
            });
        }
    }
}

fn span(lanes: &[Lane], task: usize, kind: PhaseKind) -> (f64, f64) {
    let span = match kind {
        PhaseKind::Download => lanes[task].download,
        PhaseKind::Compute => lanes[task].compute,
        PhaseKind::Upload => lanes[task].upload,
    };
    (span.start, span.end)
}

/// Time at which earlier transfers have freed the link; 0 for compute, and if all transfers share the link.
fn link_free(timeline: &Timeline, at: usize, duplex: Duplex, room: f64) -> f64 {
    let phase = &timeline.phases[at];
    let shares_link = |p: &Phase| match duplex {
        Duplex::Full => p.kind == phase.kind,
        Duplex::Half => p.kind != PhaseKind::Compute,
        Duplex::Shared => false,
    };
    if phase.kind == PhaseKind::Compute {
        return 0.0;
    }
    let others = timeline.phases.iter().enumerate();
    let before = others
        .filter(|(k, p)| *k != at && shares_link(p) && p.end.get() <= phase.start.get() + room);
    before.map(|(_, p)| p.end.get()).fold(0.0, f64::max)
}
