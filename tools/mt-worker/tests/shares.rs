//! The built-in training on the cpu device: it uses its share, and learns.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use device::{Device, MeasureError, OpenError, Options, Patience, Real, Window};
use doc::{Documents, Frames, Workload};
use jobs::process::cpu_seconds;
use units::corun::Setting;
use units::{Batch, Seconds, Share};

/// Tests that need the whole machine run one at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

const WORKER: &str = env!("CARGO_BIN_EXE_mt-worker");

fn workload(pool: bool, jobs: &[&[&str]]) -> Workload {
    let tasks: Vec<String> = jobs
        .iter()
        .enumerate()
        .map(|(i, arguments)| {
            let argv: Vec<String> = arguments.iter().map(|a| format!("{a:?}")).collect();
            format!(
                r#"{{"id":"t{i}","batch_sizes":[32,64],"job":{{"argv":[{}],"pool":{pool}}}}}"#,
                argv.join(",")
            )
        })
        .collect();
    let text = format!(
        r#"{{"schema":"mt.workload/1","device":{{"kind":"cpu"}},"tasks":[{}]}}"#,
        tasks.join(",")
    );
    let frames = Frames::new(std::io::Cursor::new(text), "test");
    Documents::new(frames).next().unwrap().unwrap()
}

/// The device; `None` if this machine has no writable control group.
fn open(workload: &Workload, runs: &Path) -> Option<Real> {
    let (runs, options) = (runs.join("runs"), Options::default());
    match Real::cpu_with(workload, &runs, Patience::default(), &options) {
        Ok(cpu) => Some(cpu),
        Err(OpenError::Environment { reason, .. }) => {
            testkit::skipped("cgroups", reason);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn run(task: usize, batch: u64, percent: f64) -> Setting {
    Setting {
        task,
        batch: Batch::new(batch).unwrap(),
        share: Share::from_percent(percent).unwrap(),
    }
}

fn window(least: f64) -> Window {
    Window {
        least: Seconds::new(least).unwrap(),
        most: Seconds::new(2.0 * least).unwrap(),
        precision: 0.01,
        repeats: 1,
    }
}

#[test]
fn half_the_machine_is_half_the_throughput() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = tempfile::tempdir().unwrap();
    // Marks the worker's command line, so that its processor time can be found.
    let seed = format!("77{}", std::process::id());
    let workload = workload(true, &[&[WORKER, "--width", "256", "--seed", &seed]]);
    let Some(mut cpu) = open(&workload, dir.path()) else {
        return;
    };
    let cores = std::thread::available_parallelism().unwrap().get() as f64;
    let processor_time = || -> f64 {
        let mine = |pid: &str| {
            let bytes = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
            let line = String::from_utf8_lossy(&bytes).into_owned();
            line.contains(&seed)
                .then(|| cpu_seconds(pid.parse().ok()?))?
        };
        let all = std::fs::read_dir("/proc").unwrap().flatten();
        all.filter_map(|e| mine(e.file_name().to_str()?)).sum()
    };
    cpu.measure(&[run(0, 64, 100.0)], &window(0.2)).unwrap();
    let mut rate = |percent| {
        let (used, at) = (processor_time(), Instant::now());
        let measured = cpu.measure(&[run(0, 64, percent)], &window(1.5)).unwrap();
        let part = (processor_time() - used) / at.elapsed().as_secs_f64() / cores;
        (measured.rates[0].throughput.get(), part)
    };
    // Other programs may take time from either: throughput is in proportion to the available processor time, which is
    // at most the share, and all of it if the machine is idle.
    let mut seen = Vec::new();
    for _ in 0..5 {
        let ((half, half_part), (full, full_part)) = (rate(50.0), rate(100.0));
        seen.push((half / full, half_part, full_part));
        assert!(half_part < 0.55, "more processor than the share: {seen:?}");
    }
    let work = |(ratio, half, full): &(f64, f64, f64)| ratio * full / half;
    let median = |seen: &[(f64, f64, f64)]| {
        let mut all: Vec<f64> = seen.iter().map(work).collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    assert!((0.8..1.25).contains(&median(&seen)), "{seen:?}");
    if seen.iter().all(|(_, _, full)| *full > 0.9) {
        let given = seen.iter().any(|(_, half, _)| *half > 0.45);
        assert!(given, "less processor than the share: {seen:?}");
        assert!((0.85..1.15).contains(&median(&seen)), "{seen:?}");
    }
}

#[test]
fn a_job_without_orders_is_started_for_each_configuration() {
    let dir = tempfile::tempdir().unwrap();
    let workload = workload(false, &[&[WORKER, "--width", "64"]]);
    let Some(mut cpu) = open(&workload, dir.path()) else {
        return;
    };
    for percent in [20.0, 50.0] {
        let measured = cpu.measure(&[run(0, 32, percent)], &window(0.2)).unwrap();
        assert!(measured.rates[0].throughput.get() > 0.0);
        assert_eq!(cpu.workers(), 0);
    }
}

#[test]
fn two_workers_divide_the_machine_by_their_shares() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = tempfile::tempdir().unwrap();
    let job: &[&str] = &[WORKER, "--width", "256"];
    let Some(mut cpu) = open(&workload(true, &[job, job]), dir.path()) else {
        return;
    };
    let mut ratio = |a, b| {
        let both = [run(0, 64, a), run(1, 64, b)];
        let measured = cpu.measure(&both, &window(1.0)).unwrap();
        measured.rates[0].throughput.get() / measured.rates[1].throughput.get()
    };
    // Both are below what they would get without a quota, so other programs hardly matter.
    let ratios = [ratio(12.0, 3.0), ratio(3.0, 12.0), ratio(6.0, 6.0)];
    assert!((2.0..8.0).contains(&ratios[0]), "{ratios:?}");
    assert!((2.0..8.0).contains(&ratios[1].recip()), "{ratios:?}");
    assert!((0.5..2.0).contains(&ratios[2]), "{ratios:?}");
    assert_eq!(cpu.workers(), 2);
}

#[test]
fn a_job_that_fails_is_a_failed_configuration_and_others_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let broken: &[&str] = &["sh", "-c", "echo no data here >&2; exit 5"];
    let good: &[&str] = &[WORKER, "--width", "64"];
    let Some(mut cpu) = open(&workload(true, &[broken, good]), dir.path()) else {
        return;
    };
    let error = cpu.measure(&[run(0, 32, 50.0), run(1, 32, 50.0)], &window(0.2));
    let Err(MeasureError::Failed(failed)) = error else {
        panic!("{error:?}");
    };
    let reason = failed.reason;
    assert!(
        reason.contains("task t0") && reason.contains("exit code 5"),
        "{reason}"
    );
    assert!(reason.contains("no data here"), "{reason}");
    assert!(cpu.measure(&[run(1, 64, 50.0)], &window(0.2)).is_ok());
}

#[test]
fn the_loss_falls_and_every_sample_is_counted() {
    let output = Command::new(WORKER)
        .args(["--width", "64", "--depth", "2", "--learning-rate", "0.05"])
        .env("MT_BATCH_SIZE", "50")
        .env("MT_SAMPLES", "6030")
        .output()
        .unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with(r#"{"mt":"ready""#), "{}", lines[0]);
    assert_eq!(lines[lines.len() - 1], r#"{"mt":"done","samples":6030}"#);
    let value = |line: &str, name: &str| -> f64 {
        let rest = line.split(&format!("\"{name}\":")).nth(1).unwrap();
        rest.split([',', '}']).next().unwrap().parse().unwrap()
    };
    let steps = &lines[1..lines.len() - 1];
    let samples: f64 = steps.iter().map(|l| value(l, "samples")).sum();
    assert!((samples - 6030.0).abs() < 0.5);
    let (first, last) = (
        value(steps[0], "loss"),
        value(steps[steps.len() - 1], "loss"),
    );
    assert!(last < 0.5 * first, "from {first} to {last}");
}

#[test]
fn a_pool_worker_waits_and_obeys() {
    use std::io::{BufRead, BufReader, Write};
    let mut child = Command::new(WORKER)
        .args(["--pool", "--width", "32"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut orders = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || lines.next().unwrap().unwrap();
    assert!(next().starts_with(r#"{"mt":"ready""#));
    orders.write_all(b"batch 16\nrun\n").unwrap();
    assert!(next().contains(r#""samples":16"#));
    orders.write_all(b"park\n").unwrap();
    while next() != r#"{"mt":"parked"}"# {}
    orders.write_all(b"batch 8\nrun\n").unwrap();
    assert!(next().contains(r#""samples":8"#));
    // The end of the orders ends the work.
    drop(orders);
    assert!(child.wait().unwrap().success());
}
