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
