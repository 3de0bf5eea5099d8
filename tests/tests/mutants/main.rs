//! Mutation test of the checker: mt-check accepts every document that the tools make. Every document with one altered
//! field is refused, by its reader or by mt-check, unless the field is exempt by name.

#![expect(clippy::unwrap_used, reason = "a test fails by panic")]

mod alter;
mod exempt;
mod made;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};

use check::Inspector;
use mt_tests::{lines, parsed};

use alter::{Mutant, Reach};
use made::{Document, Made};

/// Number of the last mutants of a position and kind that are tried: all steps of a fitted tree, for example, are
/// alike.
const OF_EACH_PLACE: usize = 1;

/// How many mutants of a position are accepted and refused.
#[derive(Default)]
struct Score {
    accepted: usize,
    refused: usize,
}

/// The scores of each place and kind of alteration.
type Scores = BTreeMap<(String, &'static str), Score>;

/// An inspector that has seen the documents preceding a document.
fn inspector(document: &Document) -> Inspector {
    let mut inspector = Inspector::default();
    for before in parsed(&lines(&document.before)).unwrap_or_default() {
        let _ = inspector.judge(before);
    }
    inspector
}

/// Checks every mutant of a document; returns the score of each position and kind of alteration.
fn judged(document: &Document, reach: Reach) -> Scores {
    let mut scores = Scores::new();
    let mut inspector = inspector(document);
    let honest = format!("{:?}", parsed(&lines(&document.records)).unwrap());
    for Mutant {
        records,
        place,
        kind,
    } in alter::mutants(&document.records, OF_EACH_PLACE, reach)
    {
        if is_copy(&document.name, &place) {
            continue;
        }
        let score = scores.entry((place, kind)).or_default();
        let Some(documents) = parsed(&lines(&records)) else {
            score.refused += 1;
            continue;
        };
        // Removing a default alters nothing.
        let same = format!("{documents:?}") == honest;
        let lie = documents.into_iter().any(|d| !inspector.judge(d).ok);
        if lie {
            score.refused += 1;
        } else if !same {
            score.accepted += 1;
        }
    }
    scores
}

/// Whether a position is in an embedded document that is altered elsewhere: the plan of a run and of one timeline is
/// altered there, and the model of one plan.
fn is_copy(name: &str, place: &str) -> bool {
    let timelines = [
        "two-timeline",
        "half-timeline",
        "shared-timeline",
        "fixed-timeline",
        "single-timeline",
    ];
    let plans = ["bound-plan", "damped-plan", "round-plan", "no-plan"];
    let model = plans.contains(&name) || ["timeline", "run"].contains(&name);
    let plan = place.contains("$.plan.") && !place.contains(".link");
    timelines.contains(&name) && plan || model && place.contains(".model.")
}

#[test]
fn every_document_of_the_tools_is_accepted() {
    let made = Made::new();
    for document in &made.documents {
        let mut inspector = inspector(document);
        for one in parsed(&lines(&document.records)).unwrap() {
            let verdict = inspector.judge(one);
            assert!(verdict.ok, "{}: {}", document.name, verdict.lines(false));
        }
    }
}

/// The scores of each document, in order.
fn all_judged(documents: &[Document], reach: Reach) -> Vec<(&Document, Scores)> {
    // Documents differ greatly in size, so two threads take them in turns.
    let next = AtomicUsize::new(0);
    let take = || {
        let mut done = Vec::new();
        while let Some(document) = documents.get(next.fetch_add(1, Ordering::Relaxed)) {
            done.push((document, judged(document, reach)));
        }
        done
    };
    let mut all = std::thread::scope(|scope| {
        let other = scope.spawn(take);
        let mut all = take();
        all.extend(other.join().unwrap());
        all
    });
    all.sort_by(|a, b| a.0.name.cmp(&b.0.name));
    all
}

/// Accepted alterations by reason, and the reasons that were needed.
#[expect(clippy::print_stdout, reason = "a test that tells what it lets pass")]
fn explained(all: Vec<(&Document, Scores)>) -> BTreeSet<usize> {
    let (mut refused, mut places) = (0, 0);
    let mut exempted: BTreeMap<&str, usize> = BTreeMap::new();
    let mut unexplained = String::new();
    let mut used = BTreeSet::new();
    for (document, scores) in all {
        let name = &document.name;
        for ((place, kind), score) in scores {
            refused += score.refused;
            places += 1;
            if score.accepted == 0 {
                continue;
            }
            match exempt::reason(document.kind, &place, kind) {
                Some(at) => {
                    used.insert(at);
                    *exempted.entry(exempt::why(at)).or_default() += score.accepted;
                    println!("{name} {place} {kind}: {}", exempt::why(at));
                }
                None => unexplained += &format!("{name} {place} {kind}\n"),
            }
        }
    }
    let accepted: usize = exempted.values().sum();
    println!(
        "{places} places and kinds: {refused} mutants refused, {accepted} accepted at exempt places, \
         by reason: {exempted:#?}"
    );
    let count = unexplained.lines().count();
    assert!(count == 0, "{count} accepted:\n{unexplained}");
    used
}

#[test]
fn every_altered_field_is_refused() {
    let Made { documents, skipped } = Made::new();
    let used = explained(all_judged(&documents, Reach::Little));
    if let Some(why) = skipped {
        testkit::skipped("cgroups", format!("no run of processes here: {why}"));
    } else {
        let unused: Vec<_> = exempt::unused(&used, false);
        assert!(unused.is_empty(), "reasons for nothing: {unused:?}");
    }
}

/// Strong alterations. `make hostile` runs it (`MT_HOSTILE`), because it takes twice as long.
#[test]
fn no_field_is_altered_far() {
    if std::env::var_os("MT_HOSTILE").is_none() {
        return;
    }
    let Made { documents, .. } = Made::new();
    let used = explained(all_judged(&documents, Reach::Far));
    let unused = exempt::unused(&used, true);
    assert!(unused.is_empty(), "reasons for nothing: {unused:?}");
}
