//! Journals that were cut, damaged or written twice, and which ended jobs are kept.

use std::fs;

use queue::book::{Book, Demand, Id, JobEnd, JobState, Placed, Record};
use queue::journal::{self, FILE};

use crate::made::{group, job};

fn added(first: u64, count: u64) -> Record {
    Record::Added {
        group: group(&first.to_string(), Demand::default()),
        jobs: (first..first + count).map(|id| job(Id(id), "t")).collect(),
        at_s: 1.0,
    }
}

fn started(id: u64) -> Record {
    Record::Started {
        id: Id(id),
        at_s: 2.0,
        placed: None,
    }
}

fn ended(id: u64, at_s: f64) -> Record {
    Record::Ended {
        id: Id(id),
        at_s,
        outcome: JobEnd::Done,
    }
}

fn text(records: &[Record]) -> Vec<String> {
    let line = |record| serde_json::to_string(record).expect("a record is JSON");
    records.iter().map(line).collect()
}

fn sample() -> Vec<Record> {
    vec![
        Record::Opened("boot".to_owned()),
        added(1, 3),
        started(1),
        ended(1, 3.0),
        added(4, 1),
        started(2),
        Record::Cancelled(Id(2)),
        Record::Held {
            id: Id(3),
            on: true,
        },
        ended(2, 4.0),
        started(4),
    ]
}

/// Opens a journal twice, as two servers would; returns the state, which both find.
fn open(text: &str) -> (Book, usize) {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join(FILE), text).expect("a journal");
    let found = journal::read(&folder.path().join(FILE)).expect("a journal is read");
    let (_, book) = journal::open(folder.path(), 5.0).expect("a journal opens");
    let aside = journal::aside(folder.path());
    assert_eq!(aside.len(), usize::from(!found.unreadable.is_empty()));
    for (_, line, why) in &found.unreadable {
        assert!(!why.is_empty());
        let kept = fs::read(&aside[0]).expect("a file");
        assert!(kept.windows(line.len()).any(|part| part == line));
    }
    let (_, again) = journal::open(folder.path(), 6.0).expect("a journal opens");
    assert_eq!(again, book, "the rewritten journal says the same");
    assert_eq!(journal::aside(folder.path()), aside);
    (book, found.unreadable.len())
}

/// Every line is in turn lost, doubled, cut, and turned into something else. What other lines say stands, and a job that
/// ended does not run again.
#[test]
fn a_damaged_journal_opens_with_what_its_other_lines_say() {
    let lines = text(&sample());
    let garbage = ["{}", "\u{0}\u{0}\u{0}", "{\"ended\":{\"id\":9}}", "[1"];
    for at in 0..lines.len() {
        let half = lines[at][..lines[at].len() / 2].to_owned();
        let twice = format!("{0}\n{0}", lines[at]);
        let changes = garbage.iter().map(|&s| s.to_owned());
        for new in changes.chain([half, twice.clone(), String::new()]) {
            let mut changed = lines.clone();
            changed[at].clone_from(&new);
            let (book, unreadable) = open(&(changed.join("\n") + "\n"));
            let damaged = !new.is_empty() && new != twice;
            assert!(!damaged || unreadable > 0, "line {at}: {new}");
            // Their addition was lost, and they with it.
            for id in if at == 1 { vec![] } else { vec![1, 2] } {
                let is_ended = book.entries[&Id(id)].is_ended();
                let own = if id == 1 { 3 } else { 8 };
                assert!(is_ended || at == own, "line {at}: {new}: job {id}");
            }
            assert!(at == 4 || book.entries.contains_key(&Id(4)), "{at}: {new}");
            // A number that was in use is not used again.
            assert_eq!(
                book.next_ids(1),
                [Id(if new.contains('9') { 10 } else { 5 })]
            );
        }
    }
}

/// Two servers within a second, or after the clock was set back.
#[test]
fn lines_put_aside_do_not_replace_those_of_an_earlier_server() {
    let folder = tempfile::tempdir().unwrap();
    for torn in ["{\"one", "{\"two"] {
        fs::write(folder.path().join(FILE), torn).unwrap();
        journal::open(folder.path(), 5.0).unwrap();
    }
    let kept: Vec<String> = journal::aside(folder.path())
        .iter()
        .map(|path| fs::read_to_string(path).unwrap())
        .collect();
    assert_eq!(kept, ["{\"one\n", "{\"two\n"]);
}

#[test]
fn a_second_end_is_put_aside_and_the_first_stands() {
    let mut records = sample();
    records.insert(4, ended(1, 99.0));
    let (book, unreadable) = open(&(text(&records).join("\n") + "\n"));
    assert_eq!(unreadable, 1);
    let JobState::Ended { at_s, .. } = book.entries[&Id(1)].state else {
        panic!("it ended");
    };
    assert!((at_s - 3.0).abs() < 1e-9);
}

/// A power cut leaves any part of the last record.
#[test]
fn a_journal_that_is_cut_anywhere_has_every_record_before_the_cut() {
    let records = sample();
    let lines = text(&records);
    let mut whole = Vec::new();
    for count in 0..=records.len() {
        let mut book = Book::default();
        records[..count]
            .iter()
            .for_each(|record| book.apply(record).unwrap());
        whole.push(book);
    }
    let mut before = String::new();
    for (count, line) in lines.iter().enumerate() {
        for cut in (0..line.len()).step_by(7) {
            let (book, _) = open(&format!("{before}{}", &line[..cut]));
            assert!(
                book.entries == whole[count].entries,
                "record {count} cut at {cut}"
            );
        }
        before += &format!("{line}\n");
    }
}

/// The largest line that a rewritten journal can lose is one job.
#[test]
fn damage_to_the_first_line_of_a_rewritten_journal_costs_no_job() {
    let mut book = Book::default();
    for record in sample() {
        book.apply(&record).unwrap();
    }
    let mut lines = text(&book.records().collect::<Vec<_>>());
    lines[0] = "x".to_owned();
    let (found, unreadable) = open(&(lines.join("\n") + "\n"));
    assert_eq!((found.entries, unreadable), (book.entries, 1));
    assert_eq!(found.last, 4);
}

#[test]
fn a_contradiction_changes_nothing_and_is_found_before_it_is_written() {
    let mut book = Book::default();
    book.apply(&added(1, 2)).unwrap();
    let before = book.clone();
    let cancelled = |id| Record::Ended {
        id: Id(id),
        at_s: 2.0,
        outcome: JobEnd::Cancelled,
    };
    let twice = [cancelled(1), cancelled(2), cancelled(1)];
    let wrong = book.rehearse(&twice).unwrap_err().to_string();
    assert!(wrong.contains("job 1 ends, but it has ended"), "{wrong}");
    assert_eq!(book, before);
    book.rehearse(&twice[..2]).unwrap();
    for wrong in [
        started(3),
        ended(1, 2.0),
        Record::Cancelled(Id(1)),
        added(9, 1),
    ] {
        assert!(book.apply(&wrong).is_err(), "{wrong:?}");
        assert_eq!(book, before);
    }
}

#[test]
fn ended_jobs_are_kept_while_somebody_may_wait_for_them() {
    let mut book = Book::default();
    // A long sweep, of which one job still waits; then one that ended long ago, and one that ended now.
    for (first, count) in [(1, 50), (51, 50), (101, 50)] {
        book.apply(&added(first, count)).unwrap();
    }
    for id in (1..=150).filter(|id| *id != 50) {
        book.apply(&started(id)).unwrap();
        book.apply(&ended(id, if id > 100 { 1e6 } else { 3.0 }))
            .unwrap();
    }
    let kept = |keep, since| {
        let mut book = book.clone();
        book.prune(keep, since);
        let ids = book.entries.keys().map(|id| id.0);
        (ids.collect::<Vec<u64>>(), book.groups.len())
    };
    assert_eq!(
        kept(10, 10.0).0,
        [1..=50, 101..=150]
            .into_iter()
            .flatten()
            .collect::<Vec<u64>>()
    );
    assert_eq!(kept(10, 10.0).1, 2);
    assert_eq!(kept(10, 1e9).0.len(), 60);
    assert_eq!(kept(1000, 1e9).0.len(), 150);
}

#[test]
fn only_deaths_of_the_server_give_a_job_up() {
    let mut book = Book::default();
    book.apply(&added(1, 1)).unwrap();
    for _ in 0..5 {
        book.apply(&started(1)).unwrap();
        let records = book.stopped(3.0);
        assert_eq!(records.len(), 1);
        book.apply(&records[0]).unwrap();
    }
    for death in 1..=3 {
        book.apply(&started(1)).unwrap();
        for record in book.recover("boot", 4.0, |_| false) {
            book.apply(&record).unwrap();
        }
        assert_eq!(book.entries[&Id(1)].is_ended(), death == 3);
    }
    assert_eq!(book.entries[&Id(1)].starts, 8);
}

/// Journals of older queues say nothing of devices; newer ones name them.
#[test]
fn where_a_job_was_started_is_read_again_and_may_be_missing() {
    let mut book = Book::default();
    book.apply(&added(1, 2)).unwrap();
    let old: Record = serde_json::from_str(r#"{"started":{"id":1,"at_s":2.0}}"#).unwrap();
    assert_eq!(old, started(1));
    let placed = Placed {
        devices: vec!["GPU-ab".to_owned()],
        share: 3_000,
    };
    let new = Record::Started {
        id: Id(2),
        at_s: 2.0,
        placed: Some(placed.clone()),
    };
    let (book, unreadable) = open(&(text(&[added(1, 2), old, new]).join("\n") + "\n"));
    assert_eq!(unreadable, 0);
    assert_eq!(book.entries[&Id(1)].placed, None);
    assert_eq!(book.entries[&Id(2)].placed, Some(placed));
    assert!((book.share(&book.entries[&Id(2)]).percent() - 30.0).abs() < 1e-9);
}
