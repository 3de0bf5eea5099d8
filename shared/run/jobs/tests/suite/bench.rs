//! A supervisor with a folder.

use std::ffi::OsString;
use std::fs;
use std::time::{Duration, Instant};

use jobs::{Event, Exit, Happening, JobId, JobSpec, LogLimits, ProgressSource, RunDir, Supervisor};
use units::TaskId;

pub struct Bench {
    pub supervisor: Supervisor,
    pub dir: tempfile::TempDir,
    pub run: RunDir,
}

pub const LONG: Duration = Duration::from_secs(30);

impl Bench {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (run, _) = RunDir::create(&dir.path().join("runs"), "test").unwrap();
        Self {
            supervisor: Supervisor::new(run.token()).unwrap(),
            dir,
            run,
        }
    }

    pub fn spec(&self, argv: &[&str]) -> JobSpec {
        JobSpec {
            task: TaskId::new("a").unwrap(),
            argv: argv.iter().map(OsString::from).collect(),
            env: jobs::Passing::default().base_environment(),
            cwd: None,
            orders: false,
            progress: ProgressSource::Protocol,
            cgroup_procs: None,
            cpus: Vec::new(),
            origin: None,
            log: self.dir.path().join("a.log"),
            log_limits: LogLimits::default(),
        }
    }

    pub fn script(&mut self, script: &str) -> JobId {
        let spec = self.spec(&["sh", "-c", script]);
        self.supervisor.spawn(&spec).unwrap()
    }

    /// Polls until `until` returns true for an event; returns all events up to it.
    pub fn until(&mut self, until: impl Fn(&Happening) -> bool) -> Vec<Event> {
        let deadline = Instant::now() + LONG;
        let mut all = Vec::new();
        while Instant::now() < deadline {
            for event in self.supervisor.poll(Duration::from_millis(100)) {
                let found = until(&event.what);
                all.push(event);
                if found {
                    return all;
                }
            }
        }
        panic!("not in {all:?}");
    }

    pub fn exit(&mut self) -> (Exit, usize, Vec<Event>) {
        let events = self.until(|w| matches!(w, Happening::Exited { .. }));
        match events.last().map(|e| &e.what) {
            Some(Happening::Exited { exit, strays, .. }) => (*exit, strays.len(), events.clone()),
            other => panic!("{other:?}"),
        }
    }

    /// Polls until the log has a word.
    pub fn until_log(&mut self, word: &str) {
        let deadline = Instant::now() + LONG;
        while !self.log().contains(word) {
            assert!(Instant::now() < deadline, "no {word:?} in {}", self.log());
            self.supervisor.poll(Duration::from_millis(10));
        }
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("a.log")).unwrap()
    }
}
