//! The PyTorch example: its script against a stand-in for PyTorch, its campaign on the simulator.

use mt_tests::{Folder, example};

#[test]
fn the_trainer_speaks_the_protocol() {
    let folder = Folder::new();
    if folder.run("command -v python3").code != Some(0) {
        testkit::skipped("python", "there is no python3");
        return;
    }
    let tests = example("torch/tests/train_test.py");
    let run = folder.run(&format!("python3 -B {tests}"));
    run.assert_code(0);
    assert!(run.stderr.contains("Ran 5 tests"), "{}", run.stderr);
}

/// With PyTorch itself, in any version that is here: Debian's 1.13 has no torchvision beside it.
#[test]
fn the_trainer_goes_on_from_its_checkpoint() {
    let folder = Folder::new();
    let python = std::env::var("PYTHON").unwrap_or_else(|_| "/usr/bin/python3".to_owned());
    if folder.run(&format!("{python} -c 'import torch'")).code != Some(0) {
        testkit::skipped("torch", format!("{python} has no torch"));
        return;
    }
    let train = example("torch/train.py");
    let train = |samples: u32, amp: &str| {
        let run = folder.run(&format!(
            "OMP_NUM_THREADS=1 MT_BATCH_SIZE=32 MT_SAMPLES={samples} {python} {train} --model small \
             --device cpu {amp} --checkpoint small.pt --checkpoint-every 2"
        ));
        run.assert_code(0);
        // Quick steps are told together, so that lines are not counted.
        let steps = run.stdout.lines().filter(|l| l.contains("\"step\""));
        let told = steps.map(|l| serde_json::from_str::<serde_json::Value>(l).unwrap());
        told.map(|step| step["samples"].as_u64().unwrap())
            .sum::<u64>()
            / 32
    };
    assert_eq!(train(160, ""), 5);
    assert_eq!(train(224, "--amp bf16"), 2);
    assert_eq!(train(224, ""), 0);
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

/// Without a GPU: the lists and commands of the measurement plan, nothing started.
#[test]
fn the_plan_that_decides_can_be_seen_without_a_gpu() {
    let folder = Folder::new();
    let campaign = example("torch/campaign.sh");
    let run = folder.run(&format!("{campaign} --decide --dry-run --out out"));
    run.assert_code(0);
    let out = folder.path().join("out");
    for (mix, tasks) in [("V16+R34", 2), ("R50+R101", 2), ("V16+R18+M3+D121", 4)] {
        let list = std::fs::read_to_string(out.join(mix).join("configurations.csv")).unwrap();
        // Eight equal shares, and each task apart in two ways.
        assert_eq!(list.lines().count(), 1 + tasks * (8 + 2 * tasks), "{list}");
        assert!(
            list.contains("7,V16,128,100") || mix == "R50+R101",
            "{list}"
        );
        assert!(!out.join(mix).join("window.ndjson").exists());
    }
    let count = |word: &str| run.stdout.matches(word).count();
    assert_eq!(count("+ mt-profile"), 3, "{}", run.stdout);
    assert_eq!(count("+ mt-launch"), 12, "{}", run.stdout);
    assert_eq!(count("+ ncu"), 8, "{}", run.stdout);
}

#[test]
fn the_plan_that_decides_answers_on_the_simulator() {
    let folder = Folder::new();
    let campaign = example("torch/campaign.sh");
    let line = format!("WORK=5000 {campaign} --decide --device sim --minutes 5 --out out V16+R34");
    folder.run(&line).assert_code(0);
    let report = std::fs::read_to_string(folder.path().join("out/report.md")).unwrap();
    assert!(report.contains("| 100/100 |"), "{report}");
    assert!(
        report.contains("Best equal shares 70/70, best different"),
        "{report}"
    );
    // Both run to their end at four shares: what a window promises is not what a round keeps.
    let rounds = report
        .lines()
        .skip_while(|l| !l.contains("run to their end"));
    assert_eq!(
        rounds.filter(|l| l.starts_with("| ")).count(),
        2 + 4,
        "{report}"
    );
}
