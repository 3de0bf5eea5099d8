//! Which fields may be altered unnoticed, each with the reason. `tests/attacks.md` has the same list.

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
const RECORDING: &str = "a recording has the figures of the device that it was made on";
const POLICY: &str = "whose schedule it is: its figures and bounds are judged whoever made it";

/// Kind of document (empty: any), part of the place, kind of alteration (empty: any), reason.
pub const EXEMPT: [(&str, &str, &str, &str); 69] = [
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
    ("", ".unconstrained_objective", "less", SEARCH),
    ("", ".unconstrained_objective", "deleted", OPTIONAL),
    ("", ".infeasible[].best", "less", SEARCH),
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
    ("", "explanation", "deleted", OPTIONAL),
    ("", "explanation", "swapped", ORDER),
    ("", ".objective_change", "", BEST_ORDER),
    ("", "baselines", "swapped", ORDER),
    ("", ".baselines[].objective", "less", BEST_ORDER),
    ("schedule", "baselines", "", POLICY),
    ("", ".model.measured", "", MEASURED),
    ("model", "$.measured", "deleted", OPTIONAL),
    ("model", "$.measured", "swapped", ORDER),
    ("", ".candidates", "deleted", OPTIONAL),
    ("", ".verdict", "deleted", OPTIONAL),
    ("", ".verdict.together_low_s", "", BEST_ORDER),
    ("", ".verdict.together_high_s", "", BEST_ORDER),
    ("", ".verdict.together_s", "less", BEST_ORDER),
    ("", ".target.together_low_s", "", BEST_ORDER),
    ("", ".target.together_high_s", "", BEST_ORDER),
    ("", ".target.fastest_samples", "deleted", OPTIONAL),
    ("", ".target.fastest_samples.tasks", "", BEST_ORDER),
    ("", ".target.fastest_samples.seconds", "less", BEST_ORDER),
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
    ("", ".samples", "deleted", OPTIONAL),
    ("", ".model", "deleted", "a plan written by hand has none"),
    ("", ".device.kind=replay", "enum", RECORDING),
    ("", "$.policy", "enum", POLICY),
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
    ("processes", "", "deleted", OPTIONAL),
    ("processes", ".time_s", "", MEASURED),
    ("processes", "phase:$", "", MEASURED),
    ("processes", "exit:$.code", "", MEASURED),
    ("processes", ".pid", "", RECORD),
];
