//! Many rounds, and a flood of progress: no resource grows.

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use doc::EventKind;
use nix::sys::signal::Signal;

use crate::support::{Corner, GOOD, ScriptedTask, job, memory, needs_cgroups, signal};

const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

fn full() -> bool {
    std::env::var("MT_FAULTS").is_ok_and(|v| v == "full")
}

fn descriptors(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

/// A job of which one start in twenty kills itself half-way.
fn mortal(name: &'static str) -> ScriptedTask {
    let dies = "[ $(( $(od -An -N2 -tu2 /dev/urandom) % 20 )) -ne 0 ] || kill -9 $$";
    ScriptedTask {
        share: 100.0,
        ..job(name, &format!("{GOOD}; {dies}"))
    }
}

#[test]
fn a_soak_leaks_nothing() {
    needs_cgroups!();
    let rounds = if full() { 200 } else { 12 };
    let corner = Corner::new();
    let jobs = NAMES.map(mortal);
    let number = rounds.to_string();
    let arguments = ["--rounds", &number, "--restarts", "5", "--backoff", "0.01"];
    let mut child = corner.start(&jobs, &arguments, EventKind::Round);
    let (mut first, mut last) = (None, (0, 0));
    while child.try_wait().unwrap().is_none() {
        let now = (memory(child.id()), descriptors(child.id()));
        if now.0 > 0 {
            first.get_or_insert(now);
            last = now;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let ran = corner.end(child);
    let first = first.unwrap();
    assert_eq!(ran.code, Some(0), "{}", ran.reasons(EventKind::Stop));
    let accounted: Vec<_> = ran.of(EventKind::Round).iter().map(|e| e.round).collect();
    assert_eq!(accounted, (0..rounds).map(Some).collect::<Vec<_>>());
    for task in &ran.summary().tasks {
        assert!(
            task.finished && task.samples == 30 * u64::from(rounds),
            "{task:?}"
        );
    }
    let kills = ran.of(EventKind::Restart).len();
    assert!(!full() || kills > 20, "{kills} kills");
    assert!(
        last.0 < first.0 + 10_000,
        "memory grew from {} to {} kB",
        first.0,
        last.0
    );
    // Jobs that run at the moment of the check have three each.
    assert!(last.1 <= first.1 + 3 * NAMES.len(), "{first:?} {last:?}");
}

/// Memory (kB), descriptors, children and control groups of a launcher.
#[derive(Debug, Clone, Copy, Default)]
struct Level {
    memory: u64,
    descriptors: usize,
    processes: usize,
    groups: usize,
}

impl Level {
    fn of(corner: &Corner, pid: u32) -> Self {
        let groups = Corner::cgroups(&corner.run_dirs());
        let below = |group: &std::path::PathBuf| {
            let entries = fs::read_dir(group).into_iter().flatten().flatten();
            entries.filter(|e| e.path().is_dir()).count()
        };
        Self {
            memory: memory(pid),
            descriptors: descriptors(pid),
            processes: corner.processes(),
            groups: groups.iter().map(below).sum(),
        }
    }

    /// The highest of each.
    fn most(levels: &[Self]) -> Self {
        let most = |of: fn(&Self) -> usize| levels.iter().map(of).max().unwrap_or(0);
        Self {
            memory: levels.iter().map(|l| l.memory).max().unwrap_or(0),
            descriptors: most(|l| l.descriptors),
            processes: most(|l| l.processes),
            groups: most(|l| l.groups),
        }
    }
}

/// `make soak`: for `MT_SOAK_S` seconds; nothing is higher in the last quarter of the time than it was in the first.
#[test]
fn a_soak_of_minutes_stays_flat() {
    let seconds = std::env::var("MT_SOAK_S").ok().and_then(|s| s.parse().ok());
    let Some(seconds) = seconds.map(Duration::from_secs) else {
        return;
    };
    needs_cgroups!();
    let corner = Corner::new();
    let jobs = NAMES.map(|name| ScriptedTask {
        download: vec!["true".to_owned()],
        ..mortal(name)
    });
    let arguments = [
        "--rounds",
        "1000000",
        "--restarts",
        "9",
        "--backoff",
        "0.01",
    ];
    let child = corner.start(&jobs, &arguments, EventKind::Round);
    let begun = Instant::now();
    let mut levels = Vec::new();
    while begun.elapsed() < seconds {
        std::thread::sleep(Duration::from_millis(200));
        levels.push(Level::of(&corner, child.id()));
    }
    let used = jobs::process::cpu_seconds(child.id().cast_signed()).unwrap();
    signal(child.id(), Signal::SIGTERM);
    let ran = corner.end(child);
    let starts = ran.of(EventKind::Phase).len() + ran.of(EventKind::Restart).len();
    let each_ms = used * 1e3 / starts as f64;
    let quarter = levels.len() / 4;
    let first = Level::most(&levels[..quarter.max(1)]);
    let last = Level::most(&levels[levels.len() - quarter.max(1)..]);
    println!(
        "{} rounds, {starts} starts, {} restarts in {:.0} s; {each_ms:.2} ms of a processor for each \
         start\nfirst quarter: {first:?}\nlast quarter:  {last:?}",
        ran.of(EventKind::Round).len(),
        ran.of(EventKind::Restart).len(),
        begun.elapsed().as_secs_f64(),
    );
    assert_eq!(ran.code, Some(143), "{}", ran.stderr);
    // Pages that the allocator keeps; the events of a run are written and not kept.
    assert!(last.memory < first.memory + 4_000, "memory grows");
    assert!(
        last.descriptors <= first.descriptors + 6,
        "descriptors grow"
    );
    assert!(last.processes <= first.processes + 6, "processes grow");
    assert!(last.groups <= first.groups + 2, "control groups grow");
    // Optimised; a debug build takes about three times as long.
    let most_ms = if cfg!(debug_assertions) { 8.0 } else { 2.0 };
    assert!(each_ms < most_ms, "{each_ms} ms for each start");
}

#[test]
fn eight_jobs_with_a_hundred_lines_a_second_cost_little() {
    needs_cgroups!();
    if !std::path::Path::new("/usr/bin/perl").exists() {
        testkit::skipped("perl", "no perl to print lines at a steady pace");
        return;
    }
    let corner = Corner::new();
    let script = r#"exec perl -e '$| = 1; print "{\"mt\":\"ready\"}\n";
        while (1) { print "{\"mt\":\"step\",\"samples\":1,\"loss\":0.5}\n";
        select(undef, undef, undef, 0.01); }'"#;
    let jobs: Vec<ScriptedTask> = NAMES.iter().map(|name| job(name, script)).collect();
    let child = corner.start(&jobs, &["--progress-every", "1"], EventKind::Progress);
    std::thread::sleep(Duration::from_secs(1));
    let used = || jobs::process::cpu_seconds(child.id().cast_signed()).unwrap();
    let (before, begun) = (used(), Instant::now());
    std::thread::sleep(Duration::from_secs(if full() { 20 } else { 6 }));
    let part = (used() - before) / begun.elapsed().as_secs_f64();
    signal(child.id(), Signal::SIGTERM);
    let ran = corner.end(child);
    let lines: u64 = NAMES.iter().map(|name| ran.samples(name)).sum();
    let seconds = ran.summary().time_s;
    eprintln!(
        "launcher: {:.2} % of a core for {:.0} lines a second",
        part * 100.0,
        lines as f64 / seconds
    );
    // A hundredth of a core; a debug build takes about three times as long.
    let most = if cfg!(debug_assertions) { 0.03 } else { 0.01 };
    assert!(part < most, "{part} of a core");
}

#[test]
fn standard_output_may_be_nothing() {
    needs_cgroups!();
    let corner = Corner::new();
    corner.plan(&[job("a", GOOD)]);
    let status = corner.command(&[]).stdout(Stdio::null()).status().unwrap();
    assert!(status.success());
    corner.nothing_is_left();
}
