//! Grants of several GPUs.

use doc::{PhaseKind, Workload};
use host::{Gpus, Grant, Host as _, HostError, SimHost, Work};
use jobs::{Exit, LogLimits};
use units::Bytes;

use crate::stage::{Stage, percent};

const TELL: &str = "echo sees=$CUDA_VISIBLE_DEVICES memory=$CUDA_MPS_PINNED_DEVICE_MEM_LIMIT >&2";

fn on(gpus: &[usize]) -> Grant {
    Grant {
        gpus: Gpus::of(gpus).unwrap(),
        memory: Some(Bytes::new(8 << 20).unwrap()),
        ..Grant::of(percent(50.0))
    }
}

/// What a job on `gpus` sees.
fn shown(stage: &mut Stage, gpus: &[usize]) -> String {
    let job = stage.try_admit(&["sh", "-c", TELL], "", &on(gpus));
    let (exit, _, tail, _) = stage.exit(job.unwrap().unwrap());
    assert_eq!(exit, Exit::Code(0));
    tail.trim().to_owned()
}

#[test]
fn gpus_are_ascending_and_never_none() {
    assert_eq!(Gpus::of(&[]), None);
    let two = Gpus::of(&[3, 1, 3]).unwrap();
    assert_eq!((two.numbers(), two.only()), (&[1, 3][..], None));
    assert_eq!(two.to_string(), "1, 3");
    assert_eq!(Gpus::one(3).only(), Some(3));
}

#[test]
fn gpus_with_a_daemon_each_are_not_granted_together() {
    let mut stage = Stage::mps_of(2, false);
    assert_eq!(shown(&mut stage, &[1]), "sees=GPU-1 memory=0=8M");
    let error = stage.try_admit(&["true"], "", &on(&[0, 1])).unwrap_err();
    assert!(matches!(error, HostError::Apart { .. }), "{error}");
    assert!(!error.is_of_the_job());
    let commands = stage.fake.commands();
    assert!(
        commands.contains("start CUDA_VISIBLE_DEVICES=GPU-1"),
        "{commands}"
    );
    stage.nothing_is_left();
}

#[test]
fn one_daemon_serves_jobs_on_several_gpus() {
    let mut stage = Stage::mps_of(3, true);
    let commands = stage.fake.commands();
    assert!(
        commands.contains("start CUDA_VISIBLE_DEVICES=GPU-0,GPU-1,GPU-2"),
        "{commands}"
    );
    assert_eq!(shown(&mut stage, &[2]), "sees=GPU-2 memory=0=8M");
    assert_eq!(
        shown(&mut stage, &[2, 0]),
        "sees=GPU-0,GPU-2 memory=0=8M,1=8M"
    );
    let error = stage.try_admit(&["true"], "", &on(&[0, 3])).unwrap_err();
    assert!(matches!(error, HostError::NoGpu { gpu: 3 }), "{error}");
    // A client of the one daemon, with its share on both GPUs.
    let worker = stage.fake.worker().display().to_string();
    let job = stage
        .try_admit(&[&worker], "", &on(&[0, 1]))
        .unwrap()
        .unwrap();
    stage.ready(job);
    assert_eq!(stage.host().settle(job).unwrap().sms, Some(40));
    stage.nothing_is_left();
}

#[test]
fn the_simulator_refuses_several_and_says_why() {
    let text = r#"{"schema":"mt.workload/1","device":{"kind":"sim","gpu":"rtx-3090","gpus":2},
        "tasks":[{"id":"a","model":"vgg16","batch_sizes":[8]}]}"#;
    let frames = doc::Frames::new(text.as_bytes(), "test");
    let mut workloads = doc::Documents::<_, Workload>::new(frames);
    let workload = workloads.next().unwrap().unwrap();
    let mut host = SimHost::open(&workload, None, 1).unwrap();
    let task = &workload.tasks[0];
    let work = Work {
        task,
        phase: PhaseKind::Compute,
        argv: &[],
        batch: Some(task.batch_sizes[0]),
        env: &[],
        round: 0,
        samples: Some(80),
        orders: false,
        log: "unused.log".into(),
        log_limits: LogLimits::default(),
    };
    let grant = Grant {
        gpus: Gpus::of(&[0, 1]).unwrap(),
        ..Grant::of(percent(50.0))
    };
    let error = host.admit(&work, &grant).unwrap_err();
    assert!(error.to_string().contains("not on 0, 1"), "{error}");
    let one = Grant {
        gpus: Gpus::one(1),
        ..grant
    };
    assert!(host.admit(&work, &one).unwrap().is_some());
}
