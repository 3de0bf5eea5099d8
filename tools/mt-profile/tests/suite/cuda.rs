//! The whole tool on the cuda device, with a fake driver, daemon and workers.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use testkit::fakes::FakeMps;

struct Bench {
    fake: FakeMps,
    root: tempfile::TempDir,
}

impl Bench {
    /// `None` where the fake driver cannot be built.
    fn new() -> Option<Self> {
        let fake = FakeMps::install();
        let root = tempfile::tempdir().expect("a temporary folder");
        fake.build_driver().then_some(Self { fake, root })
    }

    fn workload(&self) -> PathBuf {
        let task = |id: &str| {
            format!(
                r#"{{"id":"{id}","flops_per_sample":1e9,"bytes_per_sample":1e6,"batch_sizes":[8],
                "job":{{"argv":["fake-worker"],"pool":true}}}}"#
            )
        };
        let path = self.root.path().join("workload.json");
        let text = format!(
            r#"{{"schema":"mt.workload/1","device":{{"kind":"cuda"}},"tasks":[{},{}]}}"#,
            task("a"),
            task("b")
        );
        fs::write(&path, text).expect("the workload is written");
        path
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let path = std::env::var("PATH").unwrap_or_default();
        let folder = self.fake.folder().display();
        let mut command = Command::new(env!("CARGO_BIN_EXE_mt-profile"));
        command
            .args(arguments)
            .env("PATH", format!("{folder}:{path}"))
            .env("LD_LIBRARY_PATH", self.fake.folder())
            .env("TMPDIR", self.root.path())
            .stdin(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("the tool runs")
    }

    /// Starts a long profile, and waits until its workers exist.
    fn start_long(&self, more: &[&str]) -> Child {
        let workload = self.workload();
        let child = self
            .command(&["--window", "60", "--max-window", "60"])
            .args(more)
            .arg(workload)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the tool starts");
        let deadline = Instant::now() + Duration::from_secs(30);
        // A daemon, a server and a worker.
        while self.left().len() < 3 {
            assert!(Instant::now() < deadline, "no worker comes up");
            std::thread::sleep(Duration::from_millis(20));
        }
        child
    }

    fn left(&self) -> Vec<i32> {
        FakeMps::processes_below(self.root.path())
    }

    fn run_folders(&self) -> Vec<PathBuf> {
        let bases = fs::read_dir(self.root.path()).expect("the folder is there");
        bases
            .filter_map(|base| fs::read_dir(base.ok()?.path()).ok())
            .flatten()
            .filter_map(|entry| {
                let path = entry.ok()?.path();
                let name = path.file_name()?.to_string_lossy().into_owned();
                (path.is_dir() && name.starts_with("run-")).then_some(path)
            })
            .collect()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const SHORT: [&str; 6] = ["--window", "0.2", "--max-window", "0.2", "--budget", "7"];

#[test]
fn a_profile_is_measured_and_its_cost_told() {
    let Some(bench) = Bench::new() else { return };
    let workload = bench.workload();
    let output = bench.run(&[&SHORT[..], &[&workload.to_string_lossy()]].concat());
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{err}");
    assert!(out.contains(r#""kind":"cuda","name":"Fake GPU","simulated":false,"units":80"#));
    // Everything counts: each task alone, four pairs, and between them one task at a partial share.
    assert_eq!(
        out.matches(r#""samples_per_s""#).count(),
        2 + 2 * 4 + 1,
        "{out}"
    );
    assert!(err.contains("workers started for the pool at"), "{err}");
    // The fake of NVML is missing, or another test's loader finds a real one.
    assert!(
        out.contains(r#""gpu":{"#) != err.contains("NVML does not report how the GPU was used"),
        "{err}"
    );
    assert_eq!(bench.left(), [] as [i32; 0]);
    assert_eq!(bench.run_folders(), [] as [PathBuf; 0]);
}

#[test]
fn how_the_gpu_is_used_stands_beside_every_sample() {
    let Some(bench) = Bench::new() else { return };
    if !bench.fake.build_nvml() {
        return;
    }
    let path = bench.workload();
    let workload = path.to_string_lossy();
    let arguments = [&SHORT[..], &[&*workload]].concat();
    for (gpm, counters) in [
        (
            true,
            r#""sm_active_percent":60.0,"sm_occupancy_percent":25.0,"#,
        ),
        (false, ""),
    ] {
        let mut command = bench.command(&arguments);
        if !gpm {
            command.env("FAKE_NO_GPM", "1");
        }
        let output = command.output().expect("the tool runs");
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{err}");
        let samples: Vec<&str> = out
            .lines()
            .filter(|l| l.contains("\"record\":\"sample\""))
            .collect();
        assert!(samples.len() >= 6, "{out}");
        for sample in samples {
            let tasks = sample.matches("\"batch\":").count();
            let (_, gpu) = sample
                .split_once(r#""gpu":{"utilisation_percent":"#)
                .expect(sample);
            let (utilisation, gpu) = gpu.split_once(',').expect(sample);
            let utilisation: f64 = utilisation.parse().expect(sample);
            assert!((75.0..=100.0).contains(&utilisation), "{sample}");
            let memory = vec!["1073741824"; tasks].join(",");
            let expected = format!(
                r#"{counters}"memory_bytes":21474836480,"tasks_memory_bytes":[{memory}]}}}}"#
            );
            assert_eq!(gpu, expected, "{sample}");
        }
        assert!(!err.contains("NVML"), "{err}");
    }
}

#[test]
fn the_gpu_is_listed() {
    let Some(bench) = Bench::new() else { return };
    let metered = bench.fake.build_nvml();
    let output = bench.run(&["--list-devices"]);
    let out = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0));
    let uuid = r#""uuid":"GPU-abababab-abab-abab-abab-abababababab""#;
    assert!(
        out.contains(uuid) && out.contains(r#""mps_clients":48"#),
        "{out}"
    );
    let now = r#""used_bytes":21474836480,"utilisation_percent":40"#;
    assert_eq!(out.contains(now), metered, "{out}");
}

#[test]
fn without_mps_it_says_so_and_ends_with_3() {
    let Some(bench) = Bench::new() else { return };
    fs::remove_file(bench.fake.control()).unwrap();
    let workload = bench.workload();
    let output = bench.run(&[&workload.to_string_lossy()]);
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{err}");
    assert!(
        err.contains("nvidia-cuda-mps-control is not on PATH"),
        "{err}"
    );
    assert!(output.stdout.is_empty());
}

#[test]
fn what_sigkill_leaves_is_cleaned_by_the_next_start() {
    let Some(bench) = Bench::new() else { return };
    let mut child = bench.start_long(&[]);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!bench.left().is_empty(), "the daemon outlives its owner");
    let workload = bench.workload();
    let output = bench.run(&[&SHORT[..], &[&workload.to_string_lossy()]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(bench.left(), [] as [i32; 0]);
    assert_eq!(bench.run_folders(), [] as [PathBuf; 0]);
}

/// The guard does not need another start.
#[test]
fn what_sigkill_or_sighup_leaves_goes_by_itself() {
    for signal in [Signal::SIGKILL, Signal::SIGHUP] {
        let Some(bench) = Bench::new() else { return };
        let mut child = bench.start_long(&[]);
        let pid = nix::unistd::Pid::from_raw(child.id().cast_signed());
        kill(pid, signal).unwrap();
        child.wait().unwrap();
        let deadline = Instant::now() + Duration::from_secs(30);
        while !(bench.left().is_empty() && bench.run_folders().is_empty()) {
            let left = (bench.left(), bench.run_folders());
            assert!(Instant::now() < deadline, "{signal}: {left:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn two_profilers_on_one_device_are_told_of_each_other() {
    let Some(bench) = Bench::new() else { return };
    let mut first = bench.start_long(&[]);
    let workload = bench.workload();
    let output = bench.run(&[&SHORT[..], &[&workload.to_string_lossy()]].concat());
    let err = text(&output.stderr);
    let pid = nix::unistd::Pid::from_raw(first.id().cast_signed());
    kill(pid, Signal::SIGTERM).unwrap();
    assert_eq!(first.wait().unwrap().code(), Some(143));
    let named = format!("mt-profile (process {pid}) uses the same device");
    assert!(err.contains(&named), "{err}");
}

#[test]
fn after_ctrl_c_nothing_is_left() {
    let Some(bench) = Bench::new() else { return };
    let mut child = bench.start_long(&[]);
    let pid = nix::unistd::Pid::from_raw(child.id().cast_signed());
    kill(pid, Signal::SIGINT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(bench.left(), [] as [i32; 0]);
    assert_eq!(bench.run_folders(), [] as [PathBuf; 0]);
}

#[test]
fn a_daemon_attached_to_is_used_and_left_alone() {
    let Some(bench) = Bench::new() else { return };
    let workload = bench.workload().to_string_lossy().into_owned();
    let pipe = bench.root.path().join("theirs");
    fs::create_dir(&pipe).unwrap();
    let arguments = [&SHORT[..], &["--attach-mps", &workload]].concat();
    let attach = |bench: &Bench| {
        let mut command = bench.command(&arguments);
        command.env("CUDA_MPS_PIPE_DIRECTORY", &pipe);
        command.output().unwrap()
    };
    let output = attach(&bench);
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{err}");
    assert!(err.contains("no MPS daemon answers at"), "{err}");
    let started = Command::new(bench.fake.control())
        .arg("-d")
        .env("CUDA_MPS_PIPE_DIRECTORY", &pipe)
        .status();
    assert!(started.unwrap().success());
    let output = attach(&bench);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(!bench.fake.commands().contains("quit"));
    // The daemon still exists, the workers do not. Its server ends with the client's control group, if there is one,
    // because the stand-in starts it from there; a real daemon starts it itself.
    assert!((1..=2).contains(&bench.left().len()));
    for pid in bench.left() {
        kill(nix::unistd::Pid::from_raw(pid), Signal::SIGKILL).unwrap();
    }
}

#[test]
fn workers_are_pinned_as_told() {
    let Some(bench) = Bench::new() else { return };
    let mut child = bench.start_long(&["--cpus", "0"]);
    let workers = || -> Vec<String> {
        let of = |pid: i32, file| fs::read_to_string(format!("/proc/{pid}/{file}")).ok();
        let is_worker = |pid: &i32| of(*pid, "comm").is_some_and(|n| n.trim() == "fake-worker");
        let cpus = |pid| {
            let status = of(pid, "status")?;
            let line = status
                .lines()
                .find(|l| l.starts_with("Cpus_allowed_list"))?;
            Some(line.split_whitespace().last()?.to_owned())
        };
        let left = bench.left().into_iter().filter(is_worker);
        left.filter_map(cpus).collect()
    };
    let deadline = Instant::now() + Duration::from_secs(30);
    let mut allowed = workers();
    while allowed.is_empty() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
        allowed = workers();
    }
    let pid = nix::unistd::Pid::from_raw(child.id().cast_signed());
    kill(pid, Signal::SIGINT).unwrap();
    child.wait().unwrap();
    assert!(
        !allowed.is_empty() && allowed.iter().all(|a| a == "0"),
        "{allowed:?}"
    );
    let output = bench.run(&["--cpus", "most", "workload.json"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("auto"),
        "{}",
        text(&output.stderr)
    );
}
