//! Summary of a fit for people.

use std::fmt::Write;

use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};
use doc::{Profile, Workload};
use units::corun::Setting;

use crate::{Dataset, Driver, Fitted, Kind};

/// Relevance below which a feature is not mentioned.
const RELEVANT: f64 = 0.2;
/// Expected relative improvement by doubling the samples that justifies their cost.
const WORTH: f64 = 0.85;

/// Columns if the width is unknown: the default width of a terminal.
const COLUMNS: u16 = 80;

/// Errors of every family and task, the drivers of each task's throughput, the worst predicted co-runs, and the
/// benefit of more samples. Lines are broken to fit `width` columns if it is given; in a log they stay whole, so
/// that they can be searched.
#[must_use]
pub fn text(profile: &Profile, data: &Dataset, fitted: &Fitted, width: Option<u16>) -> String {
    let workload = &profile.header.workload;
    let mut out = headline(data, fitted);
    let table = tasks(workload, fitted, width.unwrap_or(COLUMNS));
    let _ = write!(out, "\n{}", table.trim_fmt());
    drivers(&mut out, workload, fitted);
    worst(&mut out, workload, data, fitted);
    rejected(&mut out, workload, fitted);
    learning(&mut out, fitted);
    let Some(width) = width else {
        return out;
    };
    let lines: Vec<String> = out.lines().map(|l| filled(l, width.into())).collect();
    lines.join("\n")
}

/// A line broken at its spaces if it is longer than `width`; continuation lines are indented.
fn filled(line: &str, width: usize) -> String {
    if line.chars().count() <= width {
        return line.to_owned();
    }
    let mut all = String::new();
    let mut column = 0;
    for (i, word) in line.split(' ').enumerate() {
        let length = word.chars().count();
        if i > 0 && column + 1 + length > width {
            all += "\n   ";
            column = 3;
        }
        if i > 0 {
            all.push(' ');
            column += 1;
        }
        all += word;
        column += length;
    }
    all
}

fn percent(v: Option<f64>) -> String {
    v.map_or_else(|| "-".to_owned(), |e| format!("{e:.1} %"))
}

fn headline(data: &Dataset, fitted: &Fitted) -> String {
    let report = &fitted.report;
    let method = fitted.predictor.method();
    let mut out = format!(
        "{} tasks, {} configurations, family {}",
        data.tasks.len(),
        data.samples.len(),
        doc::name_of(&method)
    );
    if report.folds == 0 {
        out += ": too few configurations of several tasks to cross-validate";
        return out;
    }
    let errors: Vec<String> = report
        .families
        .iter()
        .map(|(m, e)| format!("{} {e:.1} %", doc::name_of(m)))
        .collect();
    let _ = write!(
        out,
        "\nerror of the total throughput on held-out configurations ({} parts): {}",
        report.folds,
        errors.join(", ")
    );
    out += "\nerror of each throughput, by distance from the measured configurations:";
    for e in &report.kinds {
        let _ = write!(
            out,
            "\n  {}: {:.1} % ({} held out, of {} {})",
            e.kind.words(),
            e.error_percent,
            e.cases,
            e.parts,
            if e.parts == 1 { "part" } else { "parts" }
        );
    }
    let known = |kind: &Kind| report.kinds.iter().any(|e| e.kind == *kind);
    let unknown: Vec<&str> = Kind::ALL
        .iter()
        .filter(|k| !known(k))
        .map(|k| k.words())
        .collect();
    if !unknown.is_empty() {
        let _ = write!(
            out,
            "\n  unknown, too few to hold out: {}",
            unknown.join("; ")
        );
    }
    if let Some(c) = report.coverage_90 {
        let _ = write!(out, "\n90 % intervals hold {:.0} %", 100.0 * c);
    }
    out
}

fn tasks(workload: &Workload, fitted: &Fitted, width: u16) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(width);
    table.set_header([
        "task",
        "rows",
        "error",
        "host ms",
        "device us/sample",
        "useful share",
        "slowed most by",
    ]);
    for (task, report) in workload.tasks.iter().zip(&fitted.report.tasks) {
        let slowed = report.slowed_most_by.map_or_else(
            || "-".to_owned(),
            |(j, c)| format!("{} (+{:.0} %)", workload.tasks[j].id, 100.0 * c),
        );
        let number = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
        table.add_row(vec![
            Cell::new(&task.id),
            number(report.rows.to_string()),
            number(percent(report.error_percent)),
            number(format!("{:.2}", report.host_ms)),
            number(format!("{:.1}", report.device_us_per_sample)),
            number(format!("{:.0} %", report.bend_percent)),
            Cell::new(slowed),
        ]);
    }
    table
}

/// Features on which the throughput of each task depends, the strongest first.
fn drivers(out: &mut String, workload: &Workload, fitted: &Fitted) {
    let name = |d: &Driver| match d.of {
        Some(j) => format!("{} of {}", d.what, workload.tasks[j].id),
        None => d.what.to_owned(),
    };
    for (task, report) in workload.tasks.iter().zip(&fitted.report.tasks) {
        let relevant = report.drivers.iter().filter(|(_, r)| *r > RELEVANT);
        let list: Vec<String> = relevant.take(3).map(|(d, _)| name(d)).collect();
        if !list.is_empty() {
            let _ = write!(out, "\n{} depends on {}", task.id, list.join(", "));
        }
    }
}

fn configuration(workload: &Workload, active: &[Setting]) -> String {
    let one = |a: &Setting| {
        format!(
            "{} batch {} share {}",
            workload.tasks[a.task].id, a.batch, a.share
        )
    };
    active.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn worst(out: &mut String, workload: &Workload, data: &Dataset, fitted: &Fitted) {
    for (k, w) in fitted.report.worst.iter().take(3).enumerate() {
        let lead = if k == 0 {
            "predicted worst:"
        } else {
            "                "
        };
        let _ = write!(
            out,
            "\n{lead} {:+.1} % at {}",
            w.error_percent,
            configuration(workload, &data.samples[w.sample].active)
        );
    }
}

fn rejected(out: &mut String, workload: &Workload, fitted: &Fitted) {
    for (task, report) in workload.tasks.iter().zip(&fitted.report.tasks) {
        if !report.rejected.is_empty() {
            let _ = write!(
                out,
                "\noutliers, with little weight: {} of {} measurements of {}",
                report.rejected.len(),
                report.rows,
                task.id
            );
        }
    }
}

fn learning(out: &mut String, fitted: &Fitted) {
    let report = &fitted.report;
    let points: Vec<String> = report
        .learning
        .iter()
        .map(|(n, e)| format!("{e:.1} % with {n}"))
        .collect();
    let (Some(expected), Some((_, last))) = (report.expected_error(2.0), report.learning.last())
    else {
        return;
    };
    let advice = if expected < WORTH * last {
        "more samples would help"
    } else {
        "more samples would hardly help"
    };
    let _ = write!(
        out,
        "\nlearning curve: {}, about {expected:.1} % with twice as many; {advice}",
        points.join(", ")
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_broken_at_spaces_and_begin_as_they_did() {
        let line = "  predicted worst: +6.4 % at r18 batch 64";
        assert_eq!(filled(line, 41), line);
        assert_eq!(
            filled(line, 24),
            "  predicted worst: +6.4\n    % at r18 batch 64"
        );
        assert_eq!(filled("a-long-word b", 4), "a-long-word\n    b");
    }
}
