//! Ctrl-C ends a profile after a record, with its exit code, and the profile can be continued.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const WORKLOAD: &str = r#"{"schema":"mt.workload/1","device":{"kind":"sim"},"tasks":[
    {"id":"a","model":"resnet101","batch_sizes":[32]},
    {"id":"b","model":"densenet121","batch_sizes":[32]},
    {"id":"c","model":"resnet50","batch_sizes":[32]}]}"#;

#[test]
fn an_interrupted_profile_is_a_valid_prefix_and_goes_on() {
    for (signal, code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143)] {
        let folder = tempfile::tempdir().unwrap();
        let (workload, profile) = (folder.path().join("w"), folder.path().join("p"));
        fs::write(&workload, WORKLOAD).unwrap();
        let tool = |budget: &str| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_mt-profile"));
            command
                .args(["--design", "random", "--budget", budget, "--window", "20"])
                .arg("--resume")
                .arg(&profile)
                .arg("-o")
                .arg(&profile)
                .arg(&workload);
            command
        };
        let mut child = tool("100000").spawn().unwrap();
        let deadline = Instant::now() + Duration::from_secs(30);
        while fs::read_to_string(&profile).map_or(0, |p| p.lines().count()) < 6 {
            assert!(Instant::now() < deadline, "nothing is written");
            std::thread::sleep(Duration::from_millis(5));
        }
        kill(Pid::from_raw(child.id().cast_signed()), signal).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(code));
        let prefix = fs::read_to_string(&profile).unwrap();
        assert!(prefix.ends_with("}\n"));
        assert!(!prefix.contains("\"end\""));
        let done = prefix.lines().count() - 1 - 3;
        let more = (done + 2).to_string();
        assert!(tool(&more).status().unwrap().success());
        let whole = fs::read_to_string(&profile).unwrap();
        assert!(whole.starts_with(&prefix));
        assert_eq!(whole.lines().count(), done + 2 + 3 + 2);
    }
}

/// Jobs on this machine's processors that leave a helper behind.
const REAL: &str = r#"{"schema":"mt.workload/1","device":{"kind":"cpu"},"tasks":[
    {"id":"a","batch_sizes":[8],"flops_per_sample":1e6,"bytes_per_sample":1e6,
     "job":{"argv":["sh","-c","sleep 600 & env -i FOLDER=$FOLDER setsid sleep 600 & echo '{\"mt\":\"ready\"}'; while :; do echo '{\"mt\":\"step\",\"samples\":8}'; sleep 0.02; done"],
            "env":{"FOLDER":"@"}}}]}"#;

#[test]
fn a_profiler_that_is_killed_or_loses_its_terminal_leaves_nothing() {
    for signal in [Signal::SIGKILL, Signal::SIGHUP] {
        let folder = tempfile::tempdir().unwrap();
        let name = folder.path().display().to_string();
        let workload = folder.path().join("w");
        fs::write(&workload, REAL.replace('@', &name)).unwrap();
        let mark = format!("FOLDER={name}");
        let left = || jobs::process::with_variable(|v| v == mark.as_bytes()).len();
        let runs = || {
            let mut entries = fs::read_dir(folder.path()).unwrap().flatten();
            let base = entries.find(|e| e.file_name().to_string_lossy().starts_with("mt-tools-"));
            base.map_or(0, |b| {
                let all = fs::read_dir(b.path()).unwrap().flatten();
                all.filter(|e| e.path().is_dir()).count()
            })
        };
        let mut child = Command::new(env!("CARGO_BIN_EXE_mt-profile"))
            .arg(&workload)
            .arg("-o")
            .arg(folder.path().join("p"))
            .env("TMPDIR", folder.path())
            .spawn()
            .unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        while left() < 3 {
            if let Some(status) = child.try_wait().unwrap() {
                assert_eq!(status.code(), Some(3), "{status}");
                testkit::skipped("cgroups", "no control group can be written");
                return;
            }
            assert!(Instant::now() < deadline, "no job starts");
            std::thread::sleep(Duration::from_millis(10));
        }
        kill(Pid::from_raw(child.id().cast_signed()), signal).unwrap();
        let status = child.wait().unwrap();
        if signal == Signal::SIGHUP {
            assert_eq!(status.code(), Some(129));
        }
        let deadline = Instant::now() + Duration::from_secs(30);
        while left() > 0 || runs() > 0 {
            assert!(Instant::now() < deadline, "{} {}", left(), runs());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
