//! What happens to a job, or is done to it or to what runs it, against everything that runs jobs: no cell is silent.
//!
//! A row is something that happens (a report, a limit, a pause, a signal, a way of dying) or an option; a column is
//! a runner. `rows.rs` and `options.rs` say what must be seen in each cell; `column.rs` starts the real program with a
//! small job; `judge.rs` compares. The options come from the programs themselves, so a new one without a row fails.
//!
//! `MT_TABLE=stall cargo test -p mt-tests --test table` runs only the cells with this word in the name of their row or
//! column, and prints everything that was seen in those that differ.

mod cell;
mod column;
mod judge;
mod options;
mod preload;
mod row;
mod rows;
mod seen;

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use column::{Column, RUNNERS};
use jobs::Happening;
use judge::Expect;
use row::{Group, Row};

/// Cells that run at a time. Their jobs mostly sleep, so this is more than the processors of a small machine; with
/// many more, limits of half a second would be reached by jobs that are merely late.
const AT_ONCE: usize = 10;

/// Name of the row of a report. A new kind of report does not compile here until it has one.
fn row_of(what: &Happening) -> &'static str {
    match what {
        Happening::Loaded => "loaded",
        Happening::Ready { .. } => "ready",
        Happening::Steps { .. } => "steps",
        Happening::Parked => "parked",
        Happening::Done { .. } => "done",
        Happening::LogFailed(_) => "log failed",
        Happening::Doubt(_) => "doubt",
        Happening::NormsLeftOut(_) => "norms left out",
        Happening::Overlong => "overlong",
        Happening::Unkillable => "unkillable",
        Happening::Exited { .. } => "exited",
    }
}

/// Rows that a test of `row_of` cannot make without private types: named here.
const REPORTS: [&str; 11] = [
    "loaded",
    "ready",
    "steps",
    "parked",
    "done",
    "log failed",
    "doubt",
    "norms left out",
    "overlong",
    "unkillable",
    "exited",
];

fn all() -> impl Iterator<Item = &'static Row> {
    rows::ROWS.iter().chain(options::ROWS)
}

#[test]
fn every_report_has_a_row_for_every_runner() {
    assert!(REPORTS.contains(&row_of(&Happening::Overlong)));
    let has = |name: &str, column: Column| {
        let mut rows = all().filter(|row| row.group == Group::Report);
        rows.any(|row| row.name == name && row.columns.contains(&column))
    };
    for name in REPORTS {
        for column in RUNNERS {
            assert!(has(name, column), "no cell for {name} / {column:?}");
        }
    }
    for row in rows::ROWS {
        let same = rows::ROWS
            .iter()
            .filter(|r| (r.group, r.name) == (row.group, row.name));
        let mut columns: Vec<Column> = same.flat_map(|r| r.columns.iter().copied()).collect();
        columns.sort();
        assert_eq!(columns, RUNNERS, "{}", row.title());
    }
}

#[test]
fn every_option_has_a_row() {
    let mut faults = Vec::new();
    let mut known = BTreeSet::new();
    for column in column::COLUMNS {
        for option in options::of(column) {
            let mut rows = options::ROWS.iter();
            if !rows.any(|r| r.name == option && r.columns.contains(&column)) {
                faults.push(format!("no row for {} {option}", column.program()));
            }
            known.insert((column, option));
        }
    }
    for row in options::ROWS {
        for column in row.columns {
            if !known.contains(&(*column, row.name.to_owned())) {
                faults.push(format!("{} has no {}", column.program(), row.name));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Whether control groups can be made, as root or in a delegated tree; reports it if not.
fn has_groups() -> bool {
    let made = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup"]
        .iter()
        .any(|parent| {
            let group = format!("{parent}/mt-table-{}", std::process::id());
            std::fs::create_dir(&group)
                .and_then(|()| std::fs::remove_dir(&group))
                .is_ok()
        });
    if !made {
        testkit::skipped("cgroups", "no control group can be made for the table");
    }
    made
}

/// Whether the machine lacks what a row needs; reports it.
fn lacks(row: &Row) -> bool {
    let freezer = std::path::Path::new("/sys/fs/cgroup/freezer/cgroup.procs");
    let lacks = matches!(row.act, row::Act::Freeze) && !freezer.exists();
    if lacks {
        testkit::skipped("freezer", format!("{}: there is no freezer", row.title()));
    }
    lacks
}

#[test]
fn every_cell_is_as_the_table_says() {
    if !has_groups() {
        return;
    }
    let wanted = std::env::var("MT_TABLE").unwrap_or_default();
    let cells: Vec<(&Row, Column)> = all()
        .filter(|row| !lacks(row))
        .flat_map(|row| row.columns.iter().map(move |column| (row, *column)))
        .filter(|(row, column)| format!("{} / {column:?}", row.title()).contains(&wanted))
        .collect();
    let libraries = preload::Libraries::build();
    let (next, red) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let empty = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(&(row, column)) = cells.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let expect = row.expects(column);
                    let fault = match expect {
                        Expect::Meaningless(why) => {
                            let told =
                                format!("{} / {column:?}: nothing to see: {why}", row.title());
                            empty.lock().unwrap().push(told);
                            None
                        }
                        Expect::Elsewhere(file) => judge::elsewhere(file, row.name),
                        _ => {
                            let seen = cell::play(row, column, &libraries);
                            judge::fault(expect, &seen).map(|why| match wanted.is_empty() {
                                true => why,
                                false => format!("{why}\n{seen}"),
                            })
                        }
                    };
                    let line = fault.map(|why| format!("{} / {column:?}: {why}", row.title()));
                    red.lock().unwrap().extend(line);
                }
            });
        }
    });
    let mut red = red.into_inner().unwrap();
    red.sort();
    let empty = empty.into_inner().unwrap();
    if !wanted.is_empty() {
        eprintln!("{}", empty.join("\n"));
    }
    eprintln!(
        "{} of {} cells differ; {} have nothing to see",
        red.len(),
        cells.len(),
        empty.len()
    );
    assert!(red.is_empty(), "cells that differ:\n{}", red.join("\n"));
}
