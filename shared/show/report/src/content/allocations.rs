use doc::Allocation;

use crate::number::plain;
use crate::page::{Cell, Report, Table};
use crate::picture::{Area, Drawing, Panel};

/// Reports decisions about GPUs: what each changed and why, and the GPUs of every training over
/// time.
pub fn report(decisions: &[Allocation]) -> Report {
    let mut report = Report::new("Allocations of GPUs", None, false);
    let names = names(decisions);
    let gpus = decisions.last().map_or(0, |d| d.total_gpus);
    report.fact("GPUs", gpus.to_string());
    report.fact("trainings", names.join(", "));
    report.fact("decisions", decisions.len().to_string());
    if let Some(last) = decisions.last() {
        report.fact(
            "pause of a reconfiguration",
            format!("{} s", plain(last.pause.get())),
        );
    }
    report.table(table(decisions));
    report.table(ends(decisions));
    if decisions.len() > 1 {
        report.picture(
            "gpus",
            "GPUs of every training",
            Drawing::Area(area(decisions, names)),
        );
    }
    report
}

fn names(decisions: &[Allocation]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for id in decisions.iter().flat_map(|d| d.trainings.keys()) {
        if !names.iter().any(|n| n == id.as_str()) {
            names.push(id.to_string());
        }
    }
    names
}

fn table(decisions: &[Allocation]) -> Table {
    let mut table = Table::new("decisions", "Decisions")
        .column("seq", "no.", "")
        .column("time_s", "time", "s")
        .column("gpus", "GPUs", "")
        .column("gain_s", "gain", "s")
        .column("gain_low_s", "at least", "s")
        .column("gain_high_s", "at most", "s")
        .column("reason", "why", "");
    for d in decisions {
        let each = d.trainings.iter().map(|(id, a)| match a.reached {
            true => format!("{id} reached"),
            false => format!("{id} {}", a.gpus),
        });
        table.rows.push(vec![
            Cell::Count(d.seq),
            Cell::number(Some(d.time.get())),
            each.collect::<Vec<_>>().join(", ").into(),
            Cell::number(d.gain.map(|g| g.seconds)),
            Cell::number(d.gain.map(|g| g.low)),
            Cell::number(d.gain.map(|g| g.high)),
            d.reason.clone().into(),
        ]);
    }
    table.without_empty_columns()
}

/// Table of the expected ends of the trainings, one row per decision.
fn ends(decisions: &[Allocation]) -> Table {
    let mut table = Table::new("expected", "Expected ends")
        .column("seq", "no.", "")
        .column("task", "training", "")
        .column("end_s", "end", "s")
        .column("low_s", "at least", "s")
        .column("high_s", "at most", "s");
    for d in decisions {
        for (id, a) in &d.trainings {
            let Some(e) = a.expected else {
                continue;
            };
            table.rows.push(vec![
                Cell::Count(d.seq),
                id.to_string().into(),
                Cell::number(Some(e.end.get())),
                Cell::number(Some(e.low.get())),
                Cell::number(Some(e.high.get())),
            ]);
        }
    }
    table.without_empty_columns()
}

fn area(decisions: &[Allocation], names: Vec<String>) -> Area {
    let step = |d: &Allocation| {
        let of = |name: &String| {
            let found = d.trainings.iter().find(|(id, _)| id.as_str() == name);
            f64::from(found.map_or(0, |(_, a)| a.gpus))
        };
        (d.time.get(), names.iter().map(of).collect())
    };
    Area {
        x: "seconds".to_owned(),
        y: "GPUs".to_owned(),
        full: f64::from(decisions.last().map_or(1, |d| d.total_gpus)),
        panels: vec![Panel {
            name: String::new(),
            steps: decisions.iter().map(step).collect(),
        }],
        layers: names,
    }
}
