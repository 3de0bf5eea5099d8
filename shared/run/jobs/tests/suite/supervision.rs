//! Jobs that behave well and jobs that do not.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use jobs::cgroup::{CgroupError, Cgroups};
use jobs::{Event, Exit, Happening, Order};

use units::Share;

use crate::bench::{Bench, LONG};

fn samples(events: &[Event]) -> u64 {
    events
        .iter()
        .map(|e| match e.what {
            Happening::Steps(steps) => steps.samples,
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
fn output_that_may_accumulate_delays_neither_the_end_nor_much_output() {
    let mut bench = Bench::new();
    bench.supervisor.coalesce(Duration::from_secs(1));
    // The first line starts a pause, and the others fill a pipe a hundred times: with a pause after each, they would
    // take longer than this test waits.
    bench.script("echo begin; sleep 0.2; yes | head -c 6500000; echo end");
    let (exit, ..) = bench.exit();
    assert_eq!(exit, Exit::Code(0));
    assert!(bench.log().ends_with("end\n"));
}

#[test]
fn norms_that_are_none_are_left_out_and_told_once() {
    let mut bench = Bench::new();
    bench.script(
        r#"step() { echo '{"mt":"step","samples":32,"norms":{"small":'$1',"small_sq":'$2',"large":32,"large_sq":4.5}}'; }
           step 8 12; step 8 NaN; sleep 0.2; step 64 12; sleep 0.2; step 8 -1; step 8 12"#,
    );
    let (_, _, events) = bench.exit();
    assert_eq!(samples(&events), 5 * 32);
    let told: Vec<_> = events
        .iter()
        .filter(|e| matches!(e.what, Happening::NormsLeftOut(_)))
        .collect();
    assert_eq!(told.len(), 1, "{events:?}");
    let mut all = efficiency::Moments::default();
    for event in &events {
        if let Happening::Steps(steps) = &event.what {
            all.merge(&steps.gradient);
        }
    }
    let means = all.to_document().unwrap();
    assert_eq!(
        (means.steps, means.squared_norm, means.variance),
        (2, 2.0, 80.0)
    );
}

#[test]
fn lines_of_two_streams_do_not_tear_each_other_apart() {
    let mut bench = Bench::new();
    // A message in pieces, as C++ writes to std::cerr, with a line of the protocol between them.
    bench.script(
        r#"printf 'a warning ' >&2; sleep 0.1; echo '{"mt":"step","samples":10}'; sleep 0.1
           echo 'goes on' >&2; sleep 0.1; printf 'no end of line'"#,
    );
    bench.exit();
    assert_eq!(
        bench.log(),
        "{\"mt\":\"step\",\"samples\":10}\na warning goes on\nno end of line"
    );
}

#[test]
fn steps_that_are_never_believed_are_told_once() {
    for (first, told) in [
        (String::new(), 1),
        (r#"echo '{"mt":"step","samples":8}';"#.to_owned(), 0),
    ] {
        let mut bench = Bench::new();
        bench.script(&format!(
            r#"{first} for i in 1 2 3 4 5 6 7 8 9; do echo '{{"mt":"step","samples":1000000000000000000}}'; done"#
        ));
        let (_, _, events) = bench.exit();
        let doubts = events.iter().filter_map(|e| match &e.what {
            Happening::Doubt(why) => Some(why.clone()),
            _ => None,
        });
        let doubts: Vec<String> = doubts.collect();
        assert_eq!(doubts.len(), told, "{doubts:?}");
        assert!(
            doubts
                .iter()
                .all(|why| why.contains("1000000000000000000 samples"))
        );
    }
}

/// A fork bomb whose processes leave their session, bounded by a group of 400 processes.
#[test]
fn a_fork_bomb_ends_at_once() {
    let limit = Path::new("/sys/fs/cgroup/pids").join(format!("mt-bomb-{}", std::process::id()));
    let mut bench = Bench::new();
    let groups = match Cgroups::create(&mut bench.run) {
        Ok(groups) => groups,
        Err(error) => return testkit::skipped("cgroups", error),
    };
    if fs::create_dir(&limit).is_err() {
        return testkit::skipped("pids", "no group of processes can be limited");
    }
    fs::write(limit.join("pids.max"), "400").unwrap();
    let group = groups
        .group("a", Share::from_percent(50.0).unwrap())
        .unwrap();
    let script = bench.dir.path().join("bomb");
    fs::write(&script, "while :; do setsid sh $0 & done 2>/dev/null").unwrap();
    let line = format!(
        "echo 0 > {}/cgroup.procs; exec sh {}",
        limit.display(),
        script.display()
    );
    let mut spec = bench.spec(&["sh", "-c", &line]);
    spec.cgroup_procs = Some(group.procs());
    let job = bench.supervisor.spawn(&spec).unwrap();
    let full = Instant::now();
    while group.processes().len() < 200 {
        assert!(
            full.elapsed() < LONG,
            "{} processes",
            group.processes().len()
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    let begun = Instant::now();
    bench.supervisor.stop(job, Duration::ZERO);
    bench.exit();
    let seconds = begun.elapsed().as_secs_f64();
    println!("ended after {seconds:.2} s");
    assert_eq!(group.processes().len(), 0);
    assert!(seconds < 10.0, "{seconds} s");
    drop(groups);
    fs::remove_dir(&limit).unwrap();
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
    let wanted = [
        "GOMP_SPINCOUNT",
        "MT_JOB_MARK",
        "MT_TASK",
        "PYTHONUNBUFFERED",
    ];
    assert_eq!(names, wanted);
}

#[test]
fn a_program_is_found_and_finds_itself_as_one_of_a_shell() {
    let mut bench = Bench::new();
    let bin = bench.dir.path().join("bin");
    fs::create_dir(&bin).unwrap();
    // Without a line that names its interpreter.
    let script =
        r#"grep -E 'Sig(Blk|Ign)' /proc/self/status; pwd; readlink /proc/self/fd/0; echo "$#$2""#;
    fs::write(bin.join("train"), script).unwrap();
    fs::set_permissions(bin.join("train"), fs::Permissions::from_mode(0o755)).unwrap();
    let mut spec = bench.spec(&["train", "a b", "ü"]);
    let path = format!("/nowhere:{}:/usr/bin:/bin", bin.display());
    spec.env.insert("PATH".into(), path.into());
    spec.cwd = Some(bin.clone());
    bench.supervisor.spawn(&spec).unwrap();
    let (exit, ..) = bench.exit();
    let log = bench.log();
    assert_eq!(exit, Exit::Code(0), "{log}");
    let lines: Vec<&str> = log.lines().collect();
    let signals = |line: &str| u64::from_str_radix(line.split_whitespace().last().unwrap(), 16);
    assert_eq!(signals(lines[0]), Ok(0), "{log}");
    // SIGPIPE, which Rust programs ignore: `yes | head` would not end.
    assert_eq!(signals(lines[1]).map(|set| set >> 12 & 1), Ok(0), "{log}");
    assert_eq!(Path::new(lines[2]), bin);
    assert_eq!(lines[3..], ["/dev/null", "2ü"]);
}

#[test]
fn a_program_that_cannot_be_run_is_an_error() {
    let mut bench = Bench::new();
    let text = bench.dir.path().join("text");
    fs::write(&text, "x").unwrap();
    let text = text.to_str().unwrap();
    for (argv, why) in [
        (&["no-such-program"][..], "No such file or directory"),
        (&[text][..], "Permission denied"),
        (&["echo", "a\0b"][..], "nul byte"),
        (&[][..], "No such file or directory"),
    ] {
        let error = bench.supervisor.spawn(&bench.spec(argv)).unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    }
    assert_eq!(bench.supervisor.running(), 0);
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
    let ten = Share::from_percent(10.0).unwrap();
    let group = groups.group("a", ten).unwrap();
    let mut spec = bench.spec(&["sh", "-c", "while :; do :; done"]);
    spec.cgroup_procs = Some(group.procs());
    let job = bench.supervisor.spawn(&spec).unwrap();
    let pid = bench.supervisor.pid(job).unwrap();
    let cores = groups.cores() as f64;
    let used = use_while_throttled(&mut bench, pid, &group.procs()) / cores;
    assert!(used < 0.13, "{used}");
    group.set_share(Share::from_percent(2.0).unwrap()).unwrap();
    let used = use_while_throttled(&mut bench, pid, &group.procs()) / cores;
    assert!(used < 0.035, "{used}");
    let path = group.procs();
    assert_eq!(group.processes().len(), 1);
    drop(groups);
    assert!(!path.exists());
    assert_eq!(bench.exit().0, Exit::Signal(9));
}

/// CPU seconds per second of a process between two checks, between which the kernel has stopped it for its quota at
/// least ten times. So the quota is known to be the limit, however little of a busy machine the process gets in a
/// given time; on an idle one it takes about a second.
fn use_while_throttled(bench: &mut Bench, pid: i32, procs: &Path) -> f64 {
    let throttled = || -> u64 {
        let stat = fs::read_to_string(procs.with_file_name("cpu.stat")).unwrap();
        let line = stat.lines().find_map(|l| l.strip_prefix("nr_throttled "));
        line.unwrap().parse().unwrap()
    };
    let (at, used) = (Instant::now(), jobs::process::cpu_seconds(pid).unwrap());
    let enough = throttled() + 10;
    while throttled() < enough {
        assert!(at.elapsed() < LONG, "the quota does not bind");
        bench.supervisor.poll(Duration::from_millis(50));
    }
    (jobs::process::cpu_seconds(pid).unwrap() - used) / at.elapsed().as_secs_f64()
}
