//! A schedule in which one number is altered is refused, by the reader or by the checker.

use std::process::Command;

use check::Inspector;
use doc::{AnyDocuments, Frames};
use serde_json::Value;

/// Numbers that nothing else in a schedule follows from.
const EXEMPT: [&str; 1] = ["/provenance/"];

fn schedule(arguments: &[&str]) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_mt-cluster"))
        .args(arguments)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli"))
        .output()
        .expect("mt-cluster is built with its tests");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).expect("a schedule is JSON")
}

fn accepted(document: &Value) -> bool {
    let text = document.to_string();
    let mut documents = AnyDocuments::new(Frames::new(text.as_bytes(), "altered"));
    match documents.next() {
        Some(Ok(document)) => Inspector::default().judge(document).ok,
        _ => false,
    }
}

fn numbers(value: &Value, path: &str, out: &mut Vec<String>) {
    match value {
        Value::Number(_) => out.push(path.to_owned()),
        Value::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                numbers(item, &format!("{path}/{i}"), out);
            }
        }
        Value::Object(fields) => {
            for (name, item) in fields {
                numbers(item, &format!("{path}/{name}"), out);
            }
        }
        _ => {}
    }
}

fn altered(number: &Value) -> Vec<Value> {
    match number.as_u64() {
        Some(n) => vec![(n + 1).into(), n.saturating_sub(1).into()],
        None => {
            let x = number.as_f64().expect("a number is a double");
            vec![
                (1.001 * x + 1e-3).into(),
                (0.999 * x - 1e-3).max(0.0).into(),
            ]
        }
    }
}

fn every_number_counts(arguments: &[&str]) {
    let honest = schedule(arguments);
    assert!(accepted(&honest), "the schedule itself is refused");
    let mut paths = Vec::new();
    numbers(&honest, "", &mut paths);
    assert!(paths.len() > 50);
    for path in paths {
        if EXEMPT.iter().any(|e| path.contains(e)) {
            continue;
        }
        let before = honest.pointer(&path).expect("its own path").clone();
        for after in altered(&before) {
            if after == before {
                continue;
            }
            let mut lie = honest.clone();
            *lie.pointer_mut(&path).expect("its own path") = after.clone();
            assert!(
                !accepted(&lie),
                "{path}: {before} became {after}, and nobody noticed"
            );
        }
    }
}

#[test]
fn a_plan() {
    every_number_counts(&["plan", "--policy", "all", "in/three.json"]);
}

#[test]
fn a_plan_of_merged_rounds() {
    every_number_counts(&["plan", "in/merged.json"]);
}

#[test]
fn a_baseline() {
    every_number_counts(&["plan", "--policy", "srtf", "in/three.json"]);
}

#[test]
fn with_switching() {
    for mode in ["restart", "pipelined", "hare"] {
        every_number_counts(&["plan", "--switching", mode, "in/three.json"]);
    }
}

#[test]
fn played_online() {
    every_number_counts(&["online", "--effort", "2000", "in/three.json"]);
}

#[test]
fn played_with_noise() {
    every_number_counts(&[
        "online",
        "--effort",
        "2000",
        "--noise",
        "0.2",
        "in/three.json",
    ]);
}

#[test]
fn shared_gpus() {
    every_number_counts(&["plan", "in/sharing.json"]);
}

/// Of two tasks on a GPU one that starts a little later may have been a little faster: with noise not every
/// number counts, but what happened is accepted.
#[test]
fn shared_gpus_with_noise() {
    let noise = ["--effort", "2000", "--noise", "0.2", "in/sharing.json"];
    let honest = schedule(&[&["online"][..], &noise].concat());
    assert!(accepted(&honest));
}
