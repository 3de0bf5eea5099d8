//! Every process of a job has the grace, and what is left of a job is told by name.

use std::fs;
use std::time::{Duration, Instant};

use jobs::{Exit, Happening, OutOfMemory, Supervisor};

use crate::bench::Bench;

/// Saves for a moment when it is asked to end, says so each time, and ends.
const TRAIN: &str = r#"import signal, sys, time
def save(*_):
    print("asked", flush=True); time.sleep(0.4); open("saved", "w").write("yes"); sys.exit(0)
signal.signal(signal.SIGTERM, save)
print("up", flush=True)
while True: time.sleep(0.05)
"#;

/// Stops a job that runs the training by `line` when the training is up; its seconds and its strays.
fn stopped(line: &str, contained: bool, grace: f64) -> (Bench, f64, usize) {
    let mut bench = Bench::new();
    if contained {
        bench.supervisor = Supervisor::of_run(&mut bench.run).unwrap();
    }
    fs::write(bench.dir.path().join("train.py"), TRAIN).unwrap();
    let mut spec = bench.spec(&["sh", "-c", line]);
    spec.cwd = Some(bench.dir.path().to_owned());
    let job = bench.supervisor.spawn(&spec).unwrap();
    bench.until_log("up");
    let begun = Instant::now();
    bench.supervisor.stop(job, Duration::from_secs_f64(grace));
    let (_, strays, _) = bench.exit();
    (bench, begun.elapsed().as_secs_f64(), strays)
}

#[test]
fn a_training_saves_however_it_was_started() {
    for line in [
        "exec python3 train.py",
        "python3 train.py; echo over",
        "python3 train.py 2>&1 | grep --line-buffered . | tee copy",
        "python3 train.py & wait",
        "setsid -w python3 train.py",
        "setsid python3 train.py; sleep 60",
        "(setsid sh -c 'python3 train.py & sleep 60' &) ; sleep 60",
        "env -u MT_JOB_MARK setsid python3 train.py; sleep 60",
    ] {
        for contained in [false, true] {
            let (bench, seconds, strays) = stopped(line, contained, 20.0);
            assert!(
                bench.dir.path().join("saved").exists(),
                "{line}: {}",
                bench.log()
            );
            assert_eq!(strays, 0, "{line}");
            // As soon as it has ended, and not when the grace has.
            assert!(seconds < 10.0, "{line}: {seconds} s");
            assert_eq!(bench.log().matches("asked").count(), 1, "{line}");
        }
    }
}

#[test]
fn what_does_not_end_in_its_grace_is_killed_and_told() {
    let line = "python3 train.py & (trap '' TERM; setsid sleep 60; :) & wait";
    let (bench, seconds, strays) = stopped(line, false, 2.0);
    assert!(bench.dir.path().join("saved").exists());
    assert!((2.0..8.0).contains(&seconds), "{seconds} s");
    // The shell that ignores SIGTERM, and what it has started.
    assert_eq!(strays, 2);
}

#[test]
fn a_second_stop_without_grace_kills_at_once() {
    let mut bench = Bench::new();
    let job = bench.script("(trap '' TERM; echo up; sleep 60; :) & wait");
    bench.until_log("up");
    bench.supervisor.stop(job, Duration::from_secs(60));
    bench.supervisor.poll(Duration::from_millis(200));
    assert!(bench.supervisor.is_running(job));
    bench.supervisor.stop(job, Duration::ZERO);
    assert_eq!(bench.exit().1, 2);
}

#[test]
fn what_a_job_leaves_is_told_by_name() {
    let mut bench = Bench::new();
    // The name is that of nohup until it has become the other program.
    bench.script("nohup sleep 9999 >/dev/null 2>&1 & echo $!; sleep 0.5");
    let (exit, _, events) = bench.exit();
    assert_eq!(exit, Exit::Code(0));
    let Some(Happening::Exited { strays, .. }) = events.last().map(|e| &e.what) else {
        panic!("{events:?}");
    };
    assert_eq!(*strays, [format!("sleep (pid {})", bench.log().trim())]);
}

#[test]
fn a_job_that_ran_out_of_memory_says_so_and_what_it_used_is_known() {
    for (script, words) in [
        (
            "echo 'MemoryError' >&2; echo bye; exit 1",
            Some("MemoryError"),
        ),
        ("echo 'MemoryError' >&2; exit 0", None),
        ("kill -9 $$", None),
    ] {
        let mut bench = Bench::new();
        bench.script(&format!(
            "x=$(head -c 30000000 /dev/zero | tr '\\0' a); {script}"
        ));
        let (_, _, events) = bench.exit();
        let Some(Happening::Exited {
            out_of_memory,
            peak_bytes,
            ..
        }) = events.last().map(|e| &e.what)
        else {
            panic!("{events:?}");
        };
        assert_eq!(
            *out_of_memory,
            words.map(|w| OutOfMemory::Said(w.to_owned()))
        );
        let peak = peak_bytes.unwrap();
        assert!((30_000_000..1_000_000_000).contains(&peak), "{peak}");
    }
}

/// The kernel kills it in a group with a limit; the job's first process is a shell that only reports that.
#[test]
fn a_job_killed_by_the_kernel_ran_out_of_memory() {
    let group = std::path::Path::new("/sys/fs/cgroup/memory")
        .join(format!("mt-oom-{}", std::process::id()));
    if fs::create_dir(&group).is_err() {
        return testkit::skipped("cgroups", "no group with limited memory can be made");
    }
    fs::write(group.join("memory.limit_in_bytes"), (32 << 20).to_string()).unwrap();
    let mut bench = Bench::new();
    let mut spec = bench.spec(&["sh", "-c", "python3 -c \"x = b'a' * (1 << 30)\"; exit $?"]);
    spec.cgroup_procs = Some(group.join("cgroup.procs"));
    bench.supervisor.spawn(&spec).unwrap();
    let (exit, _, events) = bench.exit();
    assert_eq!(exit, Exit::Code(137));
    let Some(Happening::Exited { out_of_memory, .. }) = events.last().map(|e| &e.what) else {
        panic!("{events:?}");
    };
    assert_eq!(*out_of_memory, Some(OutOfMemory::Killed(group.clone())));
    fs::remove_dir(group).unwrap();
}
