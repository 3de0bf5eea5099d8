//! The MPS guard against the fake control program: every way to start, attach and end.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use jobs::mps::{Mps, MpsError, MpsOptions, Ready};
use testkit::fakes::FakeMps;
use units::Share;

struct Bench {
    fake: FakeMps,
    root: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        Self {
            fake: FakeMps::install(),
            root: tempfile::tempdir().expect("a temporary folder"),
        }
    }

    fn options(&self) -> MpsOptions {
        MpsOptions {
            program: self.fake.control(),
            root: self.root.path().join("mps"),
            gpus: vec!["GPU-1".into()],
            timeout: Duration::from_millis(1500),
        }
    }

    fn runs(&self) -> usize {
        fs::read_dir(self.root.path().join("mps"))
            .map(|d| {
                d.filter(|e| e.as_ref().is_ok_and(|e| e.path().is_dir()))
                    .count()
            })
            .unwrap_or(0)
    }

    fn nothing_left(&self) {
        assert_eq!(FakeMps::processes_below(self.root.path()), [] as [i32; 0]);
        assert_eq!(self.runs(), 0, "run directories remain");
    }
}

struct Client {
    child: Child,
    _stdin: ChildStdin,
}

impl Client {
    fn start(bench: &Bench, mps: &Mps, share: f64, mode: &str) -> (Self, String) {
        let share = Share::from_percent(share).expect("a share");
        let mut child = Command::new(bench.fake.worker())
            .envs(mps.client_environment(share))
            .envs([
                ("FAKE_MODE", mode),
                ("MT_BATCH_SIZE", "8"),
                ("MT_POOL", "1"),
                ("MT_JOB_MARK", "test.0"),
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .expect("the fake worker starts");
        let stdin = child.stdin.take().expect("piped");
        let mut line = String::new();
        std::io::BufRead::read_line(
            &mut std::io::BufReader::new(child.stdout.take().expect("piped")),
            &mut line,
        )
        .expect("a line");
        let client = Self {
            child,
            _stdin: stdin,
        };
        (client, line.trim().to_owned())
    }

    fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn share(percent: f64) -> Share {
    Share::from_percent(percent).expect("a share")
}

#[test]
fn a_private_daemon_lives_as_long_as_its_guard() {
    let bench = Bench::new();
    let mps = Mps::start(&bench.options()).unwrap();
    let pipe = mps.control().pipe_dir().to_owned();
    for dir in [
        pipe.as_path(),
        pipe.parent().unwrap(),
        &bench.options().root,
    ] {
        let mode = fs::metadata(dir).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "{}", dir.display());
    }
    // The fake starts short-lived programs (mv) after it has already answered.
    let deadline = Instant::now() + Duration::from_secs(10);
    while FakeMps::processes_below(bench.root.path()).len() != 1 {
        assert!(Instant::now() < deadline, "more than the daemon, or none");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(
        bench
            .fake
            .commands()
            .contains("start CUDA_VISIBLE_DEVICES=GPU-1")
    );
    mps.stop().unwrap();
    bench.nothing_left();
    assert!(bench.fake.commands().contains("quit"));
}

#[test]
fn a_panic_leaves_nothing() {
    let bench = Bench::new();
    let options = bench.options();
    let seen = std::panic::catch_unwind(|| {
        let _mps = Mps::start(&options).unwrap();
        panic!("on purpose");
    });
    assert!(seen.is_err());
    bench.nothing_left();
}

#[test]
fn a_daemon_that_does_not_start_says_why() {
    for (knob, word) in [
        ("start_fails", "already running"),
        ("start_hangs", "background"),
        ("mute", "does not answer"),
    ] {
        let bench = Bench::new();
        bench.fake.set(knob, "");
        let error = Mps::start(&bench.options()).unwrap_err();
        assert!(matches!(error, MpsError::Start { .. }), "{error}");
        assert!(error.to_string().contains(word), "{error}");
        bench.nothing_left();
    }
}

#[test]
fn a_daemon_that_ignores_quit_is_ended() {
    let bench = Bench::new();
    bench.fake.set("quit_ignored", "");
    let mps = Mps::start(&bench.options()).unwrap();
    let (client, _) = Client::start(&bench, &mps, 50.0, "");
    mps.stop().unwrap();
    drop(client);
    bench.nothing_left();
}

#[test]
fn a_client_is_verified_with_its_sms() {
    let bench = Bench::new();
    let mps = Mps::start(&bench.options()).unwrap();
    let (client, line) = Client::start(&bench, &mps, 25.0, "");
    assert_eq!(line, r#"{"mt":"ready","mps":true,"sms":20}"#);
    let ready = Ready {
        mps: Some(true),
        sms: Some(20),
    };
    let got = mps
        .verify(client.pid(), ready, share(25.0), Some(80))
        .unwrap();
    assert_eq!(got.client, Some(client.pid()));
    assert_eq!(got.sms, Some(20));
    // A script that reports nothing is verified only by the daemon's list.
    assert!(
        mps.verify(client.pid(), Ready::default(), share(25.0), None)
            .is_ok()
    );
    drop(client);
    mps.stop().unwrap();
    bench.nothing_left();
}

#[test]
fn a_client_without_mps_or_share_is_refused() {
    let bench = Bench::new();
    let mps = Mps::start(&bench.options()).unwrap();
    let (missed, line) = Client::start(&bench, &mps, 25.0, "misses");
    assert_eq!(line, r#"{"mt":"ready","mps":false,"sms":80}"#);
    for mps_word in [Some(false), Some(true), None] {
        let ready = Ready {
            mps: mps_word,
            sms: None,
        };
        let error = mps
            .verify(missed.pid(), ready, share(25.0), None)
            .unwrap_err();
        assert!(matches!(error, MpsError::NotAttached { .. }), "{error}");
    }
    let (whole, _) = Client::start(&bench, &mps, 25.0, "whole");
    let ready = Ready {
        mps: Some(true),
        sms: Some(80),
    };
    let error = mps
        .verify(whole.pid(), ready, share(25.0), Some(80))
        .unwrap_err();
    assert!(matches!(error, MpsError::ShareNotApplied { .. }), "{error}");
    // At 99.5 % of 80 SMs the whole GPU is the correct rounding.
    assert!(
        mps.verify(whole.pid(), ready, share(99.5), Some(80))
            .is_ok()
    );
}

#[test]
fn a_late_percentage_changes_no_running_client() {
    let bench = Bench::new();
    let mps = Mps::start(&bench.options()).unwrap();
    let (_old, line) = Client::start(&bench, &mps, 25.0, "");
    assert!(line.contains("\"sms\":20"));
    // The percentage is part of a client's environment, so another share is another client.
    let (_new, line) = Client::start(&bench, &mps, 50.0, "");
    assert!(line.contains("\"sms\":40"));
    assert!(!bench.fake.commands().contains("set_"));
}

#[test]
fn a_failed_terminate_is_seen_in_spite_of_exit_zero() {
    let bench = Bench::new();
    let mps = Mps::start(&bench.options()).unwrap();
    let (mut client, _) = Client::start(&bench, &mps, 25.0, "");
    bench.fake.set("terminate_fails", "");
    let error = mps.terminate_group(client.pid()).unwrap_err();
    assert!(error.to_string().contains("Failed to terminate"), "{error}");
    bench.fake.unset("terminate_fails");
    mps.terminate_group(client.pid()).unwrap();
    client.child.wait().unwrap();
    assert!(!mps.clients().unwrap().contains(&client.pid()));
}

#[test]
fn a_fault_ends_when_its_clients_have_ended() {
    let bench = Bench::new();
    let mps = Mps::start(&bench.options()).unwrap();
    let (witness, _) = Client::start(&bench, &mps, 50.0, "");
    assert!(!mps.is_faulted().unwrap());
    fs::write(mps.control().pipe_dir().join("fake/status"), "FAULT").unwrap();
    assert!(mps.is_faulted().unwrap());
    let short = Duration::from_millis(200);
    assert!(matches!(
        mps.wait_recovered(short),
        Err(MpsError::Fault { .. })
    ));
    drop(witness);
    mps.wait_recovered(Duration::from_secs(5)).unwrap();
    assert!(!mps.is_faulted().unwrap());
}

#[test]
fn an_attached_daemon_is_never_stopped() {
    let bench = Bench::new();
    let theirs = Mps::start(&bench.options()).unwrap();
    let pipe = theirs.control().pipe_dir().to_owned();
    let ours = Mps::attach(&bench.options(), Some(pipe.clone())).unwrap();
    let (client, _) = Client::start(&bench, &ours, 25.0, "");
    assert!(
        ours.verify(client.pid(), Ready::default(), share(25.0), None)
            .is_ok()
    );
    drop(client);
    ours.stop().unwrap();
    assert!(!bench.fake.commands().contains("quit"));
    assert!(theirs.control().servers().is_ok());
    theirs.stop().unwrap();
    let error = Mps::attach(&bench.options(), Some(pipe)).unwrap_err();
    assert!(matches!(error, MpsError::NoDaemon { .. }), "{error}");
}

#[test]
fn a_daemon_that_speaks_v3_is_recognised_and_refused() {
    let bench = Bench::new();
    let pipe = bench.root.path().join("theirs");
    fs::create_dir(&pipe).unwrap();
    let control = |arguments: &[&str], version: Option<&str>| {
        let mut command = Command::new(bench.fake.control());
        command
            .args(arguments)
            .env("CUDA_MPS_PIPE_DIRECTORY", &pipe);
        command.envs(version.map(|version| ("CUDA_MPS_PROTOCOL_VERSION", version)));
        assert!(command.status().unwrap().success());
    };
    let quit = || {
        for pid in FakeMps::processes_below(bench.root.path()) {
            jobs::process::Identity::of(pid).unwrap().kill();
        }
        fs::remove_dir_all(pipe.join("fake")).unwrap();
    };
    let attach = || Mps::attach(&bench.options(), Some(pipe.clone()));
    control(&["-d", "-p", "3"], None);
    let error = attach().unwrap_err();
    assert!(matches!(error, MpsError::Protocol { .. }), "{error}");
    assert!(error.to_string().contains("-d -p 2"), "{error}");
    quit();
    control(&["-d"], Some("3"));
    assert!(matches!(attach(), Err(MpsError::Protocol { .. })));
    quit();
    control(&["-d", "-p", "3"], Some("2"));
    attach().unwrap();
    quit();
}

#[test]
fn a_root_that_is_too_long_for_sockets_is_refused_before_the_daemon_starts() {
    let bench = Bench::new();
    // A run adds "/run-" with six letters, "/pipe" and "/control_privileged" to its root: 35 bytes.
    let root_of = |length: usize| {
        let start = bench.root.path().join("r");
        let more = length - start.as_os_str().len();
        let name = format!("r{}", "x".repeat(more));
        bench.root.path().join(name)
    };
    let start = |length| {
        let root = root_of(length);
        Mps::start(&MpsOptions {
            root,
            ..bench.options()
        })
    };
    start(107 - 35).unwrap().stop().unwrap();
    let starts = || bench.fake.commands().matches("start ").count();
    let error = start(108 - 35).unwrap_err();
    assert!(matches!(error, MpsError::LongPath { .. }), "{error}");
    assert!(error.to_string().contains("108 bytes"), "{error}");
    assert_eq!(starts(), 1);
    let runs = fs::read_dir(root_of(108 - 35)).unwrap();
    assert_eq!(
        runs.filter(|e| e.as_ref().unwrap().path().is_dir()).count(),
        0
    );
}

#[test]
fn a_root_that_others_can_read_is_refused() {
    let bench = Bench::new();
    let root = bench.options().root;
    fs::create_dir(&root).unwrap();
    fs::set_permissions(&root, fs::Permissions::from_mode(0o755)).unwrap();
    let error = Mps::start(&bench.options()).unwrap_err();
    assert!(matches!(error, MpsError::NotPrivate { .. }), "{error}");
}

/// Not a test of its own: it is the process that the next test kills. Without its variable it does nothing.
#[test]
fn owner_for_the_next_test() {
    let Some(root) = std::env::var_os("MT_TEST_ROOT") else {
        return;
    };
    let program = std::env::var_os("MT_TEST_CONTROL").unwrap();
    let worker = std::env::var_os("MT_TEST_WORKER").unwrap();
    let options = MpsOptions {
        program: program.into(),
        root: root.into(),
        gpus: Vec::new(),
        timeout: Duration::from_secs(2),
    };
    let mps = Mps::start(&options).unwrap();
    let mut client = Command::new(worker)
        .envs(mps.client_environment(share(50.0)))
        .env("FAKE_MODE", "deaf")
        .env("MT_JOB_MARK", "test.0")
        .stdout(Stdio::null())
        .process_group(0)
        .spawn()
        .unwrap();
    while mps.clients().unwrap().is_empty() {
        std::thread::sleep(Duration::from_millis(10));
    }
    fs::write(Path::new(&options.root).join("up"), "").unwrap();
    // Killed long before this by the other test.
    std::thread::sleep(Duration::from_secs(60));
    client.kill().unwrap();
    client.wait().unwrap();
}

#[test]
fn what_a_killed_owner_left_is_cleaned_by_the_next_start() {
    let bench = Bench::new();
    let root = bench.options().root;
    let mut owner = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "mps::owner_for_the_next_test"])
        .envs([("MT_TEST_ROOT", root.as_path())])
        .env("MT_TEST_CONTROL", bench.fake.control())
        .env("MT_TEST_WORKER", bench.fake.worker())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while !root.join("up").exists() {
        assert!(Instant::now() < deadline, "the owner does not come up");
        std::thread::sleep(Duration::from_millis(20));
    }
    // While it lives, another start leaves it alone.
    let before = FakeMps::processes_below(bench.root.path());
    assert!(before.len() >= 3, "daemon, server, client: {before:?}");
    Mps::start(&bench.options()).unwrap().stop().unwrap();
    assert_eq!(bench.runs(), 1);
    owner.kill().unwrap();
    owner.wait().unwrap();
    let after = FakeMps::processes_below(bench.root.path());
    assert!(!after.is_empty(), "SIGKILL alone cleans nothing");
    Mps::start(&bench.options()).unwrap().stop().unwrap();
    bench.nothing_left();
}

#[test]
fn whoever_only_looks_at_the_daemon_lives_on() {
    let bench = Bench::new();
    let mps = Mps::start(&bench.options()).unwrap();
    // A shell with the daemon's variables exported, and what it starts.
    let mut looker = Command::new("sh")
        .args(["-c", "sleep 60 & echo; wait"])
        .envs(mps.client_environment(share(50.0)))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let stdout = looker.stdout.take().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line).unwrap();
    // A control program that prints the numbers of other processes.
    let mut foreign = Command::new("sleep").arg("60").spawn().unwrap();
    let server = mps.control().pipe_dir().join("fake/server.pid");
    fs::write(server, format!("{}\n", foreign.id())).unwrap();
    bench.fake.set("quit_ignored", "");
    mps.stop().unwrap();
    assert!(looker.try_wait().unwrap().is_none(), "the shell was ended");
    assert!(
        foreign.try_wait().unwrap().is_none(),
        "a printed number was killed"
    );
    // A control program that takes a moment to quit.
    let begun = Instant::now();
    let mut left = FakeMps::processes_below(bench.root.path());
    while left.len() > 2 && begun.elapsed() < Duration::from_secs(5) {
        std::thread::sleep(Duration::from_millis(20));
        left = FakeMps::processes_below(bench.root.path());
    }
    assert_eq!(left.len(), 2, "the shell and its child: {left:?}");
    for child in left.into_iter().chain([foreign.id().cast_signed()]) {
        let pid = nix::unistd::Pid::from_raw(child);
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).unwrap();
    }
    looker.wait().unwrap();
    foreign.wait().unwrap();
    assert_eq!(bench.runs(), 0);
}
