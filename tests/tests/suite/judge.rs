//! mt-check accepts every document of the pipe, and rejects each with one number altered.

#![expect(clippy::unwrap_used, reason = "a test fails by panic")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use doc::{AnyDocuments, Frames};
use mt_tests::Folder;
use serde_json::Value;

/// Small enough that every number can be altered in turn.
const WORKLOAD: &str = r#"{"schema":"mt.workload/1","id":"small",
 "device":{"kind":"sim","gpu":"rtx-3090","memory_bytes":24000000000},
 "link":{"down_bps":4e8,"up_bps":2e8},
 "tasks":[
  {"id":"alex","model":"alexnet","batch_sizes":[32,64],"samples":12000,
   "update_bytes":{"down":30000000,"up":20000000},"memory":{"fixed_bytes":500000000,"bytes_per_sample":1000000}},
  {"id":"mobile","model":"mobilenet_v3_large","batch_sizes":[32,64],"samples":9000,
   "update_bytes":{"down":15000000,"up":15000000},"memory":{"fixed_bytes":400000000,"bytes_per_sample":2000000}}]}"#;

const MAKE: &str = "set -eo pipefail
mt-profile --budget 12 workload.json > profile.ndjson
mt-fit --quiet profile.ndjson > model.json
mt-solve --pareto mismatch --pareto fairness --top 2 --explain model.json > plan.json
mt-overlap plan.json > timeline.json
mt-launch timeline.json > run.ndjson";

/// The documents of the pipe, and what must stand before each so that it can be judged.
const DOCUMENTS: [(&str, &str); 5] = [
    ("profile.ndjson", ""),
    ("model.json", "profile.ndjson"),
    ("plan.json", ""),
    ("timeline.json", ""),
    ("run.ndjson", ""),
];

fn made() -> Folder {
    let folder = Folder::new();
    fs::write(folder.path().join("workload.json"), WORKLOAD).unwrap();
    folder.run(MAKE).assert_code(0);
    folder
}

fn read(folder: &Folder, name: &str) -> Vec<Value> {
    let text = fs::read_to_string(folder.path().join(name)).unwrap();
    let lines = text.lines().map(|l| serde_json::from_str(l).unwrap());
    lines.collect()
}

/// Every number of a document: JSON pointer.
fn numbers(value: &Value, at: String, out: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (k, v) in map {
                numbers(v, format!("{at}/{k}"), out);
            }
        }
        Value::Array(items) => {
            for (i, v) in items.iter().enumerate() {
                numbers(v, format!("{at}/{i}"), out);
            }
        }
        Value::Number(_) => out.push(at),
        _ => {}
    }
}

/// A number a little larger: a whole one by one, another by a thousandth.
fn altered(number: &Value) -> Value {
    match number.as_u64() {
        Some(n) => Value::from(n + 1),
        None => {
            let x = number.as_f64().unwrap();
            Value::from(if x == 0.0 { 1e-3 } else { x * 1.001 })
        }
    }
}

/// The place without positions: `$.phases[].start_s`.
fn pattern(record: &Value, pointer: &str) -> String {
    let kind = record["record"].as_str().or(record["event"].as_str());
    let mut out = kind.map_or("$".to_owned(), |k| format!("{k}:$"));
    for segment in pointer.split('/').skip(1) {
        if segment.bytes().all(|b| b.is_ascii_digit()) {
            out.push_str("[]");
        } else {
            out.push('.');
            out.push_str(segment);
        }
    }
    out
}

/// Numbers of one place in a fitted model that are altered: trees have thousands alike.
const OF_EACH_PLACE: usize = 3;

/// What becomes of a document with one number altered: how many are accepted and rejected, by
/// place.
fn judged(folder: &Folder, name: &str, before: &str) -> BTreeMap<String, (usize, usize)> {
    let records = read(folder, name);
    let mut seen: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    let mut stream = String::new();
    let mut places = Vec::new();
    for (at, record) in records.iter().enumerate() {
        let mut pointers = Vec::new();
        numbers(record, String::new(), &mut pointers);
        let mut fitted: BTreeMap<String, usize> = BTreeMap::new();
        for pointer in pointers {
            let place = pattern(record, &pointer);
            if place.contains(".predictor.") {
                let count = fitted.entry(place.clone()).or_default();
                *count += 1;
                if *count > OF_EACH_PLACE {
                    continue;
                }
            }
            let mut changed = records.clone();
            let number = changed[at].pointer_mut(&pointer).unwrap();
            *number = altered(number);
            let lines: Vec<String> = changed.iter().map(Value::to_string).collect();
            let text = lines.join("\n") + "\n";
            let valid = AnyDocuments::new(Frames::new(text.as_bytes(), "t")).all(|d| d.is_ok());
            if valid {
                stream.push_str(&text);
                places.push(place);
            } else {
                seen.entry(place).or_default().1 += 1;
            }
        }
    }
    fs::write(folder.path().join("altered"), stream).unwrap();
    let out = folder.run(&format!("mt-check --json {before} altered"));
    assert_eq!(out.code, Some(1), "{name}: {}", out.stderr);
    let verdicts = out
        .stdout
        .lines()
        .map(|l| serde_json::from_str::<Value>(l).unwrap());
    let verdicts: Vec<bool> = verdicts.map(|v| v["ok"] == true).collect();
    let skipped = usize::from(!before.is_empty());
    assert_eq!(verdicts.len(), places.len() + skipped, "{name}");
    for (place, ok) in places.into_iter().zip(verdicts.into_iter().skip(skipped)) {
        let entry = seen.entry(place).or_default();
        if ok {
            entry.0 += 1;
        } else {
            entry.1 += 1;
        }
    }
    seen
}

const GIVEN: &str = "given by the user: there is nothing to compare it with";
const FITTED: &str = "fitted, but of no effect on what this document predicts; the model alone is \
                      fitted again where its profile stands before it";
const RECORD: &str = "for the record";
const ORDER: &str = "of a round, it needs a search for the best order; judged against bounds only";

/// Parts of the places at which an altered number is accepted, each with the reason.
const ACCEPTED: [(&str, &str); 16] = [
    (".explanation[].objective_change", ORDER),
    (".verdict.together_low_s", ORDER),
    (".verdict.together_high_s", ORDER),
    (".provenance[].seed", RECORD),
    (".search.points", "counts the steps of a search"),
    (
        ".constraints.memory_bytes",
        "what was asked for; it is kept all the same",
    ),
    (".workload.device.memory_bytes", GIVEN),
    (".workload.link.", GIVEN),
    (".workload.tasks[].flops_per_sample", GIVEN),
    (".workload.tasks[].bytes_per_sample", GIVEN),
    (".workload.tasks[].memory.", GIVEN),
    (".workload.tasks[].samples", GIVEN),
    (".workload.tasks[].update_bytes.", GIVEN),
    (
        ".workload.tasks[].batch_sizes[]",
        "given by the user, and not the size that was chosen",
    ),
    (".model.predictor.", FITTED),
    (
        "sample:$.tasks[].share_percent",
        "the GPU rounds a share to whole multiprocessors, so that it runs alike",
    ),
];

fn reason(place: &str) -> Option<(&'static str, &'static str)> {
    ACCEPTED.into_iter().find(|(part, _)| place.contains(part))
}

#[test]
fn every_document_of_the_pipe_is_accepted() {
    let folder = made();
    let names = DOCUMENTS.map(|(name, _)| name).join(" ");
    let out = folder.run(&format!("mt-check workload.json {names}"));
    out.assert_code(0);
    assert_eq!(
        out.stdout.lines().filter(|l| l.starts_with("OK ")).count(),
        6,
        "{out:#?}"
    );
}

#[test]
fn every_document_with_one_number_altered_is_rejected() {
    let folder = made();
    let mut unexplained = String::new();
    let mut total = (0, 0);
    let mut used = BTreeSet::new();
    for (name, before) in DOCUMENTS {
        for (place, (accepted, rejected)) in judged(&folder, name, before) {
            total = (total.0 + accepted, total.1 + rejected);
            if accepted == 0 {
                continue;
            }
            let of = accepted + rejected;
            match reason(&place) {
                Some((part, reason)) => {
                    used.insert(part);
                    println!("{name} {place}: {accepted} of {of} accepted: {reason}");
                }
                None => unexplained += &format!("{name} {place}: {accepted} of {of} accepted\n"),
            }
        }
    }
    println!("{} accepted, {} rejected", total.0, total.1);
    let unused = ACCEPTED.iter().filter(|(part, _)| !used.contains(part));
    let unused: Vec<&str> = unused.map(|(part, _)| *part).collect();
    assert!(unused.is_empty(), "reasons for nothing: {unused:?}");
    assert!(unexplained.is_empty(), "without a reason:\n{unexplained}");
}
