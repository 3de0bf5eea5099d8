//! Mutated documents for every tool: it ends soon and by itself, and if mt-check accepts its input, mt-check also
//! accepts its output.

use std::fs;

use check::Inspector;
use mt_tests::{Folder, lines, parsed};
use rand::rngs::SmallRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

use crate::documents;

/// Mutants of each tool in `make test`; `make hostile` gives each a thousand (`MT_HOSTILE=N`).
const MUTANTS: u64 = 20;
/// Maximum seconds of a tool for a small document, whatever it contains. For debug builds on a busy machine: the
/// slowest is a search of some seconds.
const PATIENCE_S: u32 = 30;
/// Address space, kB: more than any tool takes for an input of this size.
const MEMORY_KB: u32 = 2_000_000;

/// A call that reads `in`, the document that it reads, and whether it writes a document to `out`.
const CALLS: [(&str, &str, bool); 13] = [
    (
        "mt-profile --design random --budget 3 --force -o out in",
        "w",
        true,
    ),
    ("mt-fit -q --method structured -o out in", "p", true),
    ("mt-fit -q --method gp -o out in", "p", true),
    (
        "mt-solve --step 25 --max-points 2000 --starts 2 --outside --explain -o out in",
        "m",
        true,
    ),
    (
        "mt-overlap --max-nodes 2000 --max-plays 200 -o out in",
        "s",
        true,
    ),
    ("mt-overlap --link half -o out in", "hand", true),
    ("mt-launch --rounds 2 --force -o out in", "t", true),
    ("mt-launch --force -o out in", "s", true),
    ("mt-cluster plan --effort 5000 -o out in", "c", true),
    ("mt-elastic --gpus 4 --force -o out in", "e", true),
    ("mt-report -o out in", "", false),
    ("mt-report --format html -o out in", "", false),
    ("mt-check -o out in", "", false),
];

/// Input of calls that name no document.
const ANY: [&str; 8] = ["w", "p", "m", "s", "t", "r", "hand", "c"];

const BY_HAND: &str = r#"{"schema":"mt.plan/1","link":{"down_bps":4e8,"up_bps":4e8},"tasks":[
    {"id":"a","samples":18000,"update_bytes":{"down":30000000,"up":30000000}},
    {"id":"b","samples":6400,"update_bytes":{"down":9000000,"up":9000000}}],
    "rates":[{"active":["a"],"samples_per_s":{"a":1886.5}},{"active":["b"],"samples_per_s":{"b":1515.7}},
    {"active":["a","b"],"samples_per_s":{"a":1279.1,"b":1027.7}}]}"#;
/// The pointer to a random value; deep ones are as probable as shallow ones.
fn place(value: &Value, rng: &mut SmallRng) -> String {
    let mut at = String::new();
    let mut here = value;
    loop {
        let names: Vec<String> = match here {
            Value::Object(fields) => fields.keys().cloned().collect(),
            Value::Array(items) => (0..items.len()).map(|i| i.to_string()).collect(),
            _ => Vec::new(),
        };
        let stop = !at.is_empty() && rng.random_ratio(1, 5);
        let Some(name) = names.choose(rng).filter(|_| !stop) else {
            return at;
        };
        at = format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"));
        here = value.pointer(&at).unwrap();
    }
}

fn number(number: &serde_json::Number, rng: &mut SmallRng) -> Value {
    let x = number.as_f64().unwrap();
    let whole = number.as_u64();
    let scaled = [0.5, 2.0, 3.0, 1e-3, 1e3, 1e6, -1.0].choose(rng).unwrap() * x;
    match rng.random_range(0..8) {
        0 => json!(0),
        1 => json!(1),
        2 => json!([1e-300, 1e300, 0.5, 1e15].choose(rng).unwrap()),
        3 => json!([u64::MAX, 1 << 53, 1 << 31].choose(rng).unwrap()),
        4 => json!(whole.map_or(x, |n| n.wrapping_add(1) as f64)),
        _ if whole.is_some() => json!(scaled as i64),
        _ => json!(scaled),
    }
}

/// Alters one value of a document.
fn alter(document: &mut Value, rng: &mut SmallRng) {
    let at = place(document, rng);
    let source = place(document, rng);
    let other = document.pointer(&source).cloned().unwrap_or_default();
    let Some(value) = document.pointer_mut(&at) else {
        return;
    };
    match value {
        Value::Number(n) => *value = number(n, rng),
        Value::Bool(b) => *b = !*b,
        Value::String(text) if other.is_string() || rng.random_ratio(1, 2) => {
            let long = "y".repeat(5_000);
            let texts = ["", "x", "\u{1b}[2J", "../..", long.as_str(), text.as_str()];
            let one = (*texts.choose(rng).unwrap()).to_owned();
            *value = if other.is_string() { other } else { json!(one) };
        }
        Value::Array(items) => match rng.random_range(0..5) {
            0 => items.clear(),
            1 => items.shuffle(rng),
            2 => items.truncate(items.len() / 2),
            3 => items.extend(items.first().cloned()),
            _ => items.push(other),
        },
        Value::Object(fields) if !fields.is_empty() => {
            let names: Vec<String> = fields.keys().cloned().collect();
            fields.remove(names.choose(rng).unwrap());
        }
        _ => *value = other,
    }
}

/// What mt-check finds wrong; `None`: it is not a document.
fn lies(text: &str) -> Option<String> {
    let mut inspector = Inspector::default();
    let each = parsed(text)?.into_iter().map(|d| inspector.judge(d));
    let wrong = each.filter(|v| !v.ok).map(|v| v.lines(false));
    Some(wrong.collect())
}

/// A mutant: most are accepted by readers, since a refused one tests nothing else.
fn mutant(records: &[Value], rng: &mut SmallRng) -> String {
    let mut last = String::new();
    for _ in 0..rng.random_range(1..30) {
        let mut records = records.to_vec();
        for _ in 0..rng.random_range(1..=2) {
            let at = rng.random_range(0..records.len());
            match rng.random_range(0..12) {
                0 if records.len() > 1 => drop(records.remove(at)),
                1 if records.len() > 1 => records.insert(at, records[at].clone()),
                _ => alter(&mut records[at], rng),
            }
        }
        last = lines(&records);
        if parsed(&last).is_some() {
            break;
        }
    }
    last
}

/// Outcomes of the mutants of one call.
#[derive(Default, Debug)]
struct Count {
    accepted: u64,
    refused: u64,
    believed: u64,
}

fn attack(folder: &Folder, seed: u64, (call, name, makes): (&str, &str, bool), all: &mut Count) {
    let mut rng = SmallRng::seed_from_u64(seed);
    let name = if name.is_empty() {
        ANY.choose(&mut rng).unwrap()
    } else {
        name
    };
    let honest = fs::read_to_string(folder.path().join(name)).unwrap();
    let records: Vec<Value> = serde_json::Deserializer::from_str(&honest)
        .into_iter()
        .collect::<Result<_, _>>()
        .unwrap();
    let input = mutant(&records, &mut rng);
    fs::write(folder.path().join("in"), &input).unwrap();
    let out = folder.run(&format!(
        "rm -f out; ulimit -v {MEMORY_KB}; export MALLOC_ARENA_MAX=1; timeout {PATIENCE_S} {call}"
    ));
    let told = || {
        let short: String = input.chars().take(4_000).collect();
        format!(
            "{call}, seed {seed}\n{short}\n{:?}\n{}",
            out.code, out.stderr
        )
    };
    assert!(matches!(out.code, Some(0..=3)), "{}", told());
    assert!(!out.stderr.contains("panicked"), "{}", told());
    assert!(out.stderr.len() < 1 << 20, "{} bytes", out.stderr.len());
    if out.code == Some(0) {
        all.accepted += 1;
    } else {
        all.refused += 1;
    }
    if !makes || !matches!(out.code, Some(0 | 1)) {
        return;
    }
    // Events of trainings are not a document: their readers take them as they are.
    if name != "e" && lies(&input).is_none_or(|lies| !lies.is_empty()) {
        return;
    }
    let made = fs::read_to_string(folder.path().join("out")).unwrap_or_default();
    if made.is_empty() {
        return;
    }
    all.believed += 1;
    let lies = lies(&made);
    assert!(lies.as_deref() == Some(""), "{lies:?}\n{}", told());
}

#[test]
fn of_mutated_documents_no_tool_makes_what_mt_check_refuses() {
    let folder = documents();
    fs::write(folder.path().join("hand"), BY_HAND).unwrap();
    let many = std::env::var("MT_HOSTILE").ok().map(|n| n.parse().unwrap());
    for call in CALLS {
        let mut count = Count::default();
        for seed in 0..many.unwrap_or(MUTANTS) {
            attack(&folder, seed, call, &mut count);
        }
        println!("{}: {count:?}", call.0);
        assert!(count.accepted > 0, "{}: {count:?}", call.0);
    }
}
