//! Shows rounds as Gantt pictures and as tracks for a trace viewer.

use std::collections::BTreeMap;

use doc::{EventPayload, PhaseKind, Plan, RunEvent, Timeline};
use units::SamplesPerSec;

use super::unit;
use crate::content::words::phase_name;
use crate::page::{Report, Track};
use crate::picture::{Drawing, Gantt, Lane, Span};

/// A planned or measured phase.
#[derive(Debug, Clone)]
pub struct Told {
    pub task: usize,
    pub kind: PhaseKind,
    pub start: f64,
    pub end: f64,
}

/// Phases that a timeline plans.
pub fn planned(timeline: &Timeline) -> Vec<Told> {
    let phases = timeline.phases.iter();
    phases
        .map(|p| Told {
            task: p.task,
            kind: p.kind,
            start: p.start.get(),
            end: p.end.get(),
        })
        .collect()
}

/// Phases of every round of a run, in seconds from the start of the round.
pub fn measured(events: &[RunEvent], names: &[String]) -> BTreeMap<u32, Vec<Told>> {
    let mut rounds: BTreeMap<u32, Vec<Told>> = BTreeMap::new();
    for event in events {
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
        if let Some(task) = names.iter().position(|n| n == task.as_str()) {
            rounds.entry(*round).or_default().push(Told {
                task,
                kind: *phase,
                start: start.get(),
                end: end.get(),
            });
        }
    }
    rounds
}

/// Names of the tasks of a plan.
pub fn names(plan: &Plan) -> Vec<String> {
    plan.tasks
        .iter()
        .map(|t| t.id.as_str().to_owned())
        .collect()
}

/// Lanes for the downlink, the compute of each task, and the uplink.
fn lanes(names: &[String], planned: &[Told], measured: &[Told]) -> Vec<Lane> {
    let span = |told: &Told| Span {
        task: names[told.task].clone(),
        index: told.task,
        start: told.start,
        end: told.end,
    };
    let pick = |all: &[Told], wanted: &dyn Fn(&Told) -> bool| -> Vec<Span> {
        all.iter().filter(|t| wanted(t)).map(span).collect()
    };
    let lane = |name: String, wanted: &dyn Fn(&Told) -> bool| Lane {
        name,
        planned: pick(planned, wanted),
        measured: pick(measured, wanted),
    };
    let mut lanes = Vec::new();
    let transfers = |kind: PhaseKind, name: &str, lanes: &mut Vec<Lane>| {
        // An empty transfer takes no time and needs no lane.
        let moves = |t: &Told| t.kind == kind && t.end > t.start;
        let all = lane(name.to_owned(), &moves);
        // Simultaneous transfers, as on a shared link, would hide each other: give each task a
        // lane.
        if crowded(&all.planned) || crowded(&all.measured) {
            for (i, task) in names.iter().enumerate() {
                let own = |t: &Told| moves(t) && t.task == i;
                lanes.push(lane(format!("{name} {task}"), &own));
            }
        } else if !(all.planned.is_empty() && all.measured.is_empty()) {
            lanes.push(all);
        }
    };
    transfers(PhaseKind::Download, "download", &mut lanes);
    for (i, task) in names.iter().enumerate() {
        let compute = |t: &Told| t.kind == PhaseKind::Compute && t.task == i;
        lanes.push(lane(format!("compute {task}"), &compute));
    }
    transfers(PhaseKind::Upload, "upload", &mut lanes);
    lanes
}

/// Whether any transfer overlaps another by more than a quarter of the shorter one.
fn crowded(spans: &[Span]) -> bool {
    let mut sorted: Vec<&Span> = spans.iter().collect();
    sorted.sort_by(|a, b| a.start.total_cmp(&b.start));
    sorted.windows(2).any(|w| {
        let shorter = (w[0].end - w[0].start).min(w[1].end - w[1].start);
        w[0].end.min(w[1].end) - w[1].start > 0.25 * shorter
    })
}

/// Adds the Gantt picture of a timeline.
pub fn of_timeline(report: &mut Report, timeline: &Timeline) {
    let names = names(&timeline.plan);
    let told = planned(timeline);
    let seconds = |name: &str, s: f64| (format!("{name} {s:.2} s"), s);
    let gantt = Gantt {
        axis: format!("time from the start of the round {}", unit(report, "s")),
        lanes: lanes(&names, &[], &told),
        limits: vec![
            seconds("lower bound", timeline.lower_bound.get()),
            seconds("makespan", timeline.makespan.get()),
            seconds("without overlap", timeline.overlap_off.get()),
        ],
    };
    report.picture("gantt", "Planned round", Drawing::Gantt(gantt));
    report.tracks.extend(tracks("planned", &names, &told, 0.0));
}

/// Adds the Gantt pictures of the first and the last round of a run.
pub fn of_run(report: &mut Report, events: &[RunEvent], plan: &Plan, timeline: Option<&Timeline>) {
    let names = names(plan);
    let rounds = measured(events, &names);
    let planned = timeline.map(planned).unwrap_or_default();
    let mut shown: Vec<u32> = rounds
        .keys()
        .next()
        .into_iter()
        .chain(rounds.keys().last())
        .copied()
        .collect();
    shown.dedup();
    for round in shown {
        let told = &rounds[&round];
        let last = told.iter().map(|t| t.end).fold(0.0, f64::max);
        let mut limits = Vec::new();
        if let Some(t) = timeline {
            limits.push((
                format!("planned makespan {:.2} s", t.makespan.get()),
                t.makespan.get(),
            ));
        }
        limits.push((format!("measured makespan {last:.2} s"), last));
        let gantt = Gantt {
            axis: format!("time from the start of the round {}", unit(report, "s")),
            lanes: lanes(&names, &planned, told),
            limits,
        };
        let title = format!("Round {round}, planned against measured");
        report.picture("gantt", title, Drawing::Gantt(gantt));
    }
    report
        .tracks
        .extend(tracks("planned", &names, &planned, 0.0));
    // Start of each round since the launch, derived from its first phase event.
    let mut begins: BTreeMap<u32, f64> = BTreeMap::new();
    for event in events {
        if let EventPayload::Phase { round, end, .. } = &event.payload {
            let begin = (event.time.get() - end.get()).max(0.0);
            begins.entry(*round).or_insert(begin);
        }
    }
    for (round, told) in &rounds {
        let begin = begins.get(round).copied().unwrap_or(0.0);
        report
            .tracks
            .extend(tracks("measured", &names, told, begin));
    }
    for name in &names {
        let values = events.iter().filter_map(|e| match &e.payload {
            EventPayload::Progress { task, progress, .. } if task.as_str() == name => {
                let rate = progress.rate.map(SamplesPerSec::get)?;
                Some(("samples/s", e.time.get(), rate))
            }
            _ => None,
        });
        report.tracks.push(Track {
            group: "measured",
            name: name.clone(),
            slices: Vec::new(),
            counters: values.collect(),
        });
    }
}

fn tracks(group: &'static str, names: &[String], told: &[Told], begin: f64) -> Vec<Track> {
    names
        .iter()
        .enumerate()
        .map(|(i, name)| {
            let mut own: Vec<&Told> = told.iter().filter(|t| t.task == i).collect();
            own.sort_by(|a, b| a.start.total_cmp(&b.start));
            let slices = own.iter();
            Track {
                group,
                name: name.clone(),
                slices: slices
                    .map(|t| {
                        (
                            phase_name(t.kind).to_owned(),
                            begin + t.start,
                            begin + t.end,
                        )
                    })
                    .collect(),
                counters: Vec::new(),
            }
        })
        .collect()
}
