//! Jobs that behave and jobs that do not.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use jobs::cgroup::{CgroupError, Cgroups};
use jobs::{
    Event, Exit, Happening, JobId, JobSpec, LogLimits, Order, Progress, RunDir, Supervisor,
};
use units::{Share, TaskId};

struct Bench {
    supervisor: Supervisor,
    dir: tempfile::TempDir,
    run: RunDir,
}

const LONG: Duration = Duration::from_secs(30);

impl Bench {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (run, _) = RunDir::create(&dir.path().join("runs"), "test").unwrap();
        Self {
            supervisor: Supervisor::new(run.token()).unwrap(),
            dir,
            run,
        }
    }

    fn spec(&self, argv: &[&str]) -> JobSpec {
        JobSpec {
            task: TaskId::new("a").unwrap(),
            argv: argv.iter().map(OsString::from).collect(),
            env: jobs::base_environment(),
            cwd: None,
            orders: false,
            progress: Progress::Protocol,
            cgroup_procs: None,
            cpus: Vec::new(),
            log: self.dir.path().join("a.log"),
            log_limits: LogLimits::default(),
        }
    }

    fn script(&mut self, script: &str) -> JobId {
        let spec = self.spec(&["sh", "-c", script]);
        self.supervisor.spawn(&spec).unwrap()
    }

    /// Polls until `until` holds of an event; all events up to it.
    fn until(&mut self, until: impl Fn(&Happening) -> bool) -> Vec<Event> {
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

    fn exit(&mut self) -> (Exit, usize, Vec<Event>) {
        let events = self.until(|w| matches!(w, Happening::Exited { .. }));
        match events.last().map(|e| &e.what) {
            Some(Happening::Exited { exit, strays, .. }) => (*exit, *strays, events.clone()),
            other => panic!("{other:?}"),
        }
    }

    fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("a.log")).unwrap()
    }
}

fn samples(events: &[Event]) -> u64 {
    events
        .iter()
        .map(|e| match e.what {
            Happening::Steps { samples, .. } => samples,
            _ => 0,
        })
        .sum()
}

#[test]
fn tells_what_a_job_tells() {
    let mut bench = Bench::new();
    bench.script(
        r#"echo '{"mt":"ready"}'; for i in 1 2 3; do echo '{"mt":"step","samples":10,"loss":0.5}'; done
           echo oops >&2; printf '{"mt":"done","samples":30}'; exit 3"#,
    );
    let (exit, strays, events) = bench.exit();
    assert_eq!((exit, strays), (Exit::Code(3), 0));
    assert_eq!(samples(&events), 30);
    assert!(matches!(events[0].what, Happening::Ready { .. }));
    let done = Happening::Done { samples: Some(30) };
    assert!(events.iter().any(|e| e.what == done), "{events:?}");
    assert!(bench.log().contains("oops"));
    assert_eq!(bench.supervisor.running(), 0);
}

#[test]
fn a_program_that_does_not_exist_is_an_error() {
    let mut bench = Bench::new();
    let spec = bench.spec(&["mt-no-such-program"]);
    let error = bench.supervisor.spawn(&spec).unwrap_err();
    assert!(error.to_string().contains("mt-no-such-program"), "{error}");
}

#[test]
fn the_environment_is_a_list() {
    let mut bench = Bench::new();
    let mut spec = bench.spec(&["env"]);
    let set = BTreeMap::from([("MT_TASK".into(), "a".into())]);
    spec.env = set;
    spec.argv = vec!["/usr/bin/env".into()];
    bench.supervisor.spawn(&spec).unwrap();
    bench.exit();
    let log = bench.log();
    let mut names: Vec<_> = log.lines().filter_map(|l| l.split('=').next()).collect();
    names.sort_unstable();
    assert_eq!(names, ["MT_JOB_MARK", "MT_TASK"]);
}

#[test]
fn sigterm_first_and_sigkill_after_the_grace() {
    let mut bench = Bench::new();
    let job = bench.script("trap '' TERM; echo '{\"mt\":\"ready\"}'; while :; do sleep 0.05; done");
    bench.until(|w| matches!(w, Happening::Ready { .. }));
    let begun = Instant::now();
    bench.supervisor.stop(job, Duration::from_millis(400));
    let (exit, ..) = bench.exit();
    assert_eq!(exit, Exit::Signal(9));
    assert!(begun.elapsed() >= Duration::from_millis(400));

    let job =
        bench.script("trap 'exit 7' TERM; echo '{\"mt\":\"ready\"}'; while :; do sleep 0.05; done");
    bench.until(|w| matches!(w, Happening::Ready { .. }));
    bench.supervisor.stop(job, LONG);
    assert_eq!(bench.exit().0, Exit::Code(7));
}

#[test]
fn a_daemon_of_a_job_does_not_outlive_it() {
    let mut bench = Bench::new();
    bench.script("setsid sleep 600 & sleep 600 & sleep 0.2; echo $! >pid; exit 0");
    let (exit, strays, _) = bench.exit();
    fs::remove_file("pid").ok();
    assert_eq!((exit, strays), (Exit::Code(0), 2));
    let mark = format!("MT_JOB_MARK={}.0", bench.run.token());
    assert!(jobs::process::with_variable(|v| v == mark.as_bytes()).is_empty());
}

#[test]
fn dropping_the_supervisor_kills() {
    let mut bench = Bench::new();
    let job = bench.script("setsid sleep 600 & echo '{\"mt\":\"ready\"}'; sleep 600");
    bench.until(|w| matches!(w, Happening::Ready { .. }));
    let pid = bench.supervisor.pid(job).unwrap();
    let identity = jobs::process::Identity::of(pid).unwrap();
    let mark = format!("MT_JOB_MARK={}.0", bench.run.token());
    drop(bench.supervisor);
    assert!(!identity.is_alive());
    assert!(jobs::process::with_variable(|v| v == mark.as_bytes()).is_empty());
}

#[test]
fn a_long_line_and_much_output_do_not_hide_progress() {
    let mut bench = Bench::new();
    let mut spec = bench.spec(&[
        "sh",
        "-c",
        r#"head -c 10000000 /dev/zero | tr '\0' x; echo
           echo '{"mt":"step","samples":1}'
           yes | head -c 100000000
           head -c 100000 /dev/urandom; echo
           echo '{"mt":"step","samples":2}'"#,
    ]);
    spec.log_limits = LogLimits {
        bytes: 1 << 20,
        old_files: 1,
    };
    let before = memory();
    bench.supervisor.spawn(&spec).unwrap();
    let (exit, _, events) = bench.exit();
    assert_eq!(exit, Exit::Code(0));
    assert_eq!(samples(&events), 3);
    assert!(
        events
            .iter()
            .any(|e| matches!(e.what, Happening::Overlong(n) if n >= 1))
    );
    let logs: u64 = ["a.log", "a.log.1"]
        .iter()
        .map(|n| fs::metadata(bench.dir.path().join(n)).unwrap().len())
        .sum();
    assert!(logs <= (2 << 20) + 64 * 1024, "{logs}");
    assert!(memory() < before + 10_000, "{} kB more", memory() - before);
}

/// Resident memory in kB.
fn memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn orders_reach_a_worker() {
    let mut bench = Bench::new();
    let mut spec = bench.spec(&[
        "sh",
        "-c",
        r#"while read -r a b; do
        case $a in batch) echo "{\"mt\":\"step\",\"samples\":$b}";; quit) exit 4;; esac; done"#,
    ]);
    spec.orders = true;
    let job = bench.supervisor.spawn(&spec).unwrap();
    let batch = units::Batch::new(48).unwrap();
    bench.supervisor.order(job, Order::Batch(batch)).unwrap();
    let events = bench.until(|w| matches!(w, Happening::Steps { .. }));
    assert_eq!(samples(&events), 48);
    bench.supervisor.order(job, Order::Quit).unwrap();
    assert_eq!(bench.exit().0, Exit::Code(4));
    assert!(bench.supervisor.order(job, Order::Run).is_err());
}

#[test]
fn a_log_that_cannot_be_written_is_told() {
    let mut bench = Bench::new();
    let mut spec = bench.spec(&["sh", "-c", "echo x; echo '{\"mt\":\"step\",\"samples\":5}'"]);
    spec.log = Path::new("/no/such/folder/a.log").to_owned();
    assert!(bench.supervisor.spawn(&spec).is_err());
    spec.log = Path::new("/dev/full").to_owned();
    bench.supervisor.spawn(&spec).unwrap();
    let (exit, _, events) = bench.exit();
    assert_eq!((exit, samples(&events)), (Exit::Code(0), 5));
    assert!(
        events
            .iter()
            .any(|e| matches!(e.what, Happening::LogFailed(_)))
    );
}

#[test]
fn quotas_hold_change_at_once_and_go() {
    let mut bench = Bench::new();
    let groups = match Cgroups::create(&mut bench.run) {
        Ok(groups) => groups,
        Err(error @ CgroupError::Unavailable { .. }) => {
            assert!(error.to_string().contains("MT_CGROUP_PARENT"));
            testkit::skipped("cgroups", error);
            return;
        }
        Err(error) => panic!("{error}"),
    };
    // 10 % of the machine is below what even a busy one leaves to one process.
    let ten = Share::from_percent(10.0).unwrap();
    let group = groups.group("a", ten).unwrap();
    let mut spec = bench.spec(&["sh", "-c", "while :; do :; done"]);
    spec.cgroup_procs = Some(group.procs());
    let job = bench.supervisor.spawn(&spec).unwrap();
    let pid = bench.supervisor.pid(job).unwrap();
    let mut use_of = |seconds: f64| {
        let (at, used) = (Instant::now(), jobs::process::cpu_seconds(pid).unwrap());
        while at.elapsed().as_secs_f64() < seconds {
            bench.supervisor.poll(Duration::from_millis(50));
        }
        (jobs::process::cpu_seconds(pid).unwrap() - used) / at.elapsed().as_secs_f64()
    };
    let cores = groups.cores() as f64;
    let used = use_of(2.0) / cores;
    assert!((0.05..0.13).contains(&used), "{used}");
    group.set_share(Share::from_percent(2.0).unwrap()).unwrap();
    let used = use_of(2.0) / cores;
    assert!((0.005..0.035).contains(&used), "{used}");
    let path = group.procs();
    assert_eq!(group.processes().len(), 1);
    drop(groups);
    assert!(!path.exists());
    assert_eq!(bench.exit().0, Exit::Signal(9));
}
