//! What can go wrong with jobs, and what the user then sees, what remains and what is lost.
//!
//! Every scenario asserts that no process, control group and run directory remains
//! ([`Corner::nothing_is_left`]). `make test-faults` runs the long ones as well.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Stdio;
use std::time::{Duration, Instant};

use doc::{EventKind, PhaseKind};
use jobs::process::Identity;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use support::{Corner, ENDLESS, GOOD, Job, has_cgroups, job};

fn signal(pid: u32, signal: Signal) {
    kill(Pid::from_raw(pid.cast_signed()), signal).unwrap();
}

macro_rules! needs_cgroups {
    () => {
        if !has_cgroups() {
            return;
        }
    };
}

#[test]
fn all_goes_well() {
    needs_cgroups!();
    let corner = Corner::new();
    let ran = corner.launch(&[job("a", GOOD), job("b", GOOD)], &[]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(ran.summary().ok, Some(true));
    assert_eq!((ran.samples("a"), ran.samples("b")), (30, 30));
    assert!(
        ran.summary()
            .tasks
            .iter()
            .all(|t| t.finished && t.samples == 30)
    );
    assert_eq!(ran.stderr, "");
}

#[test]
fn a_job_that_exits_at_once_is_restarted_and_given_up() {
    needs_cgroups!();
    let corner = Corner::new();
    let ran = corner.launch(&[job("a", "exit 0"), job("b", GOOD)], &["--restarts", "2"]);
    assert_eq!(ran.code, Some(1));
    let restarts: Vec<_> = ran.of(EventKind::Restart);
    assert_eq!(
        restarts
            .iter()
            .filter_map(|e| e.restarts)
            .collect::<Vec<_>>(),
        [1, 2]
    );
    assert!(
        ran.reasons(EventKind::Stop)
            .contains("ended after 0 of 30 samples")
    );
    assert_eq!(ran.of(EventKind::Start).len(), 4);
    let tasks = &ran.summary().tasks;
    assert!(!tasks[0].finished && tasks[1].finished);
}

#[test]
fn a_job_that_fails_is_told_with_its_last_words() {
    needs_cgroups!();
    let corner = Corner::new();
    let script = "echo CUDA out of memory >&2; exit 17";
    let ran = corner.launch(&[job("a", script)], &["--restarts", "0"]);
    assert_eq!(ran.code, Some(1));
    let exit = ran.first(EventKind::Exit);
    assert_eq!(
        (exit.code, exit.phase),
        (Some(17), Some(PhaseKind::Compute))
    );
    assert!(ran.reasons(EventKind::Stop).contains("CUDA out of memory"));
    assert_eq!(ran.summary().tasks[0].code, Some(17));
}

#[test]
fn a_program_that_does_not_exist() {
    needs_cgroups!();
    let corner = Corner::new();
    corner.plan(&[job("a", GOOD)]);
    let plan = fs::read_to_string(corner.path("plan.json")).unwrap();
    fs::write(
        corner.path("plan.json"),
        plan.replace(r#"["sh""#, r#"["mt-no-such""#),
    )
    .unwrap();
    let output = corner.command(&["--restarts", "1"]).output().unwrap();
    let ran = support::ran(output);
    corner.nothing_is_left();
    assert_eq!(ran.code, Some(1));
    assert!(ran.reasons(EventKind::Stop).contains("mt-no-such"));
}

#[test]
fn a_transient_fault_is_survived() {
    needs_cgroups!();
    let corner = Corner::new();
    let script = format!("if [ ! -e tried ]; then touch tried; exit 1; fi; {GOOD}");
    let ran = corner.launch(&[job("a", &script)], &[]);
    assert_eq!(ran.code, Some(0), "{}", ran.reasons(EventKind::Restart));
    assert_eq!(ran.summary().tasks[0].restarts, 1);
}

#[test]
fn a_restart_uses_the_jobs_own_checkpoint_command() {
    needs_cgroups!();
    let corner = Corner::new();
    let mut a = job(
        "a",
        r#"echo '{"mt":"step","samples":10}'; sleep 0.1; kill -9 $$"#,
    );
    a.resume = r#"echo '{"mt":"step","samples":20}'; echo '{"mt":"done","samples":30}'"#.to_owned();
    let ran = corner.launch(&[a], &[]);
    assert_eq!(ran.code, Some(0));
    assert_eq!(ran.samples("a"), 30);
    assert!(ran.reasons(EventKind::Restart).contains("signal 9"));
}

#[test]
fn the_pause_before_restarts_doubles() {
    needs_cgroups!();
    let corner = Corner::new();
    let arguments = ["--restarts", "3", "--backoff", "0.2"];
    let ran = corner.launch(&[job("a", "exit 1")], &arguments);
    let starts: Vec<f64> = ran.of(EventKind::Start).iter().map(|e| e.time_s).collect();
    let gaps: Vec<f64> = starts.windows(2).map(|w| w[1] - w[0]).collect();
    assert_eq!(gaps.len(), 3, "{}", ran.stderr);
    for (gap, least) in gaps.iter().zip([0.2, 0.4, 0.8]) {
        assert!(*gap >= least, "{gaps:?}");
    }
}

#[test]
fn a_job_that_never_gets_ready() {
    needs_cgroups!();
    let corner = Corner::new();
    let arguments = ["--ready-timeout", "0.3", "--restarts", "1"];
    let ran = corner.launch(&[job("a", "sleep 100")], &arguments);
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.reasons(EventKind::Stop)
            .contains("not ready after 0.3 s")
    );
    assert_eq!(ran.of(EventKind::Restart).len(), 1);
}

#[test]
fn a_job_that_stalls() {
    needs_cgroups!();
    let corner = Corner::new();
    let script = r#"echo '{"mt":"ready"}'; echo '{"mt":"step","samples":10}'; sleep 100"#;
    let arguments = ["--stall-timeout", "0.3", "--restarts", "0"];
    let ran = corner.launch(&[job("a", script)], &arguments);
    assert_eq!(ran.code, Some(1));
    assert!(ran.reasons(EventKind::Stop).contains("no step for 0.3 s"));
    assert_eq!(ran.samples("a"), 10, "what was trained before is not lost");
}

#[test]
fn a_task_that_takes_too_long_in_all() {
    needs_cgroups!();
    let corner = Corner::new();
    let ran = corner.launch(
        &[job("a", ENDLESS), job("b", GOOD)],
        &["--task-timeout", "0.6"],
    );
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.reasons(EventKind::Stop)
            .contains("not done after 0.6 s")
    );
    assert!(ran.of(EventKind::Restart).is_empty());
}

#[test]
fn a_job_that_ignores_sigterm_is_killed_after_the_grace() {
    needs_cgroups!();
    let corner = Corner::new();
    let script = format!("trap '' TERM; {ENDLESS}");
    let arguments = ["--task-timeout", "0.4", "--grace", "0.3"];
    let ran = corner.launch(&[job("a", &script)], &arguments);
    assert_eq!(ran.first(EventKind::Exit).signal, Some(9));
}

#[test]
fn a_job_that_leaves_daemons() {
    needs_cgroups!();
    let corner = Corner::new();
    let script = format!("setsid sleep 300 & sleep 300 & {GOOD}");
    let ran = corner.launch(&[job("a", &script)], &[]);
    assert_eq!(ran.code, Some(0));
    assert!(
        ran.reasons(EventKind::Exit)
            .contains("2 processes that it left were killed")
    );
}

#[test]
fn a_job_that_closes_its_output_and_goes_on() {
    needs_cgroups!();
    let corner = Corner::new();
    let script = format!("{GOOD}; exec >&- 2>&-; sleep 0.3");
    let ran = corner.launch(&[job("a", &script)], &[]);
    assert_eq!((ran.code, ran.samples("a")), (Some(0), 30));
}

#[test]
fn a_job_that_writes_binary() {
    needs_cgroups!();
    let corner = Corner::new();
    let script = format!("head -c 300000 /dev/urandom; echo; {GOOD}");
    let ran = corner.launch(&[job("a", &script)], &["--logs", "logs"]);
    assert_eq!((ran.code, ran.samples("a")), (Some(0), 30));
    assert!(fs::metadata(corner.path("logs/a.log")).unwrap().len() > 300_000);
}

#[test]
fn a_line_of_ten_megabytes() {
    needs_cgroups!();
    let corner = Corner::new();
    let script = format!("head -c 10000000 /dev/zero | tr '\\0' x; echo; {GOOD}");
    let mut a = job("a", &script);
    a.share = 100.0;
    let ran = corner.launch(&[a], &["--logs", "logs"]);
    assert_eq!((ran.code, ran.samples("a")), (Some(0), 30));
    assert!(fs::metadata(corner.path("logs/a.log")).unwrap().len() > 10_000_000);
}

#[test]
fn a_flood_of_output_is_rotated_and_costs_no_memory() {
    needs_cgroups!();
    let corner = Corner::new();
    let script = format!("{ENDLESS} & yes | head -c 200000000; kill $!; {GOOD}");
    let mut a = job("a", &script);
    a.share = 100.0;
    let arguments = [
        "--logs",
        "logs",
        "--log-bytes",
        "1000000",
        "--log-files",
        "1",
    ];
    corner.plan(&[a]);
    let mut child = corner
        .command(&arguments)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut most = 0;
    while child.try_wait().unwrap().is_none() {
        most = most.max(memory(child.id()));
        std::thread::sleep(Duration::from_millis(20));
    }
    corner.nothing_is_left();
    assert!(child.wait().unwrap().success());
    assert!(most < 60_000, "{most} kB");
    let names: Vec<_> = fs::read_dir(corner.path("logs"))
        .unwrap()
        .flatten()
        .collect();
    assert_eq!(names.len(), 2);
    for name in names {
        assert!(name.metadata().unwrap().len() < 1_100_000);
    }
}

/// Resident memory of a process in kB.
fn memory(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find(|l| l.starts_with("VmRSS"));
    let number = line.and_then(|l| l.split_whitespace().nth(1));
    number.map_or(0, |n| n.parse().unwrap())
}

#[test]
fn a_log_on_a_full_disk() {
    needs_cgroups!();
    let corner = Corner::new();
    fs::create_dir(corner.path("logs")).unwrap();
    if !std::path::Path::new("/dev/full").exists() {
        return;
    }
    // A link is refused, so the device itself stands in for the disk.
    let full = std::process::Command::new("mknod")
        .args([
            corner.path("logs/a.log").as_os_str(),
            "c".as_ref(),
            "1".as_ref(),
            "7".as_ref(),
        ])
        .status();
    if !full.is_ok_and(|s| s.success()) {
        return;
    }
    let ran = corner.launch(&[job("a", GOOD)], &["--logs", "logs"]);
    assert_eq!((ran.code, ran.samples("a")), (Some(0), 30));
    assert!(
        ran.stderr.contains("the log of a ends here"),
        "{}",
        ran.stderr
    );
}

#[test]
fn events_on_a_full_disk_do_not_stop_the_jobs() {
    needs_cgroups!();
    let corner = Corner::new();
    let script = format!("{GOOD}; touch trained");
    let ran = corner.launch(&[job("a", &script)], &["--output", "/dev/full"]);
    assert_eq!(ran.code, Some(3));
    assert!(ran.stderr.contains("events were lost"), "{}", ran.stderr);
    assert!(corner.path("trained").exists());
}

#[test]
fn a_reader_that_goes_ends_the_jobs_quietly() {
    needs_cgroups!();
    let corner = Corner::new();
    corner.plan(&[job("a", ENDLESS)]);
    let mut child = corner.command(&[]).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    corner.nothing_is_left();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn logs_that_cannot_be_written() {
    needs_cgroups!();
    let corner = Corner::new();
    fs::write(corner.path("logs"), "a file in the way").unwrap();
    let ran = corner.launch(&[job("a", GOOD)], &["--logs", "logs"]);
    assert_eq!(ran.code, Some(3));
    assert!(ran.stderr.contains("logs"), "{}", ran.stderr);
    assert!(ran.events.is_empty());
}

#[test]
fn a_log_that_is_a_link_is_not_followed() {
    needs_cgroups!();
    let corner = Corner::new();
    fs::create_dir(corner.path("logs")).unwrap();
    fs::write(corner.path("precious"), "mine").unwrap();
    symlink(corner.path("precious"), corner.path("logs/a.log")).unwrap();
    let ran = corner.launch(&[job("a", GOOD)], &["--logs", "logs", "--restarts", "0"]);
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.reasons(EventKind::Stop)
            .contains("cannot write the log")
    );
    assert_eq!(corner.log("precious"), "mine");
}

#[test]
fn a_run_directory_of_others_is_refused() {
    let corner = Corner::new();
    fs::create_dir(corner.path("runs")).unwrap();
    fs::set_permissions(corner.path("runs"), fs::Permissions::from_mode(0o777)).unwrap();
    let ran = corner.launch(&[job("a", GOOD)], &[]);
    assert_eq!(ran.code, Some(3));
    assert!(ran.stderr.contains("open to other users"), "{}", ran.stderr);
    fs::remove_dir(corner.path("runs")).unwrap();
    fs::create_dir(corner.path("elsewhere")).unwrap();
    symlink(corner.path("elsewhere"), corner.path("runs")).unwrap();
    corner.plan(&[job("a", GOOD)]);
    let ran = support::ran(corner.command(&[]).output().unwrap());
    assert_eq!(ran.code, Some(3));
    assert!(ran.stderr.contains("symbolic link"), "{}", ran.stderr);
}

#[test]
fn directories_and_files_are_private() {
    needs_cgroups!();
    let corner = Corner::new();
    let child = corner.start(&[job("a", ENDLESS)], &[], EventKind::Ready);
    let mode = |p: &std::path::Path| fs::metadata(p).unwrap().permissions().mode() & 0o777;
    let dir = corner.run_dirs().pop().unwrap();
    assert_eq!((mode(&corner.path("runs")), mode(&dir)), (0o700, 0o700));
    for file in fs::read_dir(&dir).unwrap().flatten() {
        assert_eq!(mode(&file.path()), 0o600, "{:?}", file.path());
    }
    signal(child.id(), Signal::SIGTERM);
    assert_eq!(corner.end(child).code, Some(143));
}

#[test]
fn the_environment_of_jobs_is_a_list() {
    needs_cgroups!();
    let corner = Corner::new();
    let a = job("a", &format!("env >seen; {GOOD}"));
    corner.plan(&[a]);
    let output = corner
        .command(&[])
        .env("MY_SECRET", "x")
        .env("LC_ALL", "C")
        .output();
    assert!(output.unwrap().status.success());
    let seen = corner.log("seen");
    assert!(!seen.contains("MY_SECRET"), "{seen}");
    for name in [
        "LC_ALL=C",
        "MT_TASK=a",
        "MT_BATCH_SIZE=10",
        "MT_SHARE_PERCENT=20",
        "MT_DEVICE=cpu",
        "MT_ROUND=0",
        "MT_SAMPLES=30",
        "CORNER=",
    ] {
        assert!(seen.contains(name), "{name} in {seen}");
    }
}

#[test]
fn arguments_are_not_read_by_a_shell() {
    needs_cgroups!();
    let corner = Corner::new();
    let mut a = job("a", GOOD);
    a.download = ["touch", "$(touch evil)", "; touch evil"]
        .map(str::to_owned)
        .to_vec();
    let ran = corner.launch(&[a], &[]);
    assert_eq!(ran.code, Some(0));
    assert!(!corner.path("evil").exists());
    assert!(corner.path("$(touch evil)").exists());
}

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

#[test]
fn a_download_that_fails_keeps_its_turn_and_is_tried_again() {
    needs_cgroups!();
    let corner = Corner::new();
    let mut a = job("a", GOOD);
    let script = "if [ ! -e tried ]; then touch tried; exit 1; fi";
    a.download = ["sh", "-c", script].map(str::to_owned).to_vec();
    let mut b = job("b", GOOD);
    b.download = vec!["true".to_owned()];
    let ran = corner.launch(&[a, b], &[]);
    assert_eq!(ran.code, Some(0));
    let (first, second) = (
        ran.phase("a", PhaseKind::Download),
        ran.phase("b", PhaseKind::Download),
    );
    assert!(first.1 <= second.0, "{first:?} {second:?}");
    assert_eq!(ran.of(EventKind::Restart).len(), 1);
}

#[test]
fn an_upload_that_fails_fails_its_task_alone() {
    needs_cgroups!();
    let corner = Corner::new();
    let mut a = job("a", GOOD);
    a.upload = vec!["false".to_owned()];
    let mut b = job("b", GOOD);
    b.upload = vec!["true".to_owned()];
    let ran = corner.launch(&[a, b], &["--restarts", "1"]);
    assert_eq!(ran.code, Some(1));
    let finished: Vec<bool> = ran.summary().tasks.iter().map(|t| t.finished).collect();
    assert_eq!(finished, [false, true]);
}

#[test]
fn log_lines_of_others_are_understood() {
    needs_cgroups!();
    let corner = Corner::new();
    let mut a = job(
        "a",
        "for i in 1 2 3; do echo \"[$i] trained 10 loss 0.$i\" >&2; done",
    );
    a.regex = Some(r"trained (?P<samples>\d+) loss (?P<loss>\S+)");
    let ran = corner.launch(&[a], &[]);
    assert_eq!((ran.code, ran.samples("a")), (Some(0), 30));
    assert_eq!(ran.summary().tasks[0].last_loss, Some(0.3));
}

#[test]
fn shares_of_a_task_that_ends_go_to_the_rest_at_once() {
    needs_cgroups!();
    let corner = Corner::new();
    let script = format!("echo '{{\"mt\":\"ready\"}}'; sleep 0.6; {GOOD}");
    let jobs = || [job("a", GOOD), job("b", &script)];
    let ran = corner.launch(&jobs(), &[]);
    let reshare = ran.first(EventKind::Reshare);
    assert_eq!(
        (reshare.task.as_deref(), reshare.share_percent),
        (Some("b"), Some(40.0))
    );
    let ran = corner.launch(&jobs(), &["--keep-shares"]);
    assert!(ran.of(EventKind::Reshare).is_empty());
}

#[test]
fn every_round_is_accounted_for() {
    needs_cgroups!();
    let corner = Corner::new();
    let script = format!("test $MT_ROUND != 1 || exit 1; {GOOD}");
    let arguments = ["--rounds", "3", "--restarts", "0"];
    let ran = corner.launch(&[job("a", &script)], &arguments);
    assert_eq!(ran.code, Some(1));
    let oks: Vec<_> = ran
        .of(EventKind::Round)
        .iter()
        .map(|e| e.ok.unwrap())
        .collect();
    assert_eq!(oks, [true, false, true]);
    assert_eq!(ran.summary().tasks[0].samples, 60);
}

#[test]
fn follow_prints_what_jobs_print() {
    needs_cgroups!();
    let corner = Corner::new();
    let script = format!("echo hello >&2; {GOOD}");
    let ran = corner.launch(&[job("a", &script)], &["--follow"]);
    assert!(ran.stderr.contains("a | hello\n"), "{}", ran.stderr);
    assert!(ran.stderr.contains("a | {\"mt\":\"ready\"}\n"));
}

#[test]
fn no_job_can_be_found_by_number_after_its_end() {
    needs_cgroups!();
    let corner = Corner::new();
    let ran = corner.launch(&[job("a", GOOD)], &[]);
    let pid = ran.first(EventKind::Start).pid.unwrap();
    assert!(Identity::of(pid.cast_signed()).is_none_or(|p| !p.is_alive()));
}
