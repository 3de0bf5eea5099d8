//! Fields that may be altered unnoticed, each with the reason.

use std::collections::BTreeSet;

const GIVEN: &str = "given by the user: there is nothing to compare it with";
const ASKED: &str = "what was asked for; what was found keeps the altered one too";
const FITTED: &str = "fitted, and of no effect on what this document predicts; a model is fitted again \
                      where its profile stands before it";
const RECORD: &str = "for the record";
const ORDER: &str = "the order says nothing";
const SEARCH: &str = "would need a search of its own";
const BEST_ORDER: &str = "the best order of a round is a search of its own; judged against bounds";
const OPTIONAL: &str = "need not be given, so that its absence claims nothing";
const PREFIX: &str = "a part of the records is a document too";
const MEASURED: &str = "measured, and plausible: nothing else in the document follows from it";
const ELSEWHERE: &str = "stands on losses and speeds that are not in the document";
const DROPPED: &str = "progress is dropped first where the reader of events is slow";
const KNOWN_GAP: &str = "could be recomputed and is not yet";

/// Kind of document (empty: any), part of the place, kind of alteration (empty: any), reason.
const EXEMPT: [(&str, &str, &str, &str); 66] = [
    ("", ".provenance", "", RECORD),
    ("", ".device.detail", "", RECORD),
    ("", ".search.points", "", RECORD),
    ("", "$.reason", "", "free text"),
    ("", ".advice", "", "free text"),
    ("", "workload", "", GIVEN),
    ("", "predictor", "", FITTED),
    ("", ".constraints", "", ASKED),
    (
        "",
        ".link.duplex",
        "",
        "how transfers share the link may be chosen when they are ordered",
    ),
    (
        "",
        ".load_samples",
        "",
        "depends on the plan of the round before",
    ),
    ("", ".unconstrained_objective", "", SEARCH),
    ("", ".infeasible", "", SEARCH),
    ("", ".search.bound", "", SEARCH),
    ("", ".search.proof", "enum", SEARCH),
    ("", ".search", "deleted", OPTIONAL),
    ("", ".proven_among", "", SEARCH),
    (
        "",
        ".bound",
        "enum",
        "a relaxation: only the bound of the chain is recomputed",
    ),
    ("", "alternatives", "", SEARCH),
    ("", "pareto", "", SEARCH),
    ("", "explanation", "", OPTIONAL),
    ("", "baselines", "", ORDER),
    ("", ".model.measured", "", MEASURED),
    ("model", "$.measured", "deleted", OPTIONAL),
    ("model", "$.measured", "swapped", ORDER),
    ("", ".candidates", "deleted", OPTIONAL),
    ("", ".verdict", "deleted", OPTIONAL),
    ("", ".verdict.together_low_s", "", BEST_ORDER),
    ("", ".verdict.together_high_s", "", BEST_ORDER),
    ("", ".verdict.together_s", "less", BEST_ORDER),
    ("", ".verdict.best_static.seconds", "less", BEST_ORDER),
    (
        "",
        ".verdict.best_static.name",
        "enum",
        "schemes of the same shares are the same scheme",
    ),
    ("", "tasks", "swapped", ORDER),
    ("", "assignments", "swapped", ORDER),
    ("", ".gpus", "swapped", ORDER),
    ("", ".rates", "swapped", ORDER),
    (
        "",
        ".rates",
        "enum",
        "with one set of tasks at a time both are the same rates",
    ),
    ("", ".rates[]", "deleted", GIVEN),
    (
        "",
        ".download_order",
        "swapped",
        "transfers that share the link have no order",
    ),
    ("", ".batches", "deleted", OPTIONAL),
    (
        "",
        ".batches[].batch",
        "less",
        "fixed rates do not follow the batch sizes",
    ),
    ("", ".samples", "deleted", OPTIONAL),
    ("", ".model", "deleted", "a plan written by hand has none"),
    ("", ".model.device.kind", "enum", KNOWN_GAP),
    ("", ".policy", "enum", KNOWN_GAP),
    ("allocation", "", "", ELSEWHERE),
    ("profile", "", "record deleted", PREFIX),
    (
        "profile",
        "header:$",
        "record repeated",
        "a profile of nothing is one",
    ),
    ("profile", ".stopped", "enum", RECORD),
    ("profile", ".design", "enum", RECORD),
    ("profile", ".device.kind", "enum", KNOWN_GAP),
    (
        "profile",
        ".share_percent",
        "",
        "the GPU rounds a share to whole multiprocessors",
    ),
    (
        "run",
        "launch:$",
        "record repeated",
        "a run of nothing is one",
    ),
    ("", "summary:$", "record deleted", PREFIX),
    ("run", "progress:$", "record deleted", DROPPED),
    ("run", "exit:$", "record deleted", KNOWN_GAP),
    ("run", "", "deleted", OPTIONAL),
    (
        "processes",
        "launch:$",
        "record repeated",
        "a run of nothing is one",
    ),
    (
        "processes",
        "launch:$.device",
        "",
        "the device was asked for by name, or found",
    ),
    ("processes", "progress:$", "record deleted", DROPPED),
    ("processes", "round:$", "record deleted", KNOWN_GAP),
    ("processes", "", "deleted", OPTIONAL),
    ("processes", ".time_s", "", MEASURED),
    ("processes", "phase:$", "", MEASURED),
    ("processes", "progress:$.samples", "", MEASURED),
    ("processes", "exit:$.code", "", MEASURED),
    ("processes", ".pid", "", RECORD),
];

/// The exemption of a place.
pub fn reason(document: &str, place: &str, kind: &str) -> Option<usize> {
    EXEMPT.iter().position(|(of, part, what, _)| {
        (of.is_empty() || *of == document)
            && place.contains(part)
            && (what.is_empty() || *what == kind)
    })
}

/// Exemptions that nothing needed.
pub fn unused(used: &BTreeSet<usize>) -> Vec<&'static str> {
    let unused = EXEMPT.iter().enumerate().filter(|(i, _)| !used.contains(i));
    unused.map(|(_, exempt)| exempt.1).collect()
}

/// Why something may be altered.
pub fn why(at: usize) -> &'static str {
    EXEMPT[at].3
}
