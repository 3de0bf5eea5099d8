//! Signals to the launcher, and its death.

use std::fs;
use std::time::{Duration, Instant};

use doc::EventKind;
use nix::sys::signal::Signal;

use crate::support::{Corner, ENDLESS, GOOD, Job, job, needs_cgroups, signal};

fn two_endless() -> [Job; 2] {
    [
        job("a", &format!("sleep 300 & {ENDLESS}")),
        job("b", ENDLESS),
    ]
}

#[test]
fn the_first_signal_stops_gracefully() {
    for (sent, code) in [
        (Signal::SIGINT, 130),
        (Signal::SIGTERM, 143),
        (Signal::SIGHUP, 129),
    ] {
        needs_cgroups!();
        let corner = Corner::new();
        let script = format!("trap 'touch saved; exit 0' TERM; {ENDLESS}");
        let child = corner.start(&[job("a", &script)], &[], EventKind::Progress);
        signal(child.id(), sent);
        let ran = corner.end(child);
        assert_eq!(ran.code, Some(code), "{}", ran.stderr);
        assert!(corner.path("saved").exists(), "the job could not save");
        assert_eq!(ran.summary().ok, Some(false));
        assert!(ran.reasons(EventKind::Stop).contains("signal"));
    }
}

#[test]
fn the_second_signal_kills() {
    needs_cgroups!();
    let corner = Corner::new();
    let script = format!("trap '' TERM; {ENDLESS}");
    let child = corner.start(
        &[job("a", &script)],
        &["--grace", "60"],
        EventKind::Progress,
    );
    let begun = Instant::now();
    signal(child.id(), Signal::SIGINT);
    std::thread::sleep(Duration::from_millis(300));
    signal(child.id(), Signal::SIGINT);
    let ran = corner.end(child);
    assert_eq!(ran.code, Some(130));
    assert!(begun.elapsed() < Duration::from_secs(30));
    assert_eq!(ran.first(EventKind::Exit).signal, Some(9));
}

#[test]
fn a_killed_launcher_leaves_no_job_and_its_guard_cleans_up() {
    needs_cgroups!();
    let corner = Corner::new();
    let mut child = corner.start(&two_endless(), &[], EventKind::Progress);
    let groups = Corner::cgroups(&corner.run_dirs());
    assert!(groups.iter().any(|g| g.exists()));
    assert!(corner.processes() >= 3);
    child.kill().unwrap();
    child.wait().unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while !(corner.processes() == 0 && corner.run_dirs().is_empty()) {
        assert!(
            Instant::now() < deadline,
            "{} processes",
            corner.processes()
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(groups.iter().all(|g| !g.exists()), "{groups:?}");
    assert!(corner.events().len() > 3, "events before the kill are kept");
}

#[test]
fn the_next_start_cleans_up_after_a_launcher_and_its_guard_were_killed() {
    needs_cgroups!();
    let corner = Corner::new();
    let mut child = corner.start(&two_endless(), &[], EventKind::Progress);
    let dirs = corner.run_dirs();
    let groups = Corner::cgroups(&dirs);
    let guard = format!("--guard\0{}", dirs[0].display());
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if String::from_utf8_lossy(&line).contains(&guard) {
            signal(
                entry.file_name().to_str().unwrap().parse().unwrap(),
                Signal::SIGKILL,
            );
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(dirs[0].exists());
    // Another that lives is left alone.
    let other = Corner::new();
    let living = other.start(&[job("x", ENDLESS)], &[], EventKind::Ready);
    let ran = corner.launch(&[job("a", GOOD)], &[]);
    assert_eq!(ran.code, Some(0));
    assert!(
        ran.stderr.contains("cleaned up after mt-launch"),
        "{}",
        ran.stderr
    );
    assert!(groups.iter().all(|g| !g.exists()));
    assert!(other.processes() > 0);
    signal(living.id(), Signal::SIGTERM);
    other.end(living);
}
