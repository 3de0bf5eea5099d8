//! A host in a private folder, and jobs for it.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use doc::{PhaseKind, Task, Workload};
use host::discovery::{Gpu, MpsSupport};
use host::{ControlGroups, Grant, Host, HostError, MpsHost, MpsSetup, OpenError, Work};
use jobs::mps::MpsOptions;
use jobs::{Event, Exit, Happening, JobId, LogLimits, RunDir};
use testkit::fakes::FakeMps;
use units::{Batch, Bytes, Share};

/// Maximum wait for an event that must come. It is generous for machines under load, and a host that lost an event
/// still fails the test.
const LONG: Duration = Duration::from_secs(60);

/// Time that a faulted server is given to recover by itself.
const RECOVERY: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    ControlGroups,
    Mps,
}

pub struct Stage {
    // The host is dropped first: its jobs use the folders.
    pub host: Option<Box<dyn Host>>,
    pub kind: Kind,
    pub fake: FakeMps,
    dir: tempfile::TempDir,
    mark: String,
}

/// A script that reports that it is ready and then trains until it is stopped.
pub const ENDLESS: &str = r#"echo '{"mt":"ready"}'
while :; do echo '{"mt":"step","samples":1}'; sleep 0.02; done"#;

pub fn percent(share: f64) -> Share {
    Share::from_percent(share).unwrap()
}

impl Stage {
    /// `None`, with a message on standard error, if no control group can be written.
    pub fn control_groups() -> Option<Self> {
        let (dir, run) = folder();
        let mark = run.token().to_owned();
        match ControlGroups::open(run) {
            Ok(host) => Some(Self::new(Box::new(host), Kind::ControlGroups, dir, mark)),
            Err(OpenError::Environment { reason, .. }) => {
                testkit::skipped("cgroups", reason);
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    pub fn mps() -> Self {
        Self::mps_of(1, false)
    }

    /// A host of several GPUs, with a daemon for each or one for all.
    pub fn mps_of(gpus: usize, together: bool) -> Self {
        Self::mps_with(gpus, together, RECOVERY)
    }

    /// The same, where a server that does not recover is replaced after `recovery`.
    pub fn mps_with(gpus: usize, together: bool, recovery: Duration) -> Self {
        let (dir, run) = folder();
        let mark = run.token().to_owned();
        let fake = FakeMps::install();
        let gpu = |number: usize| Gpu {
            uuid: format!("GPU-{number}"),
            name: "Fake GPU".into(),
            sms: 80,
            memory: Bytes::new(1 << 30).unwrap(),
            compute_capability: (7, 0),
            cuda_version: (12, 6),
            driver: None,
            mps: MpsSupport::Available { client_limit: 48 },
            unverified: None,
        };
        let options = MpsOptions {
            program: fake.control(),
            root: dir.path().join("mps"),
            gpus: Vec::new(),
            timeout: Duration::from_secs(10),
        };
        let mut setup = MpsSetup::new((0..gpus).map(gpu).collect(), options);
        setup.recovery = recovery;
        setup.together = together;
        let host = MpsHost::open(setup, run).unwrap();
        let stage = Self::new(Box::new(host), Kind::Mps, dir, mark);
        Self { fake, ..stage }
    }

    fn new(host: Box<dyn Host>, kind: Kind, dir: tempfile::TempDir, mark: String) -> Self {
        Self {
            host: Some(host),
            kind,
            fake: FakeMps::install(),
            dir,
            mark: format!("MT_JOB_MARK={mark}."),
        }
    }

    pub fn host(&mut self) -> &mut dyn Host {
        self.host.as_mut().unwrap().as_mut()
    }

    pub fn log(&self) -> PathBuf {
        self.dir.path().join("a.log")
    }

    /// The control daemon of a GPU.
    pub fn daemon(&self, gpu: usize) -> i32 {
        let runs = fs::read_dir(self.dir.path().join("mps")).unwrap();
        let own = |run: &PathBuf| {
            let gpus = fs::read_to_string(run.join("gpu")).unwrap_or_default();
            gpus == format!("GPU-{gpu}")
        };
        let run = runs.map(|run| run.unwrap().path()).find(own).unwrap();
        let pid = fs::read_to_string(run.join("pipe/fake/daemon.pid")).unwrap();
        pid.trim().parse().unwrap()
    }

    /// The line that each start of a fake worker leaves: task and share.
    pub fn starts(&self) -> Vec<String> {
        let text = fs::read_to_string(self.dir.path().join("starts")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    fn task(&self, mode: &str) -> Task {
        let starts = self.dir.path().join("starts");
        let text = format!(
            r#"{{"schema":"mt.workload/1","device":{{"kind":"cpu"}},"tasks":[{{"id":"a",
            "flops_per_sample":1e9,"bytes_per_sample":1e6,"batch_sizes":[8],
            "job":{{"argv":["true"],"env":{{"FAKE_MODE":"{mode}","FAKE_STARTS":"{}"}}}}}}]}}"#,
            starts.display()
        );
        let frames = doc::Frames::new(text.as_bytes(), "test");
        let mut workloads = doc::Documents::<_, Workload>::new(frames);
        workloads.next().unwrap().unwrap().tasks.remove(0)
    }

    /// Asks the host to run a program.
    pub fn try_admit(
        &mut self,
        argv: &[&str],
        mode: &str,
        grant: &Grant,
    ) -> Result<Option<JobId>, HostError> {
        let task = self.task(mode);
        let argv: Vec<String> = argv.iter().map(|word| (*word).to_owned()).collect();
        let work = Work {
            task: &task,
            phase: PhaseKind::Compute,
            argv: &argv,
            batch: Some(Batch::new(8).unwrap()),
            env: &[],
            round: 0,
            samples: None,
            orders: false,
            log: self.log(),
            log_limits: LogLimits {
                bytes: 1 << 20,
                old_files: 1,
            },
        };
        self.host().admit(&work, grant)
    }

    /// Runs a script of `sh` at a fifth of the device; `WORKER` in it stands for the fake worker.
    pub fn script(&mut self, script: &str) -> JobId {
        let script = script.replace("WORKER", &self.fake.worker().display().to_string());
        let grant = Grant::of(percent(20.0));
        let job = self.try_admit(&["sh", "-c", &script], "", &grant);
        job.unwrap().unwrap()
    }

    /// Runs the fake worker, which is a client where there is MPS; for `mode` see there.
    pub fn worker(&mut self, mode: &str, share: f64) -> JobId {
        let worker = self.fake.worker().display().to_string();
        let job = self.try_admit(&[&worker], mode, &Grant::of(percent(share)));
        job.unwrap().unwrap()
    }

    /// Polls until `until` returns true for an event; returns all events up to it.
    pub fn until(&mut self, until: impl Fn(&Event) -> bool) -> Vec<Event> {
        let deadline = Instant::now() + LONG;
        let mut all = Vec::new();
        while Instant::now() < deadline {
            // No event of a poll may be lost, so the rest is returned, too.
            let events = self.host().poll(None);
            let found = events.iter().any(&until);
            all.extend(events);
            if found {
                return all;
            }
        }
        panic!("not in {all:?}");
    }

    pub fn ready(&mut self, job: JobId) -> Vec<Event> {
        self.until(|e| e.job == job && matches!(e.what, Happening::Ready { .. }))
    }

    /// Waits for the end of a job: how it ended, what it left running, the end of its log, and
    /// all events up to then.
    pub fn exit(&mut self, job: JobId) -> (Exit, usize, String, Vec<Event>) {
        let ended = |e: &Event| e.job == job && matches!(e.what, Happening::Exited { .. });
        let events = self.until(ended);
        let last = events.iter().find(|e| ended(e)).unwrap();
        let Happening::Exited {
            exit, strays, tail, ..
        } = &last.what
        else {
            unreachable!("{last:?}");
        };
        assert!(!self.host().is_running(job));
        (*exit, strays.len(), tail.clone(), events)
    }

    /// Processes of jobs of this host, including those that left their process group.
    pub fn job_processes(&self) -> Vec<i32> {
        jobs::process::with_variable(|v| v.starts_with(self.mark.as_bytes()))
            .into_iter()
            .map(|identity| identity.pid)
            .collect()
    }

    /// The CPU quota of a process in percent of one core, as the kernel holds it.
    pub fn quota(&mut self, job: JobId) -> f64 {
        let pid = self.host().pid(job).unwrap();
        let membership = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
        let at = |controller: &str| {
            let mut lines = membership.lines().map(|l| l.splitn(3, ':'));
            lines.find_map(|mut parts| {
                let (_, names, path) = (parts.next()?, parts.next()?, parts.next()?);
                let ours = names.split(',').any(|name| name == controller);
                ours.then(|| path.to_owned())
            })
        };
        let number = |text: &str| text.trim().parse::<f64>().unwrap();
        if let Some(path) = at("cpu") {
            let read = |file: &str| {
                let file = format!("/sys/fs/cgroup/cpu{path}/{file}");
                number(&fs::read_to_string(file).unwrap())
            };
            return 100.0 * read("cpu.cfs_quota_us") / read("cpu.cfs_period_us");
        }
        let path = at("").unwrap();
        let text = fs::read_to_string(format!("/sys/fs/cgroup{path}/cpu.max")).unwrap();
        let (quota, period) = text.trim().split_once(' ').unwrap();
        100.0 * number(quota) / number(period)
    }

    /// Drops the host; then no job, daemon or client may be alive.
    pub fn nothing_is_left(mut self) {
        self.host = None;
        assert_eq!(self.job_processes(), [] as [i32; 0]);
        let left = FakeMps::processes_below(self.dir.path());
        assert_eq!(left, [] as [i32; 0], "daemon or clients");
    }
}

fn folder() -> (tempfile::TempDir, RunDir) {
    let dir = tempfile::tempdir().unwrap();
    let (run, _) = RunDir::create(&dir.path().join("runs"), "test").unwrap();
    (dir, run)
}

pub fn samples(events: &[Event]) -> u64 {
    let of = |e: &Event| match e.what {
        Happening::Steps(steps) => steps.samples,
        _ => 0,
    };
    events.iter().map(of).sum()
}
