//! The PyTorch example: its script against a stand-in for PyTorch, its campaign on the simulator.

use std::process::Command;

use mt_tests::{Folder, example};

#[test]
fn the_trainer_speaks_the_protocol() {
    let output = Command::new("python3")
        .arg("-B")
        .arg(example("torch/tests/protocol_test.py"))
        .output();
    match output {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{said}");
            assert!(said.contains("Ran 8 tests"), "{said}");
        }
        Err(error) => eprintln!("skipped: no python3 ({error})"),
    }
}

#[test]
fn the_campaign_runs_from_profiles_to_its_report() {
    let folder = Folder::new();
    let campaign = example("torch/campaign.sh");
    let line = format!("{campaign} --device sim --minutes 2 --out out V16+R34");
    folder.run(&line).assert_code(0);
    let read = |name: &str| std::fs::read_to_string(folder.path().join("out").join(name)).unwrap();
    let report = read("report.md");
    for part in [
        "Against simpler schemes",
        "sum of shares R_v (%) | predicted",
        "The best five again",
    ] {
        assert!(report.contains(part), "{part} is not in\n{report}");
    }
    // The simulator has no noise: what is repeated is the same.
    let again: Vec<Vec<&str>> = report
        .lines()
        .skip_while(|l| !l.contains("The best five again"))
        .filter(|l| l.starts_with("| ") && !l.contains("---") && !l.contains("first"))
        .map(|l| l.split('|').map(str::trim).collect())
        .collect();
    assert_eq!(again.len(), 5, "{report}");
    assert!(again.iter().all(|row| row[2] == row[3]), "{report}");
    for rv in ["| 100 |", "| 150 |", "| 200 |"] {
        assert!(report.contains(rv), "{rv} is not in\n{report}");
    }
    assert!(read("V16+R34/rv.svg").contains("predicted"));
    // Continued, it measures nothing again and comes to the same.
    folder.run(&line).assert_code(0);
    let without_date = |text: &str| text.lines().skip(3).collect::<Vec<_>>().join("\n");
    assert_eq!(without_date(&read("report.md")), without_date(&report));
}

#[test]
fn a_mix_that_is_not_known_is_refused() {
    let folder = Folder::new();
    let campaign = example("torch/campaign.sh");
    let out = folder.run(&format!("{campaign} --device sim R18+X9"));
    out.assert_code(2);
    assert!(out.stderr.contains("unknown model X9"), "{}", out.stderr);
}
