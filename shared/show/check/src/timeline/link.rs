//! Checks transfers: how long each takes, and how they share the link.

use doc::{Duplex, Timeline};

use super::lane::{Lane, Span};
use crate::judge::Judge;
use crate::round_task::RoundTask;

/// One transfer: the index of its phase, the time that it takes alone, and when it runs.
struct Transfer {
    place: usize,
    alone: f64,
    span: Span,
}

/// Judges durations and the use of the link.
pub fn judge(timeline: &Timeline, jobs: &[RoundTask], lanes: &[Lane], j: &mut Judge) {
    let of = |kind: doc::PhaseKind| -> Vec<Transfer> {
        let phases = timeline.phases.iter().enumerate();
        phases
            .filter(|(_, p)| p.kind == kind)
            .map(|(place, p)| {
                let (lane, job) = (lanes[p.task], jobs[p.task]);
                let down = kind == doc::PhaseKind::Download;
                Transfer {
                    place,
                    alone: if down { job.download } else { job.upload },
                    span: if down { lane.download } else { lane.upload },
                }
            })
            .collect()
    };
    let downloads = of(doc::PhaseKind::Download);
    let uploads = of(doc::PhaseKind::Upload);
    let scale = timeline.makespan.get();
    let link = timeline.plan.known_link();
    let duplex = link.map_or(Duplex::Full, |l| l.duplex);
    match duplex {
        Duplex::Full => {
            one_at_a_time(downloads, scale, j);
            one_at_a_time(uploads, scale, j);
        }
        Duplex::Half => {
            let all = downloads.into_iter().chain(uploads).collect();
            one_at_a_time(all, scale, j);
        }
        Duplex::Shared => {
            shared(&downloads, scale, j);
            shared(&uploads, scale, j);
        }
    }
}

fn at_phase(place: usize, j: &mut Judge, look: impl FnOnce(&mut Judge)) {
    j.field("phases", |j| j.index(place, look));
}

/// Every transfer has the link to itself: it takes as long as alone, and no two overlap.
fn one_at_a_time(mut transfers: Vec<Transfer>, scale: f64, j: &mut Judge) {
    for t in &transfers {
        let end = t.span.start + t.alone;
        at_phase(t.place, j, |j| j.number_of("end_s", t.span.end, end, scale));
    }
    transfers.sort_by(|a, b| {
        let starts = a.span.start.total_cmp(&b.span.start);
        starts.then(a.span.end.total_cmp(&b.span.end))
    });
    for pair in transfers.windows(2) {
        if pair[1].span.start < pair[0].span.end - 1e-9 * scale {
            let free = pair[0].span.end;
            at_phase(pair[1].place, j, |j| {
                let truth = format!("at least {free}, when the link is free");
                j.contradiction("start_s", pair[1].span.start, truth);
            });
        }
    }
}

/// All transfers of a direction that run at once share the link equally: over its phase, each must get exactly
/// the link time that it needs alone.
fn shared(transfers: &[Transfer], scale: f64, j: &mut Judge) {
    let mut times: Vec<f64> = transfers
        .iter()
        .flat_map(|t| [t.span.start, t.span.end])
        .collect();
    times.sort_by(f64::total_cmp);
    for t in transfers {
        let mut got = 0.0;
        for w in times.windows(2) {
            let middle = f64::midpoint(w[0], w[1]);
            let runs = |t: &Transfer| t.span.start <= middle && middle < t.span.end;
            if runs(t) {
                got += (w[1] - w[0]) / transfers.iter().filter(|t| runs(t)).count() as f64;
            }
        }
        if (got - t.alone).abs() > 1e-9 * scale.max(t.alone) {
            at_phase(t.place, j, |j| {
                let truth = format!("an end that gives it {} s of the link", t.alone);
                j.contradiction("end_s", format!("{} ({got} s of it)", t.span.end), truth);
            });
        }
    }
}
