//! `mt-launch exec`: the program replaces this process, and leaves nothing behind.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use testkit::fakes::FakeMps;

use crate::support::{Corner, has_cgroups, job};

/// `mt-launch exec` with the plan of a corner.
pub fn exec(corner: &Corner, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mt-launch"));
    command
        .arg("exec")
        .arg("--runs")
        .arg(corner.path("runs"))
        .args(arguments)
        .env("CORNER", corner.mark())
        .env("MT_PLAN", corner.path("plan.json"))
        .env("TMPDIR", corner.dir.path())
        .current_dir(corner.dir.path())
        .stdin(Stdio::null());
    command
}

/// Waits until the attendant has cleaned up.
pub fn nothing_remains(corner: &Corner) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while corner.processes() > 0 || !corner.run_dirs().is_empty() {
        assert!(Instant::now() < deadline, "{:?}", corner.run_dirs());
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub fn wait_for(path: &Path) -> String {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        match fs::read_to_string(path) {
            Ok(text) if text.ends_with('\n') => return text,
            _ => assert!(Instant::now() < deadline, "no {}", path.display()),
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_program_is_this_process_under_its_quota() {
    if !has_cgroups() {
        return;
    }
    let corner = Corner::new();
    corner.plan(&[job("a", "true"), job("b", "true")]);
    let script = "echo $$ $MT_TASK $MT_BATCH_SIZE $MT_SHARE_PERCENT $MT_ROUND $MT_SAMPLES $OWN; pwd; \
                  cat /proc/self/cgroup; ls -d mt-* 2>/dev/null; echo err >&2; exit 7";
    let child = exec(
        &corner,
        &["--task", "b", "--round", "3", "--", "sh", "-c", script],
    )
    .env("OWN", "kept")
    .stdout(Stdio::piped())
    .stderr(Stdio::piped())
    .spawn()
    .unwrap();
    let pid = child.id();
    let output = child.wait_with_output().unwrap();
    let out = text(&output.stdout);
    assert!(
        out.starts_with(&format!("{pid} b 10 20 3 30 kept\n")),
        "{out}"
    );
    assert!(
        out.contains(&format!("{}\n", corner.dir.path().display())),
        "{out}"
    );
    assert!(out.contains("/b\n"), "not in the group of its task: {out}");
    assert_eq!(text(&output.stderr), "err\n");
    assert_eq!(output.status.code(), Some(7));
    nothing_remains(&corner);
}

/// A program with a daemon that has left its session; it writes both process numbers.
const WITH_DAEMON: &str = "setsid sleep 600 & echo $! $$ > pids; wait";

#[test]
fn what_a_killed_program_leaves_is_put_away() {
    if !has_cgroups() {
        return;
    }
    for (signal, with_log) in [(9, false), (15, false), (9, true), (15, true)] {
        let corner = Corner::new();
        let mut arguments = vec!["--share", "50", "--device", "cpu"];
        if with_log {
            arguments.extend(["--log", "log.ndjson"]);
        }
        arguments.extend(["sh", "-c", WITH_DAEMON]);
        let mut child = exec(&corner, &arguments).spawn().unwrap();
        wait_for(&corner.path("pids"));
        assert_eq!(corner.run_dirs().len(), 1);
        let groups = groups(&corner);
        assert!(!groups.is_empty() && groups.iter().all(|g| g.exists()));
        let pid = nix::unistd::Pid::from_raw(child.id().cast_signed());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::try_from(signal).unwrap()).unwrap();
        let status = ended(&mut child);
        // With a log, the tool itself ends with the signal's number, as a shell reports it.
        let ended = status.signal().or(status.code().map(|code| code - 128));
        assert_eq!(ended, Some(signal), "{status:?}");
        nothing_remains(&corner);
        assert!(groups.iter().all(|g| !g.exists()), "{groups:?}");
    }
}

pub fn ended(child: &mut Child) -> std::process::ExitStatus {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        assert!(Instant::now() < deadline, "still running");
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub fn groups(corner: &Corner) -> Vec<PathBuf> {
    Corner::cgroups(&corner.run_dirs())
}

#[test]
fn the_log_says_what_was_predicted_and_what_came_out() {
    if !has_cgroups() {
        return;
    }
    let corner = Corner::new();
    corner.plan(&[job("a", "true")]);
    let script = r#"echo before; for i in 1 2 3 4 5; do
        echo '{"mt":"step","samples":10}'; sleep 0.1; done; exit 3"#;
    for _ in 0..2 {
        let arguments = ["--task", "a", "--log", "log.ndjson", "sh", "-c", script];
        let output = exec(&corner, &arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
        assert_eq!(text(&output.stdout).lines().count(), 6);
    }
    let log = corner.log("log.ndjson");
    assert_eq!(log.lines().count(), 2);
    let line: serde_json::Value = serde_json::from_str(log.lines().next().unwrap()).unwrap();
    for (field, wanted) in [
        ("task", "\"a\""),
        ("samples", "50"),
        ("status", "3"),
        ("batch", "10"),
    ] {
        assert_eq!(line[field].to_string(), wanted, "{line}");
    }
    // Four steps after the first, in 0.4 s. A loaded machine may delay them, or the first one, which is then read
    // late.
    let rate = line["samples_per_s"].as_f64().unwrap();
    assert!((20.0..=200.0).contains(&rate), "{line}");
    nothing_remains(&corner);
}

#[test]
fn a_log_is_appended_to_nothing_but_a_log() {
    let corner = Corner::new();
    let run = r#"{"schema":"mt.run/1","event":"launch","time_s":0}"#;
    fs::write(corner.path("notes"), "three lines\nof mine\n").unwrap();
    fs::write(corner.path("run.ndjson"), format!("{run}\n")).unwrap();
    fs::write(corner.path("zeros"), vec![0; 1 << 20]).unwrap();
    nix::unistd::mkfifo(&corner.path("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    for name in ["notes", "run.ndjson", "zeros", "pipe"] {
        let path = corner.path(name);
        let before = (name != "pipe").then(|| fs::read(&path).unwrap());
        let arguments = ["--share", "5", "--device", "cpu", "--log", name, "true"];
        let output = exec(&corner, &arguments).output().unwrap();
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{name}: {told}");
        assert!(told.contains(name), "{told}");
        assert_eq!(before, (name != "pipe").then(|| fs::read(&path).unwrap()));
    }
    nothing_remains(&corner);
}

#[test]
fn a_program_that_is_none_is_told_as_env_does() {
    if !has_cgroups() {
        return;
    }
    let corner = Corner::new();
    fs::write(corner.path("data"), "").unwrap();
    for (program, code) in [("no-such-program", 127), ("./data", 126)] {
        let output = exec(&corner, &["--share", "5", "--device", "cpu", program])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(code));
        assert!(text(&output.stderr).contains(program));
        nothing_remains(&corner);
    }
}

/// A machine with a fake GPU.
pub struct Machine {
    pub corner: Corner,
    pub fake: FakeMps,
}

impl Machine {
    pub fn new() -> Option<Self> {
        let fake = FakeMps::install();
        fake.build_driver().then(|| Self {
            corner: Corner::new(),
            fake,
        })
    }

    pub fn exec(&self, arguments: &[&str]) -> Command {
        let path = std::env::var("PATH").unwrap();
        let mut command = exec(&self.corner, arguments);
        command
            .env("PATH", format!("{}:{path}", self.fake.folder().display()))
            .env("LD_LIBRARY_PATH", self.fake.folder())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// A client that runs until the file `go` exists; returns when it is a client.
    pub fn client(&self, name: &str, arguments: &[&str]) -> Child {
        let connect = format!(
            "{} --connect $$ > {name}; env | grep ^CUDA_ >> {name}; echo end >> {name}; \
             until [ -f go ]; do sleep 0.02; done",
            self.fake.control().display()
        );
        let mut all = arguments.to_vec();
        all.extend(["sh", "-c", &connect]);
        let child = self.exec(&all).spawn().unwrap();
        let deadline = Instant::now() + Duration::from_secs(30);
        while !self.corner.log(name).ends_with("end\n") {
            assert!(Instant::now() < deadline, "{}", self.corner.log(name));
            std::thread::sleep(Duration::from_millis(10));
        }
        child
    }

    pub fn daemons(&self) -> usize {
        self.fake
            .commands()
            .lines()
            .filter(|l| l.starts_with("start"))
            .count()
    }

    pub fn go(&self) {
        fs::write(self.corner.path("go"), "").unwrap();
    }

    /// Neither the daemon nor its directory remains.
    pub fn no_daemon(&self) {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let left = FakeMps::processes_below(self.corner.dir.path());
            let dirs = fs::read_dir(self.mps())
                .unwrap()
                .flatten()
                .filter(|e| e.path().is_dir());
            if left.is_empty() && dirs.count() == 0 {
                return;
            }
            assert!(Instant::now() < deadline, "{left:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn mps(&self) -> PathBuf {
        let user = nix::unistd::getuid();
        self.corner.path(&format!("mt-mps-{user}"))
    }
}

pub fn done(child: Child) -> Output {
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    output
}

pub const ON_GPU: [&str; 2] = ["--device", "cuda"];

#[test]
fn programs_share_one_daemon_that_ends_with_the_last() {
    let Some(machine) = Machine::new() else {
        return;
    };
    let first = machine.client(
        "first",
        &[&ON_GPU[..], &["--share", "60", "--memory", "8G"]].concat(),
    );
    let second = machine.client("second", &[&ON_GPU[..], &["--share", "70"]].concat());
    assert_eq!(machine.daemons(), 1, "{}", machine.fake.commands());
    let told = machine.corner.log("first");
    assert!(told.starts_with("60\n"), "{told}");
    assert!(
        told.contains("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=8192M\n"),
        "{told}"
    );
    assert!(told.contains("CUDA_VISIBLE_DEVICES=GPU-abababab"), "{told}");
    assert!(machine.corner.log("second").starts_with("70\n"));
    // A killed client counts as leaving, like one that ends.
    let pid = nix::unistd::Pid::from_raw(first.id().cast_signed());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).unwrap();
    assert_eq!(first.wait_with_output().unwrap().status.signal(), Some(9));
    let third = machine.client("third", &[&ON_GPU[..], &["--share", "10"]].concat());
    assert_eq!(machine.daemons(), 1);
    machine.go();
    done(second);
    done(third);
    machine.no_daemon();
    nothing_remains(&machine.corner);
}

#[test]
fn starts_at_once_start_one_daemon() {
    let Some(machine) = Machine::new() else {
        return;
    };
    let arguments = [&ON_GPU[..], &["--share", "20", "sh", "-c", "sleep 1"]].concat();
    let all: Vec<Child> = (0..6)
        .map(|_| machine.exec(&arguments).spawn().unwrap())
        .collect();
    all.into_iter().for_each(|child| {
        done(child);
    });
    assert_eq!(machine.daemons(), 1, "{}", machine.fake.commands());
    machine.no_daemon();
}

#[test]
fn a_daemon_that_is_named_is_used_and_stays() {
    let Some(machine) = Machine::new() else {
        return;
    };
    let pipe = machine.corner.path("site");
    let control = |arguments: &[&str]| {
        let mut command = Command::new(machine.fake.control());
        command
            .args(arguments)
            .env("CUDA_MPS_PIPE_DIRECTORY", &pipe)
            .stdin(Stdio::piped());
        command
    };
    assert!(control(&["-d"]).status().unwrap().success());
    let arguments = [&ON_GPU[..], &["--share", "30", "sh", "-c", "env"]].concat();
    let output = machine
        .exec(&arguments)
        .env("CUDA_MPS_PIPE_DIRECTORY", &pipe)
        .output()
        .unwrap();
    let out = text(&output.stdout);
    assert!(
        out.contains(&format!("CUDA_MPS_PIPE_DIRECTORY={}\n", pipe.display())),
        "{out}"
    );
    assert!(
        out.contains("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=30\n"),
        "{out}"
    );
    assert_eq!(machine.daemons(), 1);
    nothing_remains(&machine.corner);
    // It still answers.
    let mut asked = control(&[]).stdout(Stdio::null()).spawn().unwrap();
    use std::io::Write as _;
    asked
        .stdin
        .take()
        .unwrap()
        .write_all(b"get_server_list\n")
        .unwrap();
    assert!(asked.wait().unwrap().success());
    let mut quit = control(&[]).spawn().unwrap();
    quit.stdin.take().unwrap().write_all(b"quit\n").unwrap();
    quit.wait().unwrap();
}

#[test]
fn a_daemon_that_cannot_be_reached_is_told_before_the_program_starts() {
    let Some(machine) = Machine::new() else {
        return;
    };
    let arguments = [&ON_GPU[..], &["--share", "30", "touch", "started"]].concat();
    let cases: [(&str, &str, &str); 2] = [
        (
            "CUDA_MPS_PIPE_DIRECTORY",
            "/nowhere",
            "no MPS daemon answers at /nowhere",
        ),
        ("FAKE_MISSES", "1", "would not be a client"),
    ];
    for (name, value, said) in cases {
        let output = machine.exec(&arguments).env(name, value).output().unwrap();
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{error}");
        assert!(error.contains(said), "{error}");
        assert!(!machine.corner.path("started").exists());
        nothing_remains(&machine.corner);
    }
    machine.no_daemon();
}

#[test]
fn a_launch_with_a_daemon_of_its_own_keeps_the_gpu() {
    let Some(machine) = Machine::new() else {
        return;
    };
    let root = machine.mps();
    let own = jobs::mps::Mps::start(&jobs::mps::MpsOptions {
        program: machine.fake.control(),
        root,
        gpus: vec!["GPU-abababab-abab-abab-abab-abababababab".to_owned()],
        timeout: Duration::from_secs(5),
    })
    .unwrap();
    let arguments = [&ON_GPU[..], &["--share", "30", "true"]].concat();
    let output = machine.exec(&arguments).output().unwrap();
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{error}");
    assert!(
        error.contains(&format!("process {}", std::process::id())),
        "{error}"
    );
    assert_eq!(machine.daemons(), 1);
    own.stop().unwrap();
    done(machine.exec(&arguments).spawn().unwrap());
    machine.no_daemon();
}

#[test]
fn a_log_on_a_full_disk_loses_no_status() {
    if !has_cgroups() {
        return;
    }
    let corner = Corner::new();
    let arguments = [
        "--device",
        "cpu",
        "--share",
        "20",
        "--log",
        "/dev/full",
        "--",
    ];
    for (script, code) in [("exit 5", 5), ("kill -11 $$", 128 + 11)] {
        let mut command = exec(&corner, &arguments);
        let output = command.args(["sh", "-c", script]).output().unwrap();
        let err = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{err}");
        assert!(err.contains("warning: --log has no line"), "{err}");
        nothing_remains(&corner);
    }
}

#[test]
fn programs_in_programs_leave_nothing() {
    if !has_cgroups() {
        return;
    }
    let corner = Corner::new();
    let tool = env!("CARGO_BIN_EXE_mt-launch");
    let runs = corner.path("runs");
    let inner = [
        tool,
        "exec",
        "--device",
        "cpu",
        "--share",
        "50",
        "--runs",
        runs.to_str().unwrap(),
        "--",
    ];
    for depth in [1, 4] {
        let mut arguments = vec!["--device", "cpu", "--share", "50", "--"];
        for _ in 0..depth {
            arguments.extend(inner);
        }
        arguments.extend(["sh", "-c", "setsid sleep 100 & sleep 0.2; exit 4"]);
        let output = exec(&corner, &arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(4), "{}", text(&output.stderr));
        nothing_remains(&corner);
    }
}

#[test]
fn a_limit_of_processes_is_named_and_leaves_nothing() {
    let parent = Path::new("/sys/fs/cgroup/pids");
    let group = parent.join(format!("mt-test-{}", std::process::id()));
    if !has_cgroups() || !parent.exists() || fs::create_dir(&group).is_err() {
        return testkit::skipped("pids", "no group of processes can be limited");
    }
    fs::write(group.join("pids.max"), "1").unwrap();
    let corner = Corner::new();
    let script = format!(
        "echo 0 > {}/cgroup.procs; exec {} exec --runs {} --device cpu --share 50 -- true",
        group.display(),
        env!("CARGO_BIN_EXE_mt-launch"),
        corner.path("runs").display()
    );
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{err}");
    assert!(err.contains("pids.max"), "{err}");
    assert_eq!(corner.run_dirs(), Vec::<PathBuf>::new());
    fs::remove_dir(&group).unwrap();
}
