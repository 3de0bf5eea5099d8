//! What can go wrong with a job or its device, once for every kind of host.

use std::fs;
use std::time::{Duration, Instant};

use host::{Fault, FaultKind, Gpus, Grant, Health, HostError, Recovery, Regrants};
use jobs::{Exit, Happening};
use units::Bytes;

use crate::stage::{ENDLESS, Kind, Stage, percent, samples};

const SOON: Duration = Duration::from_millis(300);
const SIGKILL: Exit = Exit::Signal(9);
const SIGTERM: Exit = Exit::Signal(15);

/// Ready, settled, trained, stopped; after its end the host has forgotten it.
pub fn all_goes_well(stage: &mut Stage) {
    let job = stage.worker("", 20.0);
    stage.ready(job);
    stage.host().settle(job).unwrap();
    let trained = stage.until(|e| e.job == job && matches!(e.what, Happening::Steps { .. }));
    assert!(samples(&trained) >= 8);
    stage.host().stop(job, Duration::from_secs(30));
    assert_eq!(stage.exit(job).0, SIGTERM);
    assert!(stage.host().jobs().is_empty());
    assert!(matches!(
        stage.host().settle(job).unwrap_err(),
        HostError::Ended
    ));
    assert!(matches!(stage.host().health(), Health::Good));
}

pub fn a_program_that_does_not_exist(stage: &mut Stage) {
    let grant = Grant::of(percent(20.0));
    let error = stage
        .try_admit(&["mt-no-such-program"], "", &grant)
        .unwrap_err();
    assert!(error.is_of_the_job(), "{error}");
    assert!(error.to_string().contains("mt-no-such-program"), "{error}");
    assert!(stage.host().jobs().is_empty());
    // A phase without a program is none.
    assert!(stage.try_admit(&[], "", &grant).unwrap().is_none());
}

pub fn a_grant_that_the_host_does_not_have(stage: &mut Stage) {
    let mut refused = |grant: &Grant| stage.try_admit(&["true"], "", grant).unwrap_err();
    let full = || Grant::of(percent(20.0));
    let far = Grant {
        gpus: Gpus::one(7),
        ..full()
    };
    assert!(matches!(refused(&far), HostError::NoGpu { gpu: 7 }));
    let two = Grant {
        gpus: Gpus::of(&[1, 0]).unwrap(),
        ..full()
    };
    let error = refused(&two);
    assert!(!error.is_of_the_job(), "{error}");
    let memory = Grant {
        memory: Some(Bytes::new(1 << 20).unwrap()),
        ..full()
    };
    let admitted = stage.try_admit(&["true"], "", &memory);
    assert!(matches!(error, HostError::NoGpu { gpu: 1 }), "{error}");
    match (stage.kind, admitted) {
        (Kind::ControlGroups, Err(HostError::NoMemoryLimit)) => {}
        (Kind::Mps, Ok(Some(job))) => assert_eq!(stage.exit(job).0, Exit::Code(0)),
        (_, other) => panic!("{other:?}"),
    }
    assert!(stage.host().jobs().is_empty());
}

pub fn a_job_that_dies_at_its_start(stage: &mut Stage) {
    let job = stage.script("echo no such data >&2; exit 3");
    let (exit, strays, tail, events) = stage.exit(job);
    assert_eq!((exit, strays), (Exit::Code(3), 0));
    assert!(tail.contains("no such data"), "{tail}");
    let ready = events
        .iter()
        .any(|e| matches!(e.what, Happening::Ready { .. }));
    assert!(!ready, "{events:?}");
    // The host can run the next one.
    let job = stage.worker("", 20.0);
    stage.ready(job);
    stage.host().settle(job).unwrap();
}

pub fn a_job_that_dies_in_the_middle(stage: &mut Stage) {
    let job = stage.script(
        r#"echo '{"mt":"ready"}'; for i in 1 2 3; do echo '{"mt":"step","samples":10}'; done
           echo oops >&2; kill -SEGV $$"#,
    );
    let (exit, _, tail, events) = stage.exit(job);
    assert_eq!(exit, Exit::Signal(11));
    assert_eq!(samples(&events), 30);
    assert!(tail.contains("oops"), "{tail}");
    assert!(matches!(stage.host().health(), Health::Good));
}

/// The caller decides how long is too long; the host only reports what it has seen.
pub fn a_job_that_never_gets_ready(stage: &mut Stage) {
    let job = stage.worker("hangs", 20.0);
    let begun = stage.host().now();
    let mut seen = Vec::new();
    while begun.elapsed() < SOON {
        seen.extend(stage.host().poll(Some(begun + SOON)));
    }
    assert!(seen.is_empty(), "{seen:?}");
    assert_eq!(stage.host().jobs(), [job]);
    stage.host().stop(job, Duration::from_secs(30));
    assert_eq!(stage.exit(job).0, SIGTERM);
}

pub fn a_job_that_hangs(stage: &mut Stage) {
    let job = stage.script("echo '{\"mt\":\"ready\"}'; exec sleep 600");
    stage.ready(job);
    stage.host().stop(job, Duration::from_secs(30));
    let (exit, _, _, events) = stage.exit(job);
    assert_eq!((exit, samples(&events)), (SIGTERM, 0));
}

/// A line of ten megabytes, a hundred short lines, and bytes that are not text: progress is still seen, and the log
/// keeps its limit. (The tests of the launcher, which is a process there, check that memory does not grow.)
pub fn a_job_that_floods_its_log(stage: &mut Stage) {
    let job = stage.script(
        r#"head -c 10000000 /dev/zero | tr '\0' x; echo
           echo '{"mt":"step","samples":1}'
           yes | head -c 100000000
           head -c 100000 /dev/urandom; echo
           echo '{"mt":"step","samples":2}'"#,
    );
    let (exit, _, _, events) = stage.exit(job);
    assert_eq!((exit, samples(&events)), (Exit::Code(0), 3));
    let overlong = events.iter().filter(|e| e.what == Happening::Overlong);
    assert_eq!(overlong.count(), 1, "{events:?}");
    let size = |path| fs::metadata(path).unwrap().len();
    let logs = size(stage.log()) + size(stage.log().with_extension("log.1"));
    assert!(logs <= (2 << 20) + 64 * 1024, "{logs}");
}

pub fn a_job_that_heeds_sigterm(stage: &mut Stage) {
    let job = stage.script(&format!("trap 'exit 7' TERM; {ENDLESS}"));
    stage.ready(job);
    stage.host().stop(job, Duration::from_secs(30));
    assert_eq!(stage.exit(job).0, Exit::Code(7));
}

pub fn a_job_that_ignores_sigterm(stage: &mut Stage) {
    let job = stage.script(&format!("trap '' TERM; {ENDLESS}"));
    stage.ready(job);
    let begun = Instant::now();
    stage.host().stop(job, SOON);
    assert_eq!(stage.exit(job).0, SIGKILL);
    assert!(begun.elapsed() >= SOON);

    // A client whose work on the device is ended first, and that ignores that signal, too.
    let job = stage.worker("deaf", 20.0);
    stage.ready(job);
    stage.host().stop(job, SOON);
    // Called again by a user who does not want to wait.
    stage.host().stop(job, Duration::ZERO);
    assert_eq!(stage.exit(job).0, SIGKILL);
    let terminated = stage.fake.commands().contains("terminate_client");
    assert_eq!(terminated, stage.kind == Kind::Mps);
}

pub fn a_job_that_leaves_daemons(stage: &mut Stage) {
    let job = stage.script("setsid sleep 600 & sleep 600 & sleep 0.2; exit 0");
    let (exit, strays, ..) = stage.exit(job);
    assert_eq!((exit, strays), (Exit::Code(0), 2));
    assert_eq!(stage.job_processes(), [] as [i32; 0]);
}

/// A client that missed the daemon, or sees more processors than its share, runs outside MPS. With a quota this is
/// not possible.
pub fn a_job_outside_its_share(stage: &mut Stage) {
    for mode in ["misses", "whole"] {
        let job = stage.worker(mode, 20.0);
        stage.ready(job);
        let settled = stage.host().settle(job);
        match (stage.kind, settled) {
            (Kind::ControlGroups, Ok(_)) => assert!(stage.quota(job) > 0.0),
            (Kind::Mps, Err(error @ HostError::Mps(_))) => assert!(!error.is_of_the_job()),
            (_, other) => panic!("{mode}: {other:?}"),
        }
        stage.host().stop(job, SOON);
        stage.exit(job);
    }
}

pub fn a_share_changes_now_or_at_the_next_start(stage: &mut Stage) {
    let first = stage.worker("", 20.0);
    stage.ready(first);
    stage.host().settle(first).unwrap();
    let now = stage.host().regrants() == Regrants::Now;
    assert_eq!(now, stage.kind == Kind::ControlGroups);
    let quota = |stage: &mut Stage| now.then(|| stage.quota(first));
    let before = quota(stage);
    stage.host().regrant(first, percent(60.0)).unwrap();
    let after = quota(stage);
    if let Some((before, after)) = before.zip(after) {
        assert!((after / before - 3.0).abs() < 0.01, "{before} to {after}");
    }
    // If the process keeps its share, it is checked against the old one, and passes.
    stage.host().settle(first).unwrap();
    stage.host().stop(first, SOON);
    stage.exit(first);
    let ended = stage.host().regrant(first, percent(10.0));
    assert_eq!(ended.is_err(), now, "{ended:?}");

    let second = stage.worker("", 60.0);
    stage.ready(second);
    let settled = stage.host().settle(second).unwrap();
    assert_eq!(stage.starts(), ["a 20", "a 60"]);
    if stage.kind == Kind::Mps {
        assert_eq!(settled.sms, Some(48), "60 % of 80");
    }
}

/// A client that brings the server down; on a host without a server, only the client dies.
const FAULTS: &str = r#"if [ -n "$CUDA_MPS_PIPE_DIRECTORY" ]; then
    FAKE_CLIENTS=2 FAKE_MODE=faults exec WORKER
fi
echo '{"mt":"ready"}'; exit 1"#;

/// Two jobs, one of which has a fatal fault: if they share a server, it affects the other, too.
fn fault(stage: &mut Stage) {
    let other = stage.worker("", 20.0);
    stage.ready(other);
    let faulty = stage.script(FAULTS);
    assert_eq!(stage.exit(faulty).0, Exit::Code(1));
    let health = stage.host().health();
    match stage.kind {
        Kind::ControlGroups => assert!(matches!(health, Health::Good), "{health:?}"),
        Kind::Mps => {
            let Health::Faulted(faults) = health else {
                panic!("{health:?}");
            };
            let expected = Fault {
                gpus: Gpus::one(0),
                kind: FaultKind::Server,
            };
            assert_eq!(faults, [expected]);
            // Not while a client keeps the server alive.
            let recovery = stage.host().recover(&Gpus::one(0));
            assert_eq!(recovery.unwrap(), Recovery::Pending);
        }
    }
    stage.host().stop(other, SOON);
    stage.exit(other);
}

fn recovered(stage: &mut Stage) -> Recovery {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        match stage.host().recover(&Gpus::one(0)).unwrap() {
            Recovery::Pending => assert!(Instant::now() < deadline, "it does not recover"),
            done => return done,
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn serves_again(stage: &mut Stage) {
    assert!(matches!(stage.host().health(), Health::Good));
    let job = stage.worker("", 20.0);
    stage.ready(job);
    stage.host().settle(job).unwrap();
}

pub fn a_fault_of_the_device(stage: &mut Stage) {
    fault(stage);
    // A machine under load may take longer than the limit; then the server is replaced by a new daemon.
    let recovery = recovered(stage);
    let allowed = match stage.kind {
        Kind::ControlGroups => recovery == Recovery::Recovered,
        Kind::Mps => recovery != Recovery::Pending,
    };
    assert!(allowed, "{recovery:?}");
    serves_again(stage);
}

pub fn a_fault_that_stays(stage: &mut Stage) {
    stage.fake.set("stays_faulted", "");
    fault(stage);
    let expected = match stage.kind {
        Kind::ControlGroups => Recovery::Recovered,
        Kind::Mps => Recovery::Replaced,
    };
    assert_eq!(recovered(stage), expected);
    serves_again(stage);
}

pub fn a_host_that_goes_takes_its_jobs_along(stage: &mut Stage) {
    let job = stage.script("setsid sleep 600 & echo '{\"mt\":\"ready\"}'; sleep 600");
    stage.ready(job);
    let pid = stage.host().pid(job).unwrap();
    let identity = jobs::process::Identity::of(pid).unwrap();
    stage.host = None;
    assert!(!identity.is_alive());
    assert_eq!(stage.job_processes(), [] as [i32; 0]);
}
