//! Signals to the launcher, and its death.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use doc::EventKind;
use nix::sys::signal::Signal;

use crate::support::{self, Corner, ENDLESS, GOOD, ScriptedTask, job, needs_cgroups, signal};

fn two_endless() -> [ScriptedTask; 2] {
    [
        job("a", &format!("sleep 300 & {ENDLESS}")),
        job("b", ENDLESS),
    ]
}

/// Whether this process was started with SIGHUP ignored.
fn hangups_are_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|l| l.strip_prefix("SigIgn:"));
    let mask = u64::from_str_radix(ignored.unwrap().trim(), 16).unwrap();
    mask & 1 != 0
}

#[test]
fn the_first_signal_stops_gracefully() {
    for (sent, code) in [
        (Signal::SIGINT, 130),
        (Signal::SIGTERM, 143),
        (Signal::SIGHUP, 129),
    ] {
        needs_cgroups!();
        if sent == Signal::SIGHUP && hangups_are_ignored() {
            // The launcher inherits this from `nohup make test`, and rightly continues.
            continue;
        }
        let corner = Corner::new();
        let script = format!("trap 'touch saved; exit 0' TERM; {ENDLESS}");
        let child = corner.start(&[job("a", &script)], &[], EventKind::Progress);
        signal(child.id(), sent);
        let ran = corner.end(child);
        assert_eq!(ran.code, Some(code), "{}", ran.stderr);
        assert!(corner.path("saved").exists(), "the job could not save");
        assert_eq!(ran.summary().ok, Some(false));
        assert!(ran.reasons(EventKind::Stop).contains(&sent.to_string()));
        assert!(ran.summary().tasks[0].interrupted);
        let told = format!("({sent}): a had not ended");
        assert!(ran.stderr.contains(&told), "{}", ran.stderr);
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
    // Another run that is alive is left alone.
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

#[test]
fn a_launcher_that_was_stopped_judges_nobody_for_it() {
    needs_cgroups!();
    let corner = Corner::new();
    let mut a = job("a", GOOD);
    a.script = a.script.replace(
        "echo '{\"mt\":\"step\"",
        "sleep 0.05; echo '{\"mt\":\"step\"",
    );
    a.samples = 1500;
    let arguments = ["--stall-timeout", "2", "--restarts", "0"];
    let child = corner.start(&[a], &arguments, EventKind::Progress);
    signal(child.id(), Signal::SIGSTOP);
    std::thread::sleep(Duration::from_secs(4));
    signal(child.id(), Signal::SIGCONT);
    let ran = corner.end(child);
    assert_eq!(ran.code, Some(0), "{}", ran.reasons(EventKind::Stop));
}

#[test]
fn nohup_keeps_a_launch_running() {
    needs_cgroups!();
    let corner = Corner::new();
    let mut a = job("a", GOOD);
    a.script = a.script.replace("n=$((n+10))", "sleep 0.1; n=$((n+10))");
    a.samples = 200;
    corner.plan(&[a]);
    let launch = corner.command(&[]);
    let mut command = Command::new("nohup");
    command.arg(launch.get_program()).args(launch.get_args());
    command
        .current_dir(corner.dir.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let child = corner.spawn(command, EventKind::Progress);
    signal(child.id(), Signal::SIGHUP);
    assert_eq!(corner.end(child).code, Some(0));
}

#[test]
fn the_guard_touches_nothing_but_run_directories() {
    let corner = Corner::new();
    for name in ["precious", "run-abcdefabcdef"] {
        let folder = corner.path(name);
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("thesis"), "years of work").unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_mt-launch"))
            .arg("--guard")
            .arg(&folder)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("is not a run directory"), "{said}");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
    }
}

/// A process that survives SIGKILL: one in a frozen group behaves like one inside a hanging driver.
#[test]
fn a_process_that_cannot_be_killed_is_reported_and_blocks_nothing() {
    needs_cgroups!();
    let freezer = std::path::Path::new("/sys/fs/cgroup/freezer");
    let group = freezer.join(format!("mt-test-{}", std::process::id()));
    if fs::create_dir(&group).is_err() {
        testkit::skipped("freezer", "there is no freezer");
        return;
    }
    let corner = Corner::new();
    let a = job(
        "a",
        &format!("echo $$ > {}/cgroup.procs; {ENDLESS}", group.display()),
    );
    let child = corner.start(&[a], &["--grace", "1"], EventKind::Progress);
    fs::write(group.join("freezer.state"), "FROZEN").unwrap();
    let begun = Instant::now();
    signal(child.id(), Signal::SIGTERM);
    let output = child.wait_with_output().unwrap();
    let took = begun.elapsed();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    // It does not block the next start, which reports what is left.
    let other = job("b", GOOD);
    corner.plan(&[other]);
    let next = support::ran(corner.command(&[]).output().unwrap());
    fs::write(group.join("freezer.state"), "THAWED").unwrap();
    assert_eq!(output.status.code(), Some(143), "{said}");
    assert!(took < Duration::from_secs(30), "{took:?}");
    assert!(said.contains("does not end, even after SIGKILL"), "{said}");
    assert_eq!(next.code, Some(0), "{}", next.stderr);
    assert!(next.stderr.contains("left where it is"), "{}", next.stderr);
    // When it can die, it does, and the next start cleans up the rest.
    let deadline = Instant::now() + Duration::from_secs(20);
    while fs::remove_dir(&group).is_err() {
        assert!(Instant::now() < deadline, "the group stays");
        std::thread::sleep(Duration::from_millis(20));
    }
    let last = support::ran(corner.command(&[]).output().unwrap());
    assert_eq!(last.code, Some(0), "{}", last.stderr);
    corner.nothing_is_left();
}
