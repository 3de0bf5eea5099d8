//! Launches in a private folder, and checks of what they leave behind.
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use doc::{EventKind, PhaseKind};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::Deserialize;

/// A folder with a plan, and its own run directories and logs.
pub struct Corner {
    pub dir: tempfile::TempDir,
    mark: String,
}

/// One task: name and `sh` script of its compute phase.
pub struct ScriptedTask {
    pub id: &'static str,
    pub script: String,
    pub download: Vec<String>,
    pub upload: Vec<String>,
    pub resume: String,
    pub samples: u64,
    pub share: f64,
    pub regex: Option<&'static str>,
    pub silent: bool,
}

/// A job that trains `samples` samples in steps of 10.
pub fn job(id: &'static str, script: &str) -> ScriptedTask {
    ScriptedTask {
        id,
        script: script.to_owned(),
        download: Vec::new(),
        upload: Vec::new(),
        resume: String::new(),
        samples: 30,
        share: 20.0,
        regex: None,
        silent: false,
    }
}

/// A script that trains according to its environment.
pub const GOOD: &str = r#"echo '{"mt":"ready"}'; n=0
while [ $n -lt $MT_SAMPLES ]; do n=$((n+10)); echo '{"mt":"step","samples":10,"loss":0.5}'; done
echo '{"mt":"done","samples":'$n'}'"#;

/// A script that says it is ready and continues for ever.
pub const ENDLESS: &str = r#"echo '{"mt":"ready"}'
while :; do echo '{"mt":"step","samples":1}'; sleep 0.02; done"#;

/// An event in the output, without fields that no test uses.
#[derive(Debug, Deserialize)]
pub struct RunEvent {
    pub event: EventKind,
    pub time_s: f64,
    pub round: Option<u32>,
    pub task: Option<String>,
    pub share_percent: Option<f64>,
    pub pid: Option<u32>,
    pub samples: Option<u64>,
    pub phase: Option<PhaseKind>,
    pub start_s: Option<f64>,
    pub end_s: Option<f64>,
    pub code: Option<i32>,
    pub signal: Option<i32>,
    pub restarts: Option<u32>,
    pub reason: Option<String>,
    pub ok: Option<bool>,
    pub makespan_s: Option<f64>,
    #[serde(default)]
    pub tasks: Vec<TaskSummary>,
}

/// Outcome of a task in the output.
#[derive(Debug, Deserialize)]
pub struct TaskSummary {
    pub finished: bool,
    #[serde(default)]
    pub interrupted: bool,
    pub samples: u64,
    pub last_loss: Option<f64>,
    pub restarts: u32,
    pub code: Option<i32>,
}

pub struct Ran {
    pub events: Vec<RunEvent>,
    pub code: Option<i32>,
    pub stderr: String,
}

fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

fn list(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|w| quoted(w)).collect();
    format!("[{}]", words.join(","))
}

impl Corner {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mark = format!("corner{}", dir.path().display());
        Self { dir, mark }
    }

    /// Value of the variable CORNER of every process of this folder.
    pub fn mark(&self) -> &str {
        &self.mark
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes a plan of jobs; each of their processes has this folder's mark.
    pub fn plan(&self, jobs: &[ScriptedTask]) -> PathBuf {
        let mut planned = Vec::new();
        let mut tasks = Vec::new();
        for job in jobs {
            let ScriptedTask {
                id, samples, share, ..
            } = job;
            planned.push(format!(
                r#"{{"id":"{id}","batch":10,"share_percent":{share},"samples":{samples}}}"#
            ));
            let shell = |script: &str| {
                if script.is_empty() {
                    "[]".to_owned()
                } else {
                    list(&["sh".to_owned(), "-c".to_owned(), script.to_owned()])
                }
            };
            let progress = match job.regex {
                Some(regex) => format!(r#","progress":{{"regex":{}}}"#, quoted(regex)),
                None if job.silent => r#","progress":{"none":true}"#.to_owned(),
                None => String::new(),
            };
            tasks.push(format!(
                r#"{{"id":"{id}","batch_sizes":[10],"job":{{"argv":{},"download":{},"upload":{},
                   "resume":{},"env":{{"CORNER":{}}}{progress}}}}}"#,
                shell(&job.script),
                list(&job.download),
                list(&job.upload),
                shell(&job.resume),
                quoted(&self.mark),
            ));
        }
        let text = format!(
            r#"{{"schema":"mt.plan/1","tasks":[{}],"workload":{{"schema":"mt.workload/1",
               "device":{{"kind":"cpu"}},"tasks":[{}]}}}}"#,
            planned.join(","),
            tasks.join(",")
        );
        let path = self.path("plan.json");
        fs::write(&path, text).unwrap();
        path
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mt-launch"));
        // Other variables in the environment of the tests would be reported as not passed on.
        let needed =
            |name: &str| name.starts_with("MT_") || ["PATH", "HOME", "TMPDIR"].contains(&name);
        let kept = std::env::vars().filter(|(name, _)| needed(name));
        command.env_clear().envs(kept);
        for (name, value) in [
            ("--backoff", "0.05"),
            ("--grace", "2"),
            ("--progress-every", "0"),
        ] {
            if !arguments.contains(&name) {
                command.args([name, value]);
            }
        }
        command
            .arg("--runs")
            .arg(self.path("runs"))
            .args(arguments)
            .arg(self.path("plan.json"))
            .current_dir(self.dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Launches jobs to their end and checks that nothing is left.
    pub fn launch(&self, jobs: &[ScriptedTask], arguments: &[&str]) -> Ran {
        self.plan(jobs);
        let ran = ran(self.command(arguments).output().unwrap());
        self.nothing_is_left();
        ran
    }

    /// Starts a launch and waits until an event of a kind has been written.
    pub fn start(&self, jobs: &[ScriptedTask], arguments: &[&str], until: EventKind) -> Child {
        self.plan(jobs);
        self.spawn(self.command(arguments), until)
    }

    /// Like [`Corner::start`], with the caller's command.
    pub fn spawn(&self, mut command: Command, until: EventKind) -> Child {
        command.arg("--output").arg(self.path("events.ndjson"));
        let child = command.spawn().unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        while !self.events().iter().any(|e| e.event == until) {
            assert!(
                Instant::now() < deadline,
                "no {until:?}: {:?}",
                self.events()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        child
    }

    /// Events in the file of [`Corner::start`]; the last line may be cut.
    pub fn events(&self) -> Vec<RunEvent> {
        let text = fs::read_to_string(self.path("events.ndjson")).unwrap_or_default();
        parse(&text)
    }

    /// The end of a launch begun by [`Corner::start`].
    pub fn end(&self, child: Child) -> Ran {
        let mut ran = ran(child.wait_with_output().unwrap());
        ran.events = self.events();
        self.nothing_is_left();
        ran
    }

    /// Living processes of this corner.
    pub fn processes(&self) -> usize {
        let wanted = format!("CORNER={}", self.mark);
        jobs::process::with_variable(|v| v == wanted.as_bytes()).len()
    }

    /// Run directories, finished or not.
    pub fn run_dirs(&self) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(self.path("runs")) else {
            return Vec::new();
        };
        let all = entries.flatten().map(|e| e.path());
        all.filter(|p| p.is_dir()).collect()
    }

    /// Control groups of the runs of this corner, by the ledgers of `run_dirs`.
    pub fn cgroups(run_dirs: &[PathBuf]) -> Vec<PathBuf> {
        let mut groups = Vec::new();
        for dir in run_dirs {
            let ledger = fs::read_to_string(dir.join("ledger")).unwrap_or_default();
            for line in ledger.lines() {
                if let Some(path) = line.strip_prefix(r#"{"cgroup":""#) {
                    groups.push(PathBuf::from(path.trim_end_matches(r#""}"#)));
                }
            }
        }
        groups
    }

    pub fn nothing_is_left(&self) {
        assert_eq!(self.processes(), 0, "processes are left");
        let dirs = self.run_dirs();
        assert!(dirs.is_empty(), "run directories are left: {dirs:?}");
    }

    pub fn log(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }
}

pub fn parse(text: &str) -> Vec<RunEvent> {
    let whole = text.split_inclusive('\n').filter(|l| l.ends_with('\n'));
    whole.map(|l| serde_json::from_str(l).unwrap()).collect()
}

pub fn ran(output: Output) -> Ran {
    Ran {
        events: parse(&String::from_utf8(output.stdout).unwrap()),
        code: output.status.code(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

impl Ran {
    pub fn of(&self, kind: EventKind) -> Vec<&RunEvent> {
        self.events.iter().filter(|e| e.event == kind).collect()
    }

    /// The first event of a kind.
    pub fn first(&self, kind: EventKind) -> &RunEvent {
        let found = self.of(kind).into_iter().next();
        found.unwrap_or_else(|| panic!("no {kind:?}: {:?} {}", self.events, self.stderr))
    }

    /// Reasons of the events of a kind.
    pub fn reasons(&self, kind: EventKind) -> String {
        let all = self.of(kind).into_iter();
        let reasons: Vec<&str> = all.filter_map(|e| e.reason.as_deref()).collect();
        reasons.join("\n")
    }

    pub fn summary(&self) -> &RunEvent {
        let last = self.events.last().unwrap();
        assert_eq!(last.event, EventKind::Summary, "{}", self.stderr);
        last
    }

    /// Samples of the last progress event of a task.
    pub fn samples(&self, task: &str) -> u64 {
        let mut all = self.of(EventKind::Progress).into_iter().rev();
        let last = all.find(|e| e.task.as_deref() == Some(task));
        last.and_then(|e| e.samples).unwrap_or(0)
    }

    pub fn phase(&self, task: &str, kind: PhaseKind) -> (f64, f64) {
        let phases = self.of(EventKind::Phase);
        let found = phases
            .iter()
            .find(|e| e.task.as_deref() == Some(task) && e.phase == Some(kind))
            .unwrap();
        (found.start_s.unwrap(), found.end_s.unwrap())
    }
}

/// Whether a control group can be written on this machine; reports it if not.
pub fn has_cgroups() -> bool {
    let dir = tempfile::tempdir().unwrap();
    let (mut run, _) = jobs::RunDir::create(&dir.path().join("runs"), "test").unwrap();
    match jobs::cgroup::Cgroups::create(&mut run) {
        Ok(_) => true,
        Err(error) => {
            testkit::skipped("cgroups", error);
            false
        }
    }
}

/// Sends a signal to a process.
pub fn signal(pid: u32, signal: Signal) {
    kill(Pid::from_raw(pid.cast_signed()), signal).unwrap();
}

/// Resident memory of a process in kB.
pub fn memory(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find(|l| l.starts_with("VmRSS"));
    let number = line.and_then(|l| l.split_whitespace().nth(1));
    number.map_or(0, |n| n.parse().unwrap())
}

/// Leaves a test that needs control groups if there are none.
macro_rules! needs_cgroups {
    () => {
        if !$crate::support::has_cgroups() {
            return;
        }
    };
}
pub(crate) use needs_cgroups;
