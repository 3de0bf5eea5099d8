//! What a user tells a run while it continues, and what it tells of itself.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{checked, cluster, command, count, plan, run};

/// The GPUs on which tasks were started, in order.
fn seats(events: &[Value]) -> Vec<String> {
    let starts = events.iter().filter(|e| e["event"] == "start");
    starts
        .map(|e| e["gpu"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a_lost_gpu_frees_its_task_and_a_found_one_is_used_again() {
    let folder = tempfile::tempdir().unwrap();
    // Whoever comes first would never end, as on a node that is dead.
    let script = "[ -e first ] && exit 0; touch first; sleep 60";
    let schedule = plan(&cluster(&[("a", 1, 1, script)]), "hare");
    let events = r#"{"event":"lost","time_s":0.3,"gpu":"t-0"}
{"event":"lost","time_s":0.3,"gpu":"t-1"}
{"event":"found","time_s":1.0,"gpu":"t-1"}
{"event":"lost","time_s":1.0,"gpu":"nobody"}"#;
    fs::write(folder.path().join("events"), events).unwrap();
    let began = Instant::now();
    let more = ["--device", "cpu", "--events", "events"];
    let (output, told) = run(folder.path(), &schedule, &more);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(began.elapsed() < Duration::from_secs(30), "{said}");
    assert_eq!(seats(&told), ["t-0", "t-1"]);
    assert!(said.contains("the cluster has no GPU \"nobody\""), "{said}");
    checked(&told);
}

#[test]
fn a_job_is_cancelled_and_a_gpu_that_is_never_found_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let jobs = [("a", 1, 1, "sleep 60"), ("b", 1, 1, "sleep 60")];
    let schedule = plan(&cluster(&jobs), "hare");
    let events = r#"{"event":"cancelled","time_s":0.3,"job":"a"}
{"event":"cancelled","time_s":0.3,"job":"a"}
{"event":"lost","time_s":0.4,"gpu":"t-0"}
{"event":"lost","time_s":0.4,"gpu":"t-1"}"#;
    fs::write(folder.path().join("events"), events).unwrap();
    let more = ["--device", "cpu", "--events", "events"];
    let (output, told) = run(folder.path(), &schedule, &more);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("a is given up: it was cancelled"), "{said}");
    assert!(said.contains("ignored: a has ended"), "{said}");
    assert!(said.contains("b is given up: no GPU is left"), "{said}");
    checked(&told);
}

#[test]
fn the_gpu_of_a_cancelled_job_is_used_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let jobs = [
        ("long", 1, 1, "sleep 60"),
        ("rest", 6, 1, "sleep 0.2"),
        ("more", 6, 1, "sleep 0.2"),
    ];
    let mut cluster = cluster(&jobs);
    cluster["jobs"][0]["train_s"]["t"] = json!(60);
    // Heavy, so that it is started first.
    cluster["jobs"][0]["weight"] = json!(1e6);
    let events = r#"{"event":"cancelled","time_s":0.3,"job":"long"}"#;
    fs::write(folder.path().join("events"), events).unwrap();
    let more = ["--device", "cpu", "--events", "events"];
    let (_, told) = run(folder.path(), &plan(&cluster, "hare"), &more);
    checked(&told);
    let seats = seats(&told);
    let least = ["t-0", "t-1"].map(|gpu| seats.iter().filter(|s| *s == gpu).count());
    assert!(least.iter().all(|&n| n > 2), "{seats:?}");
}

#[test]
fn weights_estimates_and_deadlines_change_the_order_of_what_waits() {
    let order = |event: &str| {
        let folder = tempfile::tempdir().unwrap();
        let script = "echo $MT_TASK >> order; sleep 0.2";
        let mut cluster = cluster(&[
            ("a", 1, 1, "sleep 0.8"),
            ("b", 3, 1, script),
            ("c", 3, 1, script),
        ]);
        cluster["gpus"] = json!([{"type": "t"}]);
        cluster["jobs"][0]["weight"] = json!(9);
        cluster["jobs"][1]["weight"] = json!(2);
        fs::write(folder.path().join("events"), event).unwrap();
        let more = ["--device", "cpu", "--events", "events"];
        let (output, events) = run(folder.path(), &plan(&cluster, "hare"), &more);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        checked(&events);
        fs::read_to_string(folder.path().join("order"))
            .unwrap()
            .chars()
            .next()
            .unwrap()
    };
    assert_eq!(order(r#"{"event":"time","time_s":0.1}"#), 'b');
    assert_eq!(
        order(r#"{"event":"weight","time_s":0.1,"job":"c","weight":5}"#),
        'c'
    );
    assert_eq!(
        order(r#"{"event":"estimate","time_s":0.1,"job":"b","train_s":{"t":9}}"#),
        'c'
    );
    assert_eq!(
        order(r#"{"event":"deadline","time_s":0.1,"job":"c","deadline_s":0.9}"#),
        'c'
    );
}

#[test]
fn the_status_is_kept_in_a_file_that_can_be_checked() {
    let folder = tempfile::tempdir().unwrap();
    let schedule = plan(
        &cluster(&[("a", 2, 1, "sleep 0.1"), ("b", 1, 2, "sleep 0.1")]),
        "hare",
    );
    let more = ["--device", "cpu", "--status", "status.json"];
    let (output, _) = run(folder.path(), &schedule, &more);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = fs::read_to_string(folder.path().join("status.json")).unwrap();
    let mut documents = doc::AnyDocuments::new(doc::Frames::new(text.as_bytes(), "status"));
    let document = documents.next().unwrap().unwrap();
    let doc::Any::Status(status) = &document else {
        panic!("{text}");
    };
    let done = |j: &doc::JobStatus| j.state == doc::JobState::Done && j.rounds_done == j.rounds;
    assert!(
        status.jobs.len() == 2 && status.jobs.iter().all(done),
        "{text}"
    );
    assert!(check::Inspector::default().judge(document).ok);
}

#[test]
fn a_run_that_nobody_gave_a_journal_goes_on_after_a_kill() {
    let script = "echo $MT_TASK $MT_ROUND >> ran; sleep 0.2";
    let schedule = plan(&cluster(&[("a", 6, 1, script)]), "hare");
    for output in [None, Some("run.ndjson")] {
        let folder = tempfile::tempdir().unwrap();
        let ran = || fs::read_to_string(folder.path().join("ran")).unwrap_or_default();
        let mut more = vec!["--device", "cpu"];
        more.extend(output.map(|_| "--output"));
        more.extend(output);
        let mut child = command(folder.path(), &schedule, &more)
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        while ran().lines().count() < 3 {
            std::thread::sleep(Duration::from_millis(20));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let journals = || {
            let here = fs::read_dir(folder.path()).unwrap();
            let all = here.chain(fs::read_dir(folder.path().join("runs")).unwrap());
            let names = all.map(|e| e.unwrap().file_name().into_string().unwrap());
            names.filter(|n| n.ends_with(".journal")).count()
        };
        assert_eq!(journals(), 1);
        more.push("--resume");
        more.extend(output.map(|_| "--force"));
        let done = command(folder.path(), &schedule, &more).output().unwrap();
        assert_eq!(done.status.code(), Some(0), "{done:?}");
        let all = ran();
        let rounds: Vec<&str> = all.lines().collect();
        // What ran at the moment of the kill is done again, and nothing else.
        assert!((6..=7).contains(&rounds.len()), "{rounds:?}");
        assert_eq!(journals(), 0, "it goes when all is done");
        // Without --resume all is done again.
        let more: Vec<&str> = more.into_iter().filter(|m| *m != "--resume").collect();
        let again = command(folder.path(), &schedule, &more).output().unwrap();
        assert_eq!(again.status.code(), Some(0), "{again:?}");
        assert_eq!(ran().lines().count(), rounds.len() + 6);
    }
}

#[test]
fn standard_input_is_one_thing() {
    let folder = tempfile::tempdir().unwrap();
    let schedule = plan(&cluster(&[("a", 1, 1, "true")]), "hare");
    let (output, events) = run(folder.path(), &schedule, &["--events", "-", "-"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert_eq!(count(&events, "launch"), 0);
}
