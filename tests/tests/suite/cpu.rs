//! The same pipe with real processes under CPU quotas. If control groups cannot be written, the tools must say so
//! with exit code 3, which is then tested.

use doc::{Any, AnyDocuments, EventPayload, Frames, RunEvent};
use mt_tests::Folder;

const WORKLOAD: &str = r#"{"schema":"mt.workload/1","id":"real","device":{"kind":"cpu"},"tasks":[
  {"id":"a","batch_sizes":[32],"samples":3000,
   "job":{"argv":["mt-worker","--width","256","--depth","2"],"pool":true}},
  {"id":"b","batch_sizes":[32],"samples":3000,
   "job":{"argv":["mt-worker","--width","128","--depth","3"],"pool":true}}]}"#;

#[test]
fn real_processes_are_profiled_planned_launched_and_gone() {
    let folder = Folder::new();
    std::fs::write(folder.path().join("workload"), WORKLOAD).unwrap();
    let profile = "mt-profile workload --design random --budget 8 --share-step 25 --window 0.3 \
                   --max-window 0.6 -o profile";
    let out = folder.run(profile);
    if out.code == Some(3) {
        assert!(out.stderr.contains("control group"), "{out:#?}");
        testkit::skipped("cgroups", out.stderr);
        return;
    }
    out.assert_code(0);
    folder
        .run("set -e; mt-fit -q profile | mt-solve --step 25 | mt-overlap -o timeline; mt-launch timeline -o run; mt-check profile timeline run")
        .assert_code(0);
    let bytes = std::fs::read(folder.path().join("run")).unwrap();
    let mut documents = AnyDocuments::new(Frames::new(bytes.as_slice(), "run"));
    let Some(Ok(Any::Run(events))) = documents.next() else {
        panic!("{}", String::from_utf8_lossy(&bytes));
    };
    let summary = events.last().unwrap();
    let EventPayload::Summary { ok, tasks, .. } = &summary.payload else {
        panic!("{summary:?}");
    };
    assert!(*ok);
    for task in tasks {
        assert!(task.finished && task.samples >= 3000, "{task:?}");
        assert!(task.last_loss < task.first_loss, "{task:?}");
    }
    let pid = |e: &RunEvent| match e.payload {
        EventPayload::Start { pid, .. } => pid,
        _ => None,
    };
    let pids: Vec<u32> = events.iter().filter_map(pid).collect();
    assert!(!pids.is_empty());
    for pid in pids {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        assert!(!name.starts_with("mt-worker"), "{pid} is left: {name}");
    }
}

/// Seconds of every window of a profile of one task, at most 2 each, that end at `precision` percent.
fn windows(folder: &Folder, precision: &str) -> Option<Vec<f64>> {
    let ran = folder.run(&format!(
        "mt-profile alone --budget 0 --window 0.1 --max-window 2 --precision {precision}"
    ));
    if ran.code == Some(3) {
        testkit::skipped("cgroups", ran.stderr);
        return None;
    }
    ran.assert_code(0);
    let mut documents = AnyDocuments::new(Frames::new(ran.stdout.as_bytes(), "profile"));
    let Some(Ok(Any::Profile(profile))) = documents.next() else {
        panic!("{ran:#?}");
    };
    Some(profile.samples.iter().map(|s| s.window.get()).collect())
}

#[test]
fn a_window_ends_when_the_rates_are_as_precise_as_asked() {
    let folder = Folder::new();
    let alone = r#"{"schema":"mt.workload/1","device":{"kind":"cpu"},"tasks":[
      {"id":"a","batch_sizes":[32],"job":{"argv":["mt-worker","--width","64","--threads","1"],"pool":true}}]}"#;
    std::fs::write(folder.path().join("alone"), alone).unwrap();
    let (Some(rough), Some(fine)) = (windows(&folder, "100"), windows(&folder, "0.01")) else {
        return;
    };
    assert!(!rough.is_empty() && !fine.is_empty());
    assert!(rough.iter().all(|w| *w < 1.0), "{rough:?}");
    assert!(fine.iter().all(|w| *w > 1.9), "{fine:?}");
}

/// `mt run` measures and launches in the same environment as `mt try`.
#[test]
fn a_script_has_the_environment_of_whoever_calls() {
    let folder = Folder::new();
    let script = "test \"$DATA\" = here || { echo no DATA >&2; exit 9; }\n\
                  for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.1; echo \"step $i/10\"; done\n";
    std::fs::write(folder.path().join("train.sh"), script).unwrap();
    let tried = folder.run("DATA=here mt try 'sh train.sh' --seconds 0.5 -o tried");
    tried.assert_code(0);
    let alone = folder.run("mt run tried/workload.json --budget 1 -o without");
    if alone.stderr.contains("control group") {
        testkit::skipped("cgroups", alone.stderr);
        return;
    }
    assert_ne!(alone.code, Some(0), "{alone:#?}");
    assert!(alone.stderr.contains("no DATA"), "{alone:#?}");
    for line in [
        "DATA=here mt run tried/workload.json --budget 1 -o with",
        "mt-profile --budget 1 --env DATA=here tried/workload.json",
        "DATA=here mt-profile --budget 1 --keep-env 'DA*' tried/workload.json",
    ] {
        folder.run(line).assert_code(0);
    }
}

/// `mt run` trains at once; `--resume` does the rounds that are left.
#[test]
fn rounds_are_learnt_from_and_resumed() {
    let folder = Folder::new();
    let workload = r#"{"schema":"mt.workload/1","device":{"kind":"cpu"},"tasks":[
      {"id":"a","batch_sizes":[32],"samples":2000,"job":{"argv":["mt-worker","--width","64","--threads","1"]}},
      {"id":"b","batch_sizes":[32],"samples":1000,"job":{"argv":["mt-worker","--width","64","--threads","1"]}}]}"#;
    std::fs::write(folder.path().join("w.json"), workload).unwrap();
    let first = folder.run("mt run w.json --rounds 2");
    if first.code == Some(3) {
        testkit::skipped("cgroups", first.stderr);
        return;
    }
    first.assert_code(0);
    assert!(!first.stderr.contains("$ mt-profile"), "{first:#?}");
    let rest = folder.run("mt run w.json --rounds 3 --resume");
    rest.assert_code(0);
    assert!(
        rest.stderr.contains("2 earlier rounds are known"),
        "{rest:#?}"
    );
    let events = std::fs::read_to_string(folder.path().join("w-run/run-2.ndjson")).unwrap();
    let rounds = events.lines().filter(|l| l.contains(r#""event":"round""#));
    assert_eq!(rounds.collect::<Vec<_>>().len(), 1, "{events}");
    folder
        .run("mt-check w-run/run.ndjson w-run/run-2.ndjson")
        .assert_code(0);
    let measured = folder.run("mt run w.json --measure-first --budget 1 --force");
    measured.assert_code(0);
    assert!(measured.stderr.contains("mt-profile"), "{measured:#?}");
}
