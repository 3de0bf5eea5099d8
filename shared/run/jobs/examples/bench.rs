//! Measures the cost of supervising jobs (`--json`: in the form of [`testkit::bench`]).

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use jobs::{Happening, JobSpec, LogLimits, ProgressSource, RunDir, Supervisor};
use testkit::bench::Row;
use units::TaskId;

type BenchError = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    testkit::bench::run(rows)
}

fn rows() -> Result<Vec<Row>, BenchError> {
    // 800 lines a second at any load: the printers follow the clock.
    let gathered = cost(Duration::from_millis(20), Duration::from_secs(5))?;
    let each = cost(Duration::ZERO, Duration::from_secs(5))?;
    Ok(vec![Row::new(
        "launcher_overhead",
        (gathered, "% of a core"),
        ("waking for every line", each),
        "supervising 8 jobs that print 100 step lines a second each",
    )])
}

/// Processor time of this process, in percent of a core, while 8 jobs print.
fn cost(pause: Duration, length: Duration) -> Result<f64, BenchError> {
    let dir = tempfile::tempdir()?;
    let (run, _) = RunDir::create(&dir.path().join("runs"), "bench")?;
    let mut supervisor = Supervisor::new(run.token())?;
    supervisor.coalesce(pause);
    for i in 0..8 {
        supervisor.spawn(&printer(i, dir.path())?)?;
    }
    let mut watch = |length: Duration| {
        let begun = Instant::now();
        let mut steps = 0;
        while begun.elapsed() < length {
            for event in supervisor.poll(Duration::from_millis(100)) {
                if let Happening::Steps(more) = event.what {
                    steps += more.steps;
                }
            }
        }
        steps
    };
    watch(Duration::from_secs(1));
    let own = std::process::id().cast_signed();
    let used = || jobs::process::cpu_seconds(own).ok_or("no /proc");
    let (before, begun) = (used()?, Instant::now());
    let steps = watch(length);
    let seconds = begun.elapsed().as_secs_f64();
    let used = used()? - before;
    if (steps as f64) < 400.0 * seconds {
        return Err("the machine is too busy: the jobs print too little".into());
    }
    Ok(100.0 * used / seconds)
}

fn printer(i: usize, dir: &Path) -> Result<JobSpec, BenchError> {
    let script = r#"$| = 1; while (1) { print "{\"mt\":\"step\",\"samples\":1,\"loss\":0.5}\n";
        select(undef, undef, undef, 0.01); }"#;
    Ok(JobSpec {
        task: TaskId::new(&format!("t{i}"))?,
        argv: ["perl", "-e", script].map(OsString::from).to_vec(),
        env: jobs::Passing::default().base_environment(),
        cwd: None,
        orders: false,
        progress: ProgressSource::Protocol,
        cgroup_procs: None,
        cpus: Vec::new(),
        origin: None,
        log: dir.join(format!("t{i}.log")),
        log_limits: LogLimits::default(),
    })
}
