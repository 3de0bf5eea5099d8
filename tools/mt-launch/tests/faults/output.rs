//! Output of jobs: where it goes, and who may see it.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Stdio;
use std::time::Duration;

use doc::EventKind;
use nix::sys::signal::Signal;

use crate::support::{self, Corner, ENDLESS, GOOD, job, memory, needs_cgroups, signal};

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

#[test]
fn a_log_on_a_full_disk() {
    needs_cgroups!();
    let corner = Corner::new();
    fs::create_dir(corner.path("logs")).unwrap();
    if !std::path::Path::new("/dev/full").exists() {
        return;
    }
    // A link is refused, so the device itself replaces the disk.
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
fn a_reader_that_goes_ends_the_jobs_and_that_is_no_success() {
    needs_cgroups!();
    let corner = Corner::new();
    corner.plan(&[job("a", ENDLESS)]);
    let mut child = corner.command(&[]).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    corner.nothing_is_left();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("the reader of the events has gone"), "{said}");
}

#[test]
fn a_reader_that_stalls_holds_nothing_up() {
    needs_cgroups!();
    for follow in [false, true] {
        let corner = Corner::new();
        // More events than a pipe holds, and more output than the queue of the terminal.
        let often = ENDLESS.replace("sleep 0.02", "sleep 0.002");
        let loud = format!("{often} & yes | head -c 20000000; wait");
        corner.plan(&[job("a", &loud), job("b", ENDLESS)]);
        let mut arguments = vec!["--grace", "1"];
        if follow {
            arguments.push("--follow");
        }
        // Nobody reads the pipes until the end.
        let mut child = corner.command(&arguments).spawn().unwrap();
        std::thread::sleep(Duration::from_secs(5));
        let begun = std::time::Instant::now();
        signal(child.id(), Signal::SIGTERM);
        let deadline = begun + Duration::from_secs(20);
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            assert!(
                std::time::Instant::now() < deadline,
                "SIGTERM is not obeyed"
            );
            std::thread::sleep(Duration::from_millis(20));
        };
        let mut said = String::new();
        let stderr = child.stderr.take().unwrap();
        stderr.take(1 << 16).read_to_string(&mut said).unwrap();
        assert_eq!(status.code(), Some(143), "{said}");
        corner.nothing_is_left();
    }
}

#[test]
fn a_log_that_is_a_pipe_holds_nothing_up() {
    needs_cgroups!();
    let corner = Corner::new();
    fs::create_dir(corner.path("logs")).unwrap();
    nix::unistd::mkfifo(&corner.path("logs/a.log"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let ran = corner.launch(&[job("a", GOOD)], &["--logs", "logs", "--restarts", "0"]);
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.reasons(EventKind::Stop)
            .contains("cannot write the log")
    );
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
