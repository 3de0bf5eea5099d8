//! Two tasks on one GPU: when the tool is killed, the GPU is lost or one of them is cancelled.

use super::*;

/// Each of two jobs waits for the other on the only GPU, so that one after another they would fail.
#[test]
fn two_jobs_share_a_gpu() {
    let meets = |own: &str, other: &str| {
        format!(
            "touch {own}; n=0; while [ ! -e {other} ]; do n=$((n + 1)); [ $n -lt 400 ] || exit 9; \
             sleep 0.02; done"
        )
    };
    let (first, second) = (meets("a", "b"), meets("b", "a"));
    let mut cluster = cluster(&[("a", 1, 1, &first), ("b", 1, 1, &second)]);
    cluster["gpus"][0]["count"] = json!(1);
    cluster["sharing"] = json!([{"jobs": ["a", "b"], "type": "t", "rates": [0.9, 0.9]}]);
    let folder = tempfile::tempdir().unwrap();
    let (output, events) = run(folder.path(), &plan(&cluster, "hare"), &["--device", "cpu"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    checked(&events);
    assert_eq!(count(&events, "restart"), 0, "{events:#?}");
}

/// Two jobs of two rounds that share GPUs of two types, the second of which is slow: both are on the first as
/// long as it is there.
fn pair(script: &str) -> Value {
    let mut cluster = cluster(&[("a", 2, 1, script), ("b", 2, 1, script)]);
    cluster["gpus"] = json!([{"type": "t"}, {"type": "slow"}]);
    for job in [0, 1] {
        cluster["jobs"][job]["train_s"] = json!({"t": 0.2, "slow": 4.0});
    }
    let together = |kind: &str| json!({"jobs": ["a", "b"], "type": kind, "rates": [0.9, 0.9]});
    cluster["sharing"] = json!([together("t"), together("slow")]);
    cluster
}

/// Writes where each round is started; that of round 1 ends when the file `go` is there and both jobs have started
/// it equally often.
const SECOND_WAITS: &str = r#"echo "$MT_ROUND $MT_GPU" >> ran.$MT_TASK; [ $MT_ROUND = 0 ] && exit 0
count() { grep -c ^1 ran.$1; }
n=0; until [ -e go ] && [ "$(count a)" = "$(count b)" ]; do n=$((n + 1)); [ $n -lt 900 ] || exit 9; sleep 0.02; done"#;

fn ran(folder: &Path, job: &str) -> Vec<String> {
    let text = fs::read_to_string(folder.join(format!("ran.{job}"))).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Whether both jobs have been started so often, each round counted.
fn both_started(folder: &Path, times: usize) -> bool {
    ["a", "b"].iter().all(|job| ran(folder, job).len() == times)
}

fn besides(events: &[Value]) -> usize {
    let starts = events.iter().filter(|e| e["event"] == "start");
    starts.filter(|e| e["beside"].is_string()).count()
}

#[test]
fn a_pair_goes_on_together_after_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let schedule = plan(&pair(SECOND_WAITS), "hare");
    let more = ["--device", "cpu", "--journal", "journal", "--resume"];
    let mut child = command(folder.path(), &schedule, &more)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    assert!(until(|| both_started(folder.path(), 2)));
    child.kill().unwrap();
    child.wait().unwrap();
    fs::write(folder.path().join("go"), "").unwrap();
    let (output, events) = run(folder.path(), &schedule, &more);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    checked(&events);
    for job in ["a", "b"] {
        assert_eq!(ran(folder.path(), job), ["0 t", "1 t", "1 t"], "{job}");
    }
    assert_eq!(besides(&events), 1, "{events:#?}");
}

#[test]
fn a_lost_gpu_frees_both_of_a_pair_and_stays_lost_after_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let schedule = plan(&pair(SECOND_WAITS), "hare");
    let lost = r#"{"event":"lost","time_s":TIME,"gpu":"t"}"#;
    let more = ["--device", "cpu", "--journal", "journal", "--resume"];
    // Events of a pipe, so that the GPU is lost when both tasks are there.
    let mut child = command(
        folder.path(),
        &schedule,
        &[&more[..], &["--events", "-"]].concat(),
    )
    .stdin(Stdio::piped())
    .stdout(Stdio::null())
    .spawn()
    .unwrap();
    assert!(until(|| both_started(folder.path(), 2)));
    let mut events = child.stdin.take().unwrap();
    writeln!(events, "{}", lost.replace("TIME", "0")).unwrap();
    assert!(until(|| both_started(folder.path(), 3)));
    child.kill().unwrap();
    child.wait().unwrap();
    fs::write(folder.path().join("go"), "").unwrap();
    fs::write(folder.path().join("events"), lost.replace("TIME", "0.1")).unwrap();
    let (output, told) = run(
        folder.path(),
        &schedule,
        &[&more[..], &["--events", "events"]].concat(),
    );
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    checked(&told);
    for job in ["a", "b"] {
        let wanted = ["0 t", "1 t", "1 slow", "1 slow"];
        assert_eq!(ran(folder.path(), job), wanted, "{job}");
    }
}

#[test]
fn who_trains_beside_a_cancelled_job_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let mut cluster = pair(SECOND_WAITS);
    cluster["jobs"][0]["job"]["argv"][2] = "echo \"$MT_ROUND $MT_GPU\" >> ran.a; sleep 60".into();
    let script = "echo $MT_ROUND >> ran.b; until [ -e go ]; do sleep 0.02; done";
    cluster["jobs"][1]["job"]["argv"][2] = script.into();
    let schedule = plan(&cluster, "hare");
    let mut child = command(
        folder.path(),
        &schedule,
        &["--device", "cpu", "--events", "-", "-o", "run.ndjson"],
    )
    .stdin(Stdio::piped())
    .spawn()
    .unwrap();
    assert!(until(|| both_started(folder.path(), 1)));
    let mut events = child.stdin.take().unwrap();
    writeln!(events, r#"{{"event":"cancelled","time_s":0,"job":"a"}}"#).unwrap();
    drop(events);
    let told = || fs::read_to_string(folder.path().join("run.ndjson")).unwrap_or_default();
    assert!(until(|| told().contains("\"exit\"")));
    fs::write(folder.path().join("go"), "").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    let events: Vec<Value> = told()
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    checked(&events);
    assert_eq!(
        (ran(folder.path(), "a").len(), ran(folder.path(), "b")),
        (1, vec!["0".to_owned(), "1".to_owned()])
    );
}
