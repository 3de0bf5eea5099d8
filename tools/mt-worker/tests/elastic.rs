//! Training over processes: the same losses whatever their number, and no step is lost or repeated when it is stopped
//! and continues with another number.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use serde_json::Value;

const SMALL: &[&str] = &[
    "--width",
    "16",
    "--features",
    "8",
    "--classes",
    "4",
    "--seed",
    "9",
];

fn worker(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mt-worker"));
    command
        .args(SMALL)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn lines(text: &[u8]) -> Vec<Value> {
    let text = String::from_utf8(text.to_vec()).unwrap();
    text.lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect()
}

fn told(lines: &[Value], what: &str) -> Vec<Value> {
    let of = |l: &&Value| l["mt"] == what;
    lines.iter().filter(of).cloned().collect()
}

/// Step numbers and losses.
fn steps(lines: &[Value]) -> Vec<(u64, f64)> {
    let pair = |l: &Value| (l["step"].as_u64().unwrap(), l["loss"].as_f64().unwrap());
    told(lines, "step").iter().map(pair).collect()
}

fn trained(arguments: &[&str]) -> Vec<(u64, f64)> {
    let output = worker(arguments).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{errors}");
    let lines = lines(&output.stdout);
    assert_eq!(told(&lines, "done").len(), 1, "{errors}");
    steps(&lines)
}

fn assert_same(one: &[(u64, f64)], other: &[(u64, f64)]) {
    assert_eq!(one.len(), other.len());
    for ((step, loss), (other_step, other_loss)) in one.iter().zip(other) {
        assert_eq!(step, other_step);
        let error = (loss - other_loss).abs() / loss;
        assert!(error < 1e-3, "step {step}: {loss} and {other_loss}");
    }
}

#[test]
fn losses_do_not_depend_on_the_number_of_processes() {
    let rest = ["--samples", "2100", "--target-loss", "-1"];
    let with = |more: &[&str]| trained(&[&rest, more].concat());
    let one = with(&["--batch", "50"]);
    assert_eq!(one.len(), 42);
    assert!(one[41].1 < 0.7 * one[0].1, "{one:?}");
    assert_same(&one, &with(&["--batch", "50", "--processes", "2"]));
    let unequal = with(&["--processes", "3", "--batches", "30,1,19"]);
    assert_same(&one, &unequal);
    // The first loss comes before rounding can have any effect on the weights.
    assert!((one[0].1 - unequal[0].1).abs() < 1e-6 * one[0].1);
}

/// Starts a training in its own process group and waits until it has made some steps.
fn started(arguments: &[&str], least: usize) -> (Child, BufReader<std::process::ChildStdout>) {
    use std::os::unix::process::CommandExt;
    let mut child = worker(arguments).process_group(0).spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut seen = 0;
    while seen < least {
        let mut line = String::new();
        assert!(output.read_line(&mut line).unwrap() > 0, "it ended");
        seen += usize::from(line.contains("\"step\",") || line.contains("\"mt\":\"step\""));
    }
    (child, output)
}

fn rest(mut output: BufReader<std::process::ChildStdout>) -> Vec<Value> {
    let mut text = Vec::new();
    std::io::Read::read_to_end(&mut output, &mut text).unwrap();
    lines(&text)
}

fn pid(child: &Child) -> Pid {
    Pid::from_raw(child.id().cast_signed())
}

#[test]
fn a_training_that_moves_from_one_to_two_to_three_processes_repeats_and_loses_no_step() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state").display().to_string();
    let common = ["--batch", "50", "--checkpoint", &path];
    let mut seen: Vec<(u64, f64)> = Vec::new();
    for processes in ["1", "2", "3", "1"] {
        let log = dir.path().join("log");
        let arguments = [&common[..], &["--processes", processes]].concat();
        let mut command = worker(&arguments);
        command.stdout(fs::File::create(&log).unwrap());
        let mut child = {
            use std::os::unix::process::CommandExt;
            command.process_group(0).spawn().unwrap()
        };
        let enough = |text: &str| text.matches("\"mt\":\"step\"").count() >= 15;
        while !enough(&fs::read_to_string(&log).unwrap()) {
            assert!(child.try_wait().unwrap().is_none(), "it ended");
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        killpg(pid(&child), Signal::SIGTERM).unwrap();
        assert!(child.wait().unwrap().success());
        let lines = lines(&fs::read(&log).unwrap());
        let parked = told(&lines, "parked");
        assert_eq!(parked.len(), 1);
        let of_part = steps(&lines);
        assert_eq!(
            parked[0]["step"].as_u64().unwrap(),
            of_part.last().unwrap().0
        );
        seen.extend(of_part);
    }
    let numbers: Vec<u64> = seen.iter().map(|s| s.0).collect();
    assert_eq!(numbers, (1..=seen.len() as u64).collect::<Vec<_>>());
    let samples = (50 * seen.len()).to_string();
    let whole = trained(&[
        "--batch",
        "50",
        "--samples",
        &samples,
        "--target-loss",
        "-1",
    ]);
    assert_same(&whole, &seen);
}

#[test]
fn one_process_that_is_asked_stops_all() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state").display().to_string();
    let (mut child, output) = started(&["--processes", "3", "--checkpoint", &path], 3);
    // To the first process alone, not to its group.
    kill(pid(&child), Signal::SIGTERM).unwrap();
    assert_eq!(told(&rest(output), "parked").len(), 1);
    assert!(child.wait().unwrap().success());
    assert!(Path::new(&path).exists());
}

#[test]
fn ranks_that_a_launcher_started_train_as_processes_do() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port().to_string();
    drop(free);
    let start = |rank: &str| {
        worker(&["--batch", "50", "--samples", "500"])
            .env("RANK", rank)
            .env("WORLD_SIZE", "3")
            .env("MT_PROCESSES", "3")
            .env("MASTER_PORT", &port)
            .spawn()
            .unwrap()
    };
    // The first rank comes last.
    let ranks = ["2", "1", "0"].map(start);
    let [two, one, zero] = ranks.map(|child| child.wait_with_output().unwrap());
    assert!(two.stdout.is_empty() && one.stdout.is_empty());
    for output in [&two, &one, &zero] {
        assert!(output.status.success());
    }
    let alone = trained(&["--batch", "50", "--samples", "500", "--target-loss", "-1"]);
    assert_same(&alone, &steps(&lines(&zero.stdout)));
}

#[test]
fn a_checkpoint_that_cannot_be_written_is_no_parking_and_the_old_one_stays() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state");
    let name = path.display().to_string();
    trained(&["--samples", "640", "--checkpoint", &name]);
    let old = fs::read(&path).unwrap();
    // There is a folder where the new one is prepared, so not even root can write it.
    fs::create_dir(dir.path().join("state.new")).unwrap();
    let (child, output) = started(&["--checkpoint", &name], 1);
    kill(pid(&child), Signal::SIGTERM).unwrap();
    assert!(told(&rest(output), "parked").is_empty());
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(3));
    let errors = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(errors.contains("cannot write the checkpoint"), "{errors}");
    assert_eq!(fs::read(&path).unwrap(), old);
}

#[test]
fn a_checkpoint_of_another_network_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let name = dir.path().join("state").display().to_string();
    trained(&["--samples", "640", "--checkpoint", &name]);
    let output = worker(&["--depth", "1", "--checkpoint", &name])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("another training"));
    // A finished one does not train any further.
    assert!(trained(&["--samples", "640", "--checkpoint", &name]).is_empty());
}

#[test]
fn a_process_that_is_killed_ends_the_others_with_an_error() {
    let (child, output) = started(&["--processes", "3"], 3);
    let own = child.id();
    let children = fs::read_to_string(format!("/proc/{own}/task/{own}/children")).unwrap();
    let pids: Vec<i32> = children
        .split_whitespace()
        .map(|p| p.parse().unwrap())
        .collect();
    assert_eq!(pids.len(), 2);
    kill(Pid::from_raw(pids[1]), Signal::SIGKILL).unwrap();
    rest(output);
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(3));
    let errors = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(errors.contains("process 2"), "{errors}");
    for pid in pids {
        assert!(
            !Path::new(&format!("/proc/{pid}")).exists(),
            "{pid} is left"
        );
    }
}

#[test]
fn steps_are_met_exactly_whatever_the_batch_and_a_kill_costs_little() {
    let dir = tempfile::tempdir().unwrap();
    let name = dir.path().join("state").display().to_string();
    let counted = |more: &[&str]| trained(&[&["--steps", "30"], more].concat()).len();
    let more: [&[&str]; 2] = [&["--target-loss", "-1"], &["--processes", "2"]];
    assert_eq!(more.map(counted), [30, 30]);
    // A file that is written during training, without a request to stop.
    let common = ["--checkpoint", &name, "--threads", "1"];
    let (mut child, mut output) = started(&common, 1);
    let mut last = String::new();
    while !Path::new(&name).exists() {
        last.clear();
        assert!(output.read_line(&mut last).unwrap() > 0, "it ended");
    }
    kill(pid(&child), Signal::SIGKILL).unwrap();
    child.wait().unwrap();
    let made = steps(&lines(last.as_bytes()))[0].0;
    let total = (made + 5).to_string();
    let after = trained(&[&common[..], &["--steps", &total, "--batch", "32"]].concat());
    assert!(after[0].0 > 1, "it began at 0");
    assert_eq!(after.last().unwrap().0, made + 5);
}

#[test]
fn a_target_ends_the_training() {
    let steps = trained(&["--target-loss", "0.8", "--processes", "2"]);
    let last: Vec<f64> = steps.iter().rev().take(10).map(|s| s.1).collect();
    assert!(last.iter().sum::<f64>() / 10.0 <= 0.8, "{last:?}");
    assert!(steps.len() >= 10);
}
