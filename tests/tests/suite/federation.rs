//! The example that trains a federation: its page agrees with its summary, and its functions work.

use std::fs;

use mt_tests::{Folder, example};
use serde_json::Value;

fn committed(name: &str) -> String {
    let path = example(&format!("federation/{name}"));
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
}

fn numbers(value: &Value, found: &mut Vec<f64>) {
    match value {
        Value::Number(n) => found.extend(n.as_f64()),
        Value::Array(values) => values.iter().for_each(|v| numbers(v, found)),
        Value::Object(members) => members.values().for_each(|v| numbers(v, found)),
        _ => (),
    }
}

/// Every number with decimals in a table of the page is in the summary, rounded as on the page.
#[test]
fn the_page_of_the_federation_quotes_its_summary() {
    let summary: Value = serde_json::from_str(&committed("summary.json")).unwrap();
    let mut known = Vec::new();
    numbers(&summary, &mut known);
    let mut looked_at = 0;
    for line in committed("RESULTS.md")
        .lines()
        .filter(|l| l.starts_with('|'))
    {
        for word in line.split(|c: char| !(c.is_ascii_digit() || c == '.')) {
            let Some((_, decimals)) = word.split_once('.') else {
                continue;
            };
            let unit: f64 = format!("1e-{}", decimals.len()).parse().unwrap();
            // Goals are only on the page; they are the goals of the test below.
            let goal = ["1.05", "1.25", "0.6", "0.85", "0.75"].contains(&word);
            let quoted = known.iter().any(|v| {
                // Python rounds halves of the exact binary number, Rust of its decimals: both are accepted.
                (v - word.parse::<f64>().unwrap()).abs() <= 0.5001 * unit
            });
            assert!(goal || quoted, "{word} is not in the summary: {line}");
            looked_at += 1;
        }
    }
    assert!(looked_at > 200, "{looked_at} numbers only");
}

/// The medians and the worst values are those of the rows.
#[test]
fn the_summary_of_the_federation_is_that_of_its_rows() {
    let summary: Value = serde_json::from_str(&committed("summary.json")).unwrap();
    let rows = summary["rows"].as_array().unwrap();
    assert_eq!(summary["mixes"], rows.len());
    let sorted = |name: &str| {
        let mut all: Vec<f64> = rows.iter().map(|r| r[name].as_f64().unwrap()).collect();
        all.sort_by(f64::total_cmp);
        all
    };
    for name in [
        "over_hindsight",
        "over_samples_plan",
        "over_single",
        "over_one_after_another",
    ] {
        let all = sorted(name);
        let median = f64::midpoint(all[(all.len() - 1) / 2], all[all.len() / 2]);
        let told = summary[format!("{name}_median")].as_f64().unwrap();
        assert!((told - median).abs() < 2e-3, "{name}: {told}, but {median}");
    }
    let worst = *sorted("over_hindsight").last().unwrap();
    let told = summary["over_hindsight_worst"].as_f64().unwrap();
    assert!((told - worst).abs() < 2e-3, "{told}, but {worst}");
    assert!(summary["live_predicted_over_real"].is_f64());
}

#[test]
fn the_functions_of_the_federation_pass_their_tests() {
    let folder = Folder::new();
    // With the example's packages if it has been run, otherwise with the machine's.
    let run = folder.run(&format!(
        "python=$(realpath -m {0}/../../target/engines/federation/bin/python)\n\
         [ -x \"$python\" ] || python=$(command -v python3) || exit 3\n\
         OPENBLAS_NUM_THREADS=1 \"$python\" -B -m unittest discover -s {0}/tests -p '*_test.py'",
        example("federation")
    ));
    if run.code == Some(3) || run.stderr.contains("numpy is not installed") {
        eprintln!("skipped: there is no python3 with numpy");
        return;
    }
    run.assert_code(0);
    assert!(run.stderr.contains("OK"), "{}", run.stderr);
}
