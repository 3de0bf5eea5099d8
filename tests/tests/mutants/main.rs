//! Mutation test of the checker: mt-check accepts every document that the tools make, and every
//! document in which one field is altered is refused, by its reader or by mt-check, unless the
//! field is exempt by name.

#![expect(clippy::unwrap_used, reason = "a test fails by panic")]

mod alter;
mod exempt;
mod made;

use std::collections::{BTreeMap, BTreeSet};

use check::Inspector;
use mt_tests::{lines, parsed};

use alter::Mutant;
use made::{Document, Made};

/// Mutants of one place and kind, the last ones: all steps of a fitted tree, and all progress of a run, are alike.
const OF_EACH_PLACE: usize = 1;

/// How many mutants of a place are accepted and refused.
#[derive(Default)]
struct Score {
    accepted: usize,
    refused: usize,
}

/// An inspector that has seen what stands before a document.
fn inspector(document: &Document) -> Inspector {
    let mut inspector = Inspector::default();
    for before in parsed(&lines(&document.before)).unwrap_or_default() {
        let _ = inspector.judge(before);
    }
    inspector
}

/// Judges every mutant of a document; answers the score of each place and kind of alteration.
fn judged(document: &Document) -> BTreeMap<(String, &'static str), Score> {
    let mut scores: BTreeMap<(String, &'static str), Score> = BTreeMap::new();
    let mut inspector = inspector(document);
    let honest = format!("{:?}", parsed(&lines(&document.records)).unwrap());
    for Mutant {
        records,
        place,
        kind,
    } in alter::mutants(&document.records, OF_EACH_PLACE)
    {
        if is_copy(document.name, &place) {
            continue;
        }
        let score = scores.entry((place, kind)).or_default();
        let Some(documents) = parsed(&lines(&records)) else {
            score.refused += 1;
            continue;
        };
        // A default that is left out alters nothing.
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

/// Whether a place is in a document that stands inside of another and is altered elsewhere: the plan of
/// a run and of one timeline is altered in them, and the model of one plan.
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

#[test]
fn every_altered_field_is_refused() {
    let Made { documents, skipped } = Made::new();
    let judge = |some: &[&Document]| -> Vec<_> {
        let each = some.iter().map(|d| (d.name, d.kind, judged(d)));
        each.collect()
    };
    let judge = &judge;
    // The documents are of very unequal size, so that they are dealt out by turns.
    let dealt = |turn: usize| -> Vec<&Document> {
        let here = documents.iter().enumerate().filter(|(i, _)| i % 2 == turn);
        here.map(|(_, d)| d).collect()
    };
    let (even, odd) = (dealt(0), dealt(1));
    let all = std::thread::scope(|scope| {
        let other = scope.spawn(|| judge(&odd));
        let mut all = judge(&even);
        all.extend(other.join().unwrap());
        all
    });
    let mut refused = 0;
    let mut exempted: BTreeMap<&str, usize> = BTreeMap::new();
    let mut unexplained = String::new();
    let mut used = BTreeSet::new();
    for (name, document, scores) in all {
        for ((place, kind), score) in scores {
            refused += score.refused;
            if score.accepted == 0 {
                continue;
            }
            match exempt::reason(document, &place, kind) {
                Some(at) => {
                    used.insert(at);
                    *exempted.entry(exempt::why(at)).or_default() += score.accepted;
                    println!("{name} {place} {kind}: {}", exempt::why(at));
                }
                None => {
                    let of = score.accepted + score.refused;
                    let line = format!("{name} {place} {kind}: {} of {of}\n", score.accepted);
                    unexplained += &line;
                }
            }
        }
    }
    println!("{refused} mutants refused; accepted at exempt places, by reason: {exempted:#?}");
    assert!(unexplained.is_empty(), "accepted:\n{unexplained}");
    if let Some(why) = skipped {
        testkit::skipped("cgroups", format!("no run of processes here: {why}"));
    } else {
        let unused: Vec<_> = exempt::unused(&used);
        assert!(unused.is_empty(), "reasons for nothing: {unused:?}");
    }
}
