//! The PyTorch example: its script with a stand-in for PyTorch, its campaign on the simulator.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use mt_tests::{Folder, example};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use testkit::fakes::FakeMps;

use crate::python;

#[test]
fn the_trainer_speaks_the_protocol() {
    let Some(folder) = python::folder() else {
        return;
    };
    for (file, count) in [
        ("train_test.py", 5),
        ("slices_test.py", 4),
        ("stopwatch_test.py", 3),
        ("sweep_test.py", 1),
    ] {
        let tests = example(&format!("torch/tests/{file}"));
        let run = folder.run(&format!("python3 -B {tests}"));
        run.assert_code(0);
        let ran = format!("Ran {count} test");
        assert!(run.stderr.contains(&ran), "{}", run.stderr);
    }
}

/// The page about the measurements on GPUs is what its script writes from them.
#[test]
fn the_page_of_measurements_is_made_from_them() {
    let Some(folder) = python::folder() else {
        return;
    };
    let make = example("torch/measured/make.py");
    folder
        .run(&format!("python3 -B {make} --check"))
        .assert_code(0);
}

/// With any installed version of PyTorch itself: Debian's 1.13 comes without torchvision.
#[test]
fn the_trainer_goes_on_from_its_checkpoint() {
    let folder = Folder::new();
    let python = std::env::var("PYTHON").unwrap_or_else(|_| "/usr/bin/python3".to_owned());
    if folder.run(&format!("{python} -c 'import torch'")).code != Some(0) {
        testkit::skipped("torch", format!("{python} has no torch"));
        return;
    }
    let script = example("torch/train.py");
    let train = |samples: u32, amp: &str| {
        let run = folder.run(&format!(
            "OMP_NUM_THREADS=1 MT_BATCH_SIZE=32 MT_SAMPLES={samples} {python} {script} --model small \
             --device cpu {amp} --checkpoint small.pt --checkpoint-every 2"
        ));
        run.assert_code(0);
        // Quick steps are merged, so lines are not counted.
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
    // More time than it needs, also beside other work: what was cut off would be measured when continued.
    let line = format!("{campaign} --device sim --minutes 20 --out out V16+R34");
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
    // The simulator has no noise: repetitions are identical.
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
    // When continued, it measures nothing again and gives the same result.
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
    let twice = [
        "--survey R18",
        "--survey --grid",
        "--survey --decide",
        "--grid --decide R18",
    ];
    for options in twice {
        let out = folder.run(&format!("{campaign} --device sim {options}"));
        out.assert_code(2);
        assert!(out.stderr.contains("give one of"), "{}", out.stderr);
    }
}

/// Without a GPU: the lists and commands of the measurement plan; nothing is started.
#[test]
fn the_plan_that_decides_can_be_seen_without_a_gpu() {
    let folder = Folder::new();
    let campaign = example("torch/campaign.sh");
    let run = folder.run(&format!("{campaign} --decide --dry-run --out out"));
    run.assert_code(0);
    let out = folder.path().join("out");
    for (mix, tasks) in [("V16+R34", 2), ("R50+R101", 2), ("V16+R18+M3+D121", 4)] {
        let list = std::fs::read_to_string(out.join(mix).join("configurations.csv")).unwrap();
        // Eight equal shares, and each task varied in two ways.
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
    // Both run to their end at four shares: a window may promise what a round does not keep.
    let rounds = report
        .lines()
        .skip_while(|l| !l.contains("run to their end"));
    assert_eq!(
        rounds.filter(|l| l.starts_with("| ")).count(),
        2 + 4,
        "{report}"
    );
}

/// Setup of a survey with stand-ins for driver, daemon and training: three models, short windows. `None` without a C
/// compiler for the driver.
fn survey(folder: &Folder, fake: &FakeMps) -> Option<Command> {
    if !fake.build_driver() {
        return None;
    }
    let mut command = Command::new(example("torch/campaign.sh"));
    let path = std::env::var("PATH").unwrap_or_default();
    let (fakes, tools) = (fake.folder().display(), mt_tests::tools());
    command
        .args(["--survey", "--minutes", "1", "--out", "out"])
        .current_dir(folder.path())
        .env("PATH", format!("{fakes}:{}:{path}", tools.display()))
        .env("LD_LIBRARY_PATH", fake.folder())
        .env("TMPDIR", folder.path())
        .env("TRAIN", "fake-worker")
        .env("MODELS", "R18 M3 S2")
        .env("WINDOW", "0.1")
        .env("MAX_WINDOW", "0.1")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0);
    Some(command)
}

/// Configurations of a profile, in order.
fn configurations(folder: &Folder) -> Vec<u64> {
    let text =
        std::fs::read_to_string(folder.path().join("out/profile.ndjson")).unwrap_or_default();
    let records = text
        .lines()
        .filter_map(|l| serde_json::from_str::<serde_json::Value>(l).ok());
    let samples = records.filter(|r| r["record"] == "sample");
    samples.filter_map(|r| r["config"].as_u64()).collect()
}

/// Killed with everything that it started, at two moments, it continues with its earlier results.
#[test]
fn a_survey_that_is_killed_goes_on_with_what_it_has() {
    let (folder, fake) = (Folder::new(), FakeMps::install());
    let Some(mut command) = survey(&folder, &fake) else {
        return;
    };
    // Solo runs, pairs at four combinations of shares, triples at seven.
    let wanted = 3 + 3 * 4 + 7;
    for enough in [3, 9] {
        let mut child = command.spawn().unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        while configurations(&folder).len() < enough {
            assert!(Instant::now() < deadline, "nothing is measured");
            std::thread::sleep(Duration::from_millis(30));
        }
        let group = Pid::from_raw(-i32::try_from(child.id()).unwrap());
        kill(group, Signal::SIGKILL).unwrap();
        child.wait().unwrap();
        let kept = configurations(&folder);
        assert!(kept.len() >= enough, "{kept:?}");
    }
    let before = configurations(&folder);
    assert!(command.status().unwrap().success());
    let all = configurations(&folder);
    assert_eq!(all, (0..wanted).collect::<Vec<u64>>());
    assert_eq!(all[..before.len()], before);
    let read = |name: &str| std::fs::read_to_string(folder.path().join("out").join(name)).unwrap();
    assert_eq!(read("mode"), "mps\n");
    // Measurements from before a kill are not repeated.
    let counts: Vec<u64> = read("progress.csv")
        .lines()
        .filter_map(|l| l.split_once(',')?.1.parse().ok())
        .collect();
    assert!(counts.is_sorted(), "{counts:?}");
    assert!(read("report.md").contains("22 of 22 configurations measured"));
    let rows = read("samples.csv");
    assert!(rows.starts_with("config,task,batch,share_percent,throughput"));
    assert!(rows.lines().nth(1).unwrap().ends_with(",mps"), "{rows}");
    assert_eq!(FakeMps::processes_below(folder.path()), Vec::<i32>::new());
}

/// If the daemon does not start, time slices are used: every process may use the whole GPU.
#[test]
fn a_survey_without_mps_measures_time_slices() {
    let (folder, fake) = (Folder::new(), FakeMps::install());
    fake.set("start_fails", "");
    let Some(mut command) = survey(&folder, &fake) else {
        return;
    };
    if !python::has_python(&folder) {
        return;
    }
    assert!(command.status().unwrap().success());
    let read = |name: &str| std::fs::read_to_string(folder.path().join("out").join(name)).unwrap();
    assert_eq!(read("mode"), "slices\n");
    assert!(read("report.md").contains("19 of 19 configurations measured"));
    let rows = read("samples.csv");
    let column = |of: usize| -> Vec<&str> {
        rows.lines()
            .skip(1)
            .filter_map(|l| l.split(',').nth(of))
            .collect()
    };
    // Three models alone at two batch sizes, three pairs at three combinations of them, a triple at four.
    assert_eq!(column(3), vec!["100"; 3 * 2 + 6 * 3 + 3 * 4]);
    assert!(column(2).contains(&"32") && column(2).contains(&"128"));
}
