//! Reports what a launch learnt from its rounds: seconds saved against its first shares.

use doc::{EventPayload, Learning, RunEvent, ShareChoice};
use units::Seconds;

use crate::number::plain;
use crate::page::{Cell, Report, Table};
use crate::picture::{Drawing, Line, Plot, Points};

/// A round: its number, end, duration and lesson.
struct Taught<'a> {
    round: u32,
    ended_s: f64,
    took_s: f64,
    learning: &'a Learning,
}

fn taught(events: &[RunEvent]) -> Vec<Taught<'_>> {
    let each = events.iter().filter_map(|e| match &e.payload {
        EventPayload::Round {
            round,
            makespan,
            learning: Some(learning),
            ..
        } => Some(Taught {
            round: *round,
            ended_s: e.time.get(),
            took_s: makespan.get(),
            learning,
        }),
        _ => None,
    });
    each.collect()
}

/// Adds the number of trials, the last of them, and the seconds saved.
pub fn add(report: &mut Report, events: &[RunEvent]) {
    let rounds = taught(events);
    let Some(last) = rounds.last() else {
        return;
    };
    let trials = || {
        rounds
            .iter()
            .filter(|r| r.learning.choice == ShareChoice::Trial)
    };
    let tried = match trials().next_back() {
        None => "nothing was tried".to_owned(),
        Some(trial) => format!(
            "{} of {} rounds were trials, the last of them round {}",
            trials().count(),
            rounds.len(),
            trial.round
        ),
    };
    let saved = last.learning.saved_s;
    let all: f64 = rounds.iter().map(|r| r.took_s).sum();
    let part = Some(100.0 * saved / (all + saved))
        .filter(|_| all > 0.0 && all + saved > 0.0)
        .map_or(String::new(), |p| format!(" ({p:.1} %)"));
    let what = if saved < 0.0 { "lost" } else { "saved" };
    report.fact(
        "learnt",
        format!(
            "{} s{part} {what} against the first shares, as estimated; {tried}",
            plain(saved.abs())
        ),
    );
    saved_over_time(report, &rounds);
    report.table(table(&rounds));
}

fn saved_over_time(report: &mut Report, rounds: &[Taught<'_>]) {
    if rounds.len() < 2 {
        return;
    }
    let at = |r: &Taught<'_>| (r.ended_s, r.learning.saved_s);
    let trials = rounds
        .iter()
        .filter(|r| r.learning.choice == ShareChoice::Trial);
    let simulated = if report.simulated { ", simulated" } else { "" };
    let plot = Plot {
        x: format!("time (s{simulated})"),
        y: format!("saved so far (s{simulated})"),
        from_zero: true,
        points: vec![Points {
            name: "end of a trial".to_owned(),
            colour: Some(1),
            at: trials.map(at).collect(),
        }],
        lines: vec![Line {
            name: "saved against the first shares".to_owned(),
            colour: 0,
            steps: false,
            at: std::iter::once((0.0, 0.0))
                .chain(rounds.iter().map(at))
                .collect(),
        }],
        ..Plot::default()
    };
    report.picture("saved", "Seconds saved by learning", Drawing::Plot(plot));
}

fn table(rounds: &[Taught<'_>]) -> Table {
    let mut table = Table::new("learning", "What the rounds taught")
        .column("round", "round", "")
        .column("choice", "shares", "")
        .measured("best_s", "best expected", "s")
        .measured("expected_s", "expected", "s")
        .measured("took_s", "took", "s")
        .measured("first_s", "first shares", "s")
        .measured("saved_s", "saved so far", "s");
    for r in rounds {
        let seconds = |s: Option<Seconds>| Cell::number(s.map(Seconds::get));
        table.rows.push(vec![
            Cell::Count(u64::from(r.round)),
            r.learning.choice.name().as_str().into(),
            seconds(r.learning.best),
            seconds(r.learning.expected),
            Cell::Number(r.took_s),
            seconds(r.learning.first),
            Cell::Number(r.learning.saved_s),
        ]);
    }
    table.without_empty_columns()
}
