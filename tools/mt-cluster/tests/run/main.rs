//! Schedules run for real, with jobs that sleep, fail or are killed.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests: what goes wrong in them is a failure of the test"
)]

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;
use serde_json::{Value, json};

mod events;
mod kill;
mod sharing;

const TOOL: &str = env!("CARGO_BIN_EXE_mt-cluster");

/// Two GPUs and the given jobs; `script` is the program of each, run by sh.
fn cluster(jobs: &[(&str, u32, u32, &str)]) -> Value {
    let job = |(id, rounds, tasks, script): &(&str, u32, u32, &str)| {
        json!({"id": id, "rounds": rounds, "tasks_per_round": tasks, "train_s": {"t": 0.2},
               "job": {"argv": ["sh", "-c", script]}})
    };
    let jobs: Vec<Value> = jobs.iter().map(job).collect();
    json!({"schema": "mt.cluster/1", "gpus": [{"type": "t", "count": 2}], "jobs": jobs})
}

fn plan(cluster: &Value, policy: &str) -> Vec<u8> {
    let mut child = Command::new(TOOL)
        .args(["plan", "--policy", policy, "--effort", "20000"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(cluster.to_string().as_bytes()).unwrap();
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    output.stdout
}

/// `mt-cluster run` in a folder that holds the schedule.
fn command(folder: &Path, schedule: &[u8], more: &[&str]) -> Command {
    fs::write(folder.join("schedule.json"), schedule).unwrap();
    let mut command = Command::new(TOOL);
    command
        .args(["run", "--backoff", "0.05", "--grace", "1", "--runs"])
        .arg(folder.join("runs"))
        .args(more)
        .arg("schedule.json")
        .current_dir(folder)
        .stdin(Stdio::null());
    command
}

fn run(folder: &Path, schedule: &[u8], more: &[&str]) -> (Output, Vec<Value>) {
    let output = command(folder, schedule, more).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let events = text
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    (output, events)
}

fn count(events: &[Value], kind: &str) -> usize {
    events.iter().filter(|e| e["event"] == kind).count()
}

/// The checker finds nothing wrong with a run.
fn checked(events: &[Value]) {
    let text: String = events.iter().map(|e| format!("{e}\n")).collect();
    let mut documents = doc::AnyDocuments::new(doc::Frames::new(text.as_bytes(), "run"));
    let document = documents.next().unwrap().unwrap();
    let verdict = check::Inspector::default().judge(document);
    assert!(verdict.ok, "{verdict:?}");
}

/// Weighted completion: measured, planned.
fn completion(output: &Output) -> (f64, f64) {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let line = text.lines().find(|l| l.contains("weighted completion"));
    let words: Vec<&str> = line.expect(&text).split(' ').collect();
    let before = |word: &str| words[words.iter().position(|w| w.starts_with(word)).unwrap() - 1];
    (
        before("measured").parse().unwrap(),
        before("planned").parse().unwrap(),
    )
}

/// Each of two waits for a file of the other, so that one after another they would wait for ever. In
/// round 1 the second fails once, when both have met.
const MEETS: &str = r#"touch "$MT_ROUND-$MT_RANK"; n=0
while [ ! -e "$MT_ROUND-$((1 - MT_RANK))" ]; do n=$((n + 1)); [ $n -lt 400 ] || exit 9; sleep 0.02; done
echo "$MT_ROUND $MT_RANK $MT_PEERS" >> met
[ "$MT_ROUND-$MT_RANK" = 1-1 ] && [ ! -e failed ] && { until grep -q '^1 0' met; do sleep 0.02; done
touch failed; rm -f 1-0 1-1; exit 5; }
[ "$MT_ROUND-$MT_RANK" = 1-0 ] && sleep 1; exit 0"#;

#[test]
fn a_gang_runs_at_once_and_again_as_a_whole_when_one_fails() {
    let folder = tempfile::tempdir().unwrap();
    let mut cluster = cluster(&[("pair", 2, 2, MEETS), ("beside", 2, 1, "sleep 0.1")]);
    cluster["jobs"][0]["gang"] = json!(true);
    let (output, events) = run(folder.path(), &plan(&cluster, "hare"), &["--device", "cpu"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    checked(&events);
    let met = fs::read_to_string(folder.path().join("met")).unwrap();
    let times = |line: &str| met.lines().filter(|l| l.starts_with(line)).count();
    assert_eq!((times("0 0"), times("0 1")), (1, 1), "{met}");
    assert_eq!((times("1 0"), times("1 1")), (2, 2), "{met}");
    assert!(
        met.lines().all(|l| l.ends_with("localhost,localhost")),
        "{met}"
    );
    assert_eq!(count(&events, "restart"), 1);
}

#[test]
fn three_jobs_on_four_emulated_gpus() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/hare");
    let text = fs::read_to_string(folder.join("jobs.json")).unwrap();
    let cluster: Value = serde_json::from_str(&text).unwrap();
    let temporary = tempfile::tempdir().unwrap();
    fs::copy(folder.join("task.sh"), temporary.path().join("task.sh")).unwrap();
    let measure = |policy: &str| {
        let schedule = plan(&cluster, policy);
        let (output, events) = run(temporary.path(), &schedule, &["--device", "cpu"]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert_eq!(count(&events, "exit"), 19);
        checked(&events);
        completion(&output)
    };
    let (fifo, _) = measure("fifo");
    let (measured, planned) = measure("hare");
    assert!(measured < fifo, "{measured} against {fifo} of FIFO");
    // Tasks sleep, so that nothing is done before its time; starting their processes takes longer on
    // a machine that is busy with other tests. How close it comes is measured in examples/hare.
    assert!(
        measured >= planned,
        "{measured} s, before the plan's {planned} s"
    );
}

#[test]
fn what_fails_is_tried_again_and_then_given_up() {
    let folder = tempfile::tempdir().unwrap();
    let once = "test -e seen && exit 0; touch seen; echo broken >&2; exit 7";
    let cluster = cluster(&[
        ("once", 2, 1, once),
        ("never", 1, 2, "exit 3"),
        ("good", 3, 2, "true"),
    ]);
    let (output, events) = run(folder.path(), &plan(&cluster, "hare"), &["--restarts", "1"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    checked(&events);
    let summary = events.last().unwrap();
    let finished = |id: &str| {
        let tasks = summary["tasks"].as_array().unwrap();
        let own = tasks
            .iter()
            .filter(|t| t["id"].as_str().unwrap().split('.').next() == Some(id));
        own.map(|t| t["finished"].as_bool().unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(finished("never"), [false, false]);
    assert_eq!(finished("good"), [true, true]);
    assert_eq!(finished("once"), [true]);
    let stops: Vec<&Value> = events.iter().filter(|e| e["event"] == "stop").collect();
    assert_eq!(stops.len(), 1);
    assert_eq!(stops[0]["task"], "never");
}

#[test]
fn a_gpu_on_which_nothing_works_is_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = cluster(&[
        ("a", 2, 1, "true"),
        ("b", 2, 1, "true"),
        ("c", 3, 1, "true"),
    ]);
    fs::write(
        folder.path().join("via.sh"),
        "test \"$1\" = t-1 && exit 9; shift; exec \"$@\"",
    )
    .unwrap();
    let via = ["--via", "sh via.sh {gpu}", "--restarts", "5"];
    let (output, events) = run(folder.path(), &plan(&cluster, "hare"), &via);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    // On a busy machine there may be plans for drift beside the one for the lost GPU.
    assert_eq!(count(&events, "fault"), 1);
    assert!(count(&events, "replan") >= 1);
    checked(&events);
}

/// A job that obeys the orders of a pool, and writes which task it was told to do.
const POOL: &str = "while read -r word a b; do case $word in \
    task) echo $a.$b >>told.$MT_TASK;; \
    run) sleep 0.05; echo '{\"mt\":\"done\"}'; echo '{\"mt\":\"parked\"}';; \
    quit) exit;; esac; done";

fn pids(events: &[Value]) -> usize {
    let starts = events.iter().filter(|e| e["event"] == "start");
    let pids: BTreeSet<u64> = starts.map(|e| e["pid"].as_u64().unwrap()).collect();
    pids.len()
}

#[test]
fn processes_of_a_pool_are_parked_between_tasks() {
    let folder = tempfile::tempdir().unwrap();
    let mut cluster = cluster(&[
        ("a", 6, 1, POOL),
        ("b", 6, 2, POOL),
        ("plain", 2, 1, "true"),
    ]);
    for job in [0, 1] {
        cluster["jobs"][job]["job"]["pool"] = true.into();
    }
    let (output, events) = run(folder.path(), &plan(&cluster, "hare"), &["--device", "cpu"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    checked(&events);
    // On each of two GPUs at most one process of `a`, and of `b`, one of whose tasks may still
    // synchronise, two; and 2 of `plain`.
    assert_eq!(count(&events, "start"), 20);
    assert!(pids(&events) <= 8, "{events:?}");
    // Only the other processes end with a task.
    assert_eq!(count(&events, "exit"), 2);
    let text = fs::read_to_string(folder.path().join("told.b")).unwrap();
    let mut told: Vec<&str> = text.lines().collect();
    told.sort_unstable();
    let rounds = (0..6).flat_map(|r| [format!("{r}.0"), format!("{r}.1")]);
    assert_eq!(told, rounds.collect::<Vec<_>>());
}

#[test]
fn a_parked_process_makes_room_for_another() {
    let folder = tempfile::tempdir().unwrap();
    // What it holds on the GPU stays there while it synchronises.
    let slow = POOL.replace(
        "; echo '{\"mt\":\"parked\"}'",
        "; sleep 0.1; echo '{\"mt\":\"parked\"}'",
    );
    assert_ne!(slow, POOL);
    let mut cluster = cluster(&[("a", 4, 1, &slow), ("b", 4, 1, &slow)]);
    cluster["gpus"] = json!([{"type": "t", "memory_bytes": 100.0}]);
    for job in [0, 1] {
        cluster["jobs"][job]["job"]["pool"] = true.into();
        cluster["jobs"][job]["memory_bytes"] = 60.0.into();
        // Each trains while the other synchronises, so that they take turns.
        cluster["jobs"][job]["sync_s"] = json!({"t": 0.2});
    }
    let schedule = plan(&cluster, "hare");
    let (output, events) = run(folder.path(), &schedule, &[]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    checked(&events);
    let starts: Vec<&Value> = events.iter().filter(|e| e["event"] == "start").collect();
    let turns = starts.windows(2).filter(|w| w[0]["task"] != w[1]["task"]);
    // Whenever the GPU goes to the other job, that job's process has to be a new one.
    assert_eq!(pids(&events), turns.count() + 1);
}

#[test]
fn a_prefix_finds_its_allocation_by_the_environment() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = cluster(&[("a", 1, 1, "true")]);
    let via = "test \"$SLURM_JOB_ID\" = 7 && exec \"$@\"";
    fs::write(folder.path().join("via.sh"), via).unwrap();
    let schedule = plan(&cluster, "hare");
    let more = ["--via", "sh via.sh", "--restarts", "0"];
    let mut command = command(folder.path(), &schedule, &more);
    let output = command.env("SLURM_JOB_ID", "7").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

#[test]
fn slower_tasks_than_planned_lead_to_another_plan() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = cluster(&[("slow", 4, 1, "sleep 0.6"), ("other", 3, 1, "sleep 0.2")]);
    let (output, events) = run(folder.path(), &plan(&cluster, "hare"), &[]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(count(&events, "replan") > 0);
    checked(&events);
}

#[test]
fn a_schedule_that_cannot_be_followed_starts_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = cluster(&[("a", 2, 1, "touch started")]);
    let mut schedule: Value = serde_json::from_slice(&plan(&cluster, "hare")).unwrap();
    schedule["assignments"][1]["round"] = 0.into();
    let (output, events) = run(folder.path(), schedule.to_string().as_bytes(), &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(events.is_empty() && !folder.path().join("started").exists());
    let mut bare = cluster.clone();
    bare["jobs"][0].as_object_mut().unwrap().remove("job");
    let (output, _) = run(folder.path(), &plan(&bare, "hare"), &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("jobs without a program: a"));
}

/// Processes that sleep for exactly `seconds`.
fn sleepers(seconds: &str) -> usize {
    let wanted = format!("sleep\0{seconds}\0").into_bytes();
    let folders = fs::read_dir("/proc").unwrap().flatten();
    let lines = folders.filter_map(|f| fs::read(f.path().join("cmdline")).ok());
    lines.filter(|line| *line == wanted).count()
}

fn until(what: impl Fn() -> bool) -> bool {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !what() {
        if Instant::now() > deadline {
            return false;
        }
        sleep(Duration::from_millis(20));
    }
    true
}

/// A signal ends the tool; afterwards none of its jobs runs.
fn nothing_is_left(signal: Signal, seconds: &str) -> Option<i32> {
    let folder = tempfile::tempdir().unwrap();
    let script = format!("sleep {seconds} & sleep {seconds}");
    let cluster = cluster(&[("a", 1, 2, &script)]);
    let mut child = command(
        folder.path(),
        &plan(&cluster, "hare"),
        &["-o", "run.ndjson"],
    )
    .spawn()
    .unwrap();
    assert!(until(|| sleepers(seconds) == 4));
    signal::kill(Pid::from_raw(child.id().cast_signed()), signal).unwrap();
    let status = child.wait().unwrap();
    assert!(until(|| sleepers(seconds) == 0));
    assert!(until(|| fs::read_dir(folder.path().join("runs"))
        .unwrap()
        .flatten()
        .all(|f| f.file_name().to_string_lossy().ends_with("lock"))));
    status.code()
}

#[test]
fn after_an_interrupt_nothing_is_left() {
    assert_eq!(nothing_is_left(Signal::SIGINT, "4711.1"), Some(130));
}

#[test]
fn after_a_kill_nothing_is_left() {
    assert_eq!(nothing_is_left(Signal::SIGKILL, "4711.2"), None);
}

/// A script starts what it is told by a pipe, and the jobs come to their end.
#[test]
fn a_script_is_driven_by_a_pipe() {
    let python = Command::new("python3").arg("--version").output();
    if !python.is_ok_and(|o| o.status.success()) {
        testkit::skipped("python", "there is no python3");
        return;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/hare");
    let output = Command::new("python3")
        .arg(folder.join("live.py"))
        .arg(folder.join("jobs.json"))
        .arg("4")
        .env("MT_CLUSTER", TOOL)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    assert!(text.starts_with("3 jobs, weighted completion"), "{text}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("3 jobs arrived, all are complete"), "{said}");
    assert!(!said.contains("ignored"), "{said}");
}
