//! Reports trainings that moved between GPUs in a run.

use std::collections::BTreeMap;

use doc::{EventPayload, RunEvent};
use units::Seconds;

use crate::page::{Cell, Report, Table};
use crate::picture::{Area, Drawing, Line, Mark, Panel, Plot};

/// A change of a training's number of GPUs.
struct Move<'a> {
    time: f64,
    task: &'a str,
    gpus: u32,
    /// Time until it was ready again, if it had run before.
    pause: Option<f64>,
    expected_end: Option<f64>,
    reason: &'a str,
}

/// Adds a report on moves, if the run has any.
pub fn add(report: &mut Report, events: &[RunEvent]) {
    let moves = moves(events);
    if moves.is_empty() {
        return;
    }
    let ends = ends(events);
    report.table(table(&moves, &ends));
    let curves = losses(events, &moves);
    if !curves.lines.is_empty() {
        report.picture(
            "loss",
            "Loss, with the moments of reallocation",
            Drawing::Plot(curves),
        );
    }
    let area = held(events);
    if area.panels.iter().any(|p| p.steps.len() > 1) {
        report.picture("gpus", "GPUs of every training", Drawing::Area(area));
    }
}

fn moves(events: &[RunEvent]) -> Vec<Move<'_>> {
    let mut all: Vec<Move<'_>> = Vec::new();
    let mut running: BTreeMap<&str, bool> = BTreeMap::new();
    let mut open: BTreeMap<&str, usize> = BTreeMap::new();
    for event in events {
        let time = event.time.get();
        match &event.payload {
            EventPayload::Reshare {
                task,
                gpus: Some(gpus),
                expected_end,
                reason,
                ..
            } => {
                let task = task.as_str();
                if *gpus > 0 && running.get(task) == Some(&true) {
                    open.insert(task, all.len());
                }
                all.push(Move {
                    time,
                    task,
                    gpus: *gpus,
                    pause: None,
                    expected_end: expected_end.map(Seconds::get),
                    reason,
                });
            }
            EventPayload::Ready { task, .. } => {
                running.insert(task.as_str(), true);
                if let Some(at) = open.remove(task.as_str()) {
                    all[at].pause = Some(time - all[at].time);
                }
            }
            EventPayload::Exit { task, .. } => {
                running.insert(task.as_str(), false);
            }
            _ => {}
        }
    }
    all
}

/// End times of the trainings that ended.
fn ends(events: &[RunEvent]) -> BTreeMap<&str, f64> {
    let mut ends = BTreeMap::new();
    let finished = events.last().map(|e| match &e.payload {
        EventPayload::Summary { tasks, .. } => tasks.as_slice(),
        _ => &[],
    });
    for event in events {
        if let EventPayload::Exit { task, .. } = &event.payload
            && finished
                .unwrap_or(&[])
                .iter()
                .any(|t| t.id == *task && t.finished)
        {
            ends.insert(task.as_str(), event.time.get());
        }
    }
    ends
}

fn table(moves: &[Move<'_>], ends: &BTreeMap<&str, f64>) -> Table {
    let mut table = Table::new(
        "moves",
        "GPUs given, and the end as it was expected and as it was",
    )
    .measured("time_s", "time", "s")
    .column("task", "training", "")
    .column("gpus", "GPUs", "")
    .measured("pause_s", "pause", "s")
    .column("expected_end_s", "expected end", "s")
    .measured("end_s", "end", "s")
    .column("error_percent", "error", "%")
    .column("reason", "why", "");
    for m in moves {
        let end = ends.get(m.task).copied();
        // Error relative to the time that remained when the end was predicted.
        let error = m.expected_end.zip(end).filter(|(_, end)| *end > m.time);
        table.rows.push(vec![
            Cell::Number(m.time),
            m.task.to_owned().into(),
            Cell::Count(u64::from(m.gpus)),
            Cell::number(m.pause),
            Cell::number(m.expected_end),
            Cell::number(end),
            Cell::number(error.map(|(e, end)| 100.0 * (e - end) / (end - m.time))),
            m.reason.to_owned().into(),
        ]);
    }
    table.without_empty_columns()
}

/// Plot of losses over time, with a mark at every change of a training's GPUs.
fn losses(events: &[RunEvent], moves: &[Move<'_>]) -> Plot {
    let mut lines: Vec<Line> = Vec::new();
    for event in events {
        if let EventPayload::Progress { task, progress, .. } = &event.payload
            && let Some(loss) = progress.loss
        {
            let known = lines.iter().position(|l| l.name == task.as_str());
            let at = known.unwrap_or_else(|| {
                lines.push(Line {
                    name: task.to_string(),
                    colour: lines.len(),
                    steps: false,
                    at: Vec::new(),
                });
                lines.len() - 1
            });
            lines[at].at.push((event.time.get(), loss));
        }
    }
    let mark = |m: &Move<'_>| {
        let line = lines.iter().find(|l| l.name == m.task)?;
        let at = line.at.iter().find(|p| p.0 >= m.time)?;
        Some(Mark {
            name: format!("{} GPUs", m.gpus),
            colour: line.colour,
            at: *at,
        })
    };
    Plot {
        x: "seconds".to_owned(),
        y: "loss".to_owned(),
        from_zero: true,
        marks: moves.iter().filter_map(mark).collect(),
        lines,
        ..Plot::default()
    }
}

/// GPUs on which processes ran, each from its start to its end.
fn held(events: &[RunEvent]) -> Area {
    let mut layers: Vec<String> = Vec::new();
    let mut given: BTreeMap<&str, u32> = BTreeMap::new();
    let mut now: Vec<f64> = Vec::new();
    let mut steps: Vec<(f64, Vec<f64>)> = Vec::new();
    for event in events {
        let (task, gpus) = match &event.payload {
            EventPayload::Reshare { task, gpus, .. } => {
                given.extend(gpus.map(|g| (task.as_str(), g)));
                continue;
            }
            EventPayload::Start { task, .. } => {
                let gpus = given.get(task.as_str()).copied();
                (task.as_str(), f64::from(gpus.unwrap_or(0)))
            }
            EventPayload::Exit { task, .. } => (task.as_str(), 0.0),
            _ => continue,
        };
        let at = layers.iter().position(|l| l == task).unwrap_or_else(|| {
            layers.push(task.to_owned());
            now.push(0.0);
            layers.len() - 1
        });
        now[at] = gpus;
        steps.push((event.time.get(), now.clone()));
    }
    let count = layers.len();
    for (_, heights) in &mut steps {
        heights.resize(count, 0.0);
    }
    let full = steps.iter().map(|(_, h)| h.iter().sum::<f64>());
    Area {
        x: "seconds".to_owned(),
        y: "GPUs".to_owned(),
        full: full.fold(1.0, f64::max),
        panels: vec![Panel {
            name: String::new(),
            steps,
        }],
        layers,
    }
}
