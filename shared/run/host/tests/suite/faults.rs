//! Faults of one GPU of several, daemons that die, and clients that stay in the list.

use std::time::{Duration, Instant};

use host::{Fault, FaultKind, Gpus, Grant, Health, Recovery};
use jobs::{Exit, JobId};

use crate::stage::{Stage, percent};

/// A server that does not recover is not replaced within a test.
const NEVER: Duration = Duration::from_secs(3600);

fn worker(stage: &mut Stage, gpu: usize, mode: &str) -> JobId {
    let worker = stage.fake.worker().display().to_string();
    let grant = Grant {
        gpus: Gpus::one(gpu),
        ..Grant::of(percent(50.0))
    };
    let job = stage.try_admit(&[&worker], mode, &grant);
    job.unwrap().unwrap()
}

fn ready_worker(stage: &mut Stage, gpu: usize) -> JobId {
    let job = worker(stage, gpu, "");
    stage.ready(job);
    job
}

fn faults(stage: &mut Stage) -> Vec<(Gpus, FaultKind)> {
    match stage.host().health() {
        Health::Faulted(faults) => faults
            .into_iter()
            .map(|Fault { gpus, kind }| (gpus, kind))
            .collect(),
        Health::Good => Vec::new(),
        Health::Unknown(error) => panic!("{error}"),
    }
}

/// Asks until a GPU has recovered.
fn recovered(stage: &mut Stage, gpu: usize) -> Recovery {
    let begun = Instant::now();
    loop {
        match stage.host().recover(&Gpus::one(gpu)).unwrap() {
            Recovery::Pending => std::thread::sleep(Duration::from_millis(20)),
            done => return done,
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "not yet");
    }
}

fn stop(stage: &mut Stage, job: JobId) {
    stage.host().stop(job, Duration::from_secs(5));
    stage.exit(job);
}

fn serves(stage: &mut Stage, gpu: usize) {
    assert_eq!(faults(stage), []);
    let job = ready_worker(stage, gpu);
    stage.host().settle(job).unwrap();
}

#[test]
fn a_fault_concerns_its_own_gpu_and_the_jobs_of_others_go_on() {
    let mut stage = Stage::mps_with(2, false, NEVER);
    let [other, victim] = [0, 1].map(|gpu| ready_worker(&mut stage, gpu));
    let culprit = worker(&mut stage, 1, "faults");
    assert_eq!(stage.exit(culprit).0, Exit::Code(1));
    assert_eq!(faults(&mut stage), [(Gpus::one(1), FaultKind::Server)]);
    stop(&mut stage, victim);
    assert_eq!(recovered(&mut stage, 1), Recovery::Recovered);
    assert!(stage.host().is_running(other));
    serves(&mut stage, 1);
    stage.nothing_is_left();
}

#[test]
fn a_daemon_that_has_died_is_started_again_at_once() {
    let mut stage = Stage::mps_with(2, false, NEVER);
    let jobs = [0, 1].map(|gpu| ready_worker(&mut stage, gpu));
    let daemon = jobs::process::Identity::of(stage.daemon(1)).unwrap();
    daemon.kill();
    while daemon.is_alive() {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(faults(&mut stage), [(Gpus::one(1), FaultKind::Daemon)]);
    stop(&mut stage, jobs[1]);
    assert_eq!(recovered(&mut stage, 1), Recovery::Replaced);
    assert!(stage.host().is_running(jobs[0]));
    serves(&mut stage, 1);
    stage.nothing_is_left();
}

#[test]
fn a_server_that_counts_clients_that_have_gone_is_replaced_within_seconds() {
    let mut stage = Stage::mps_with(1, false, NEVER);
    stage.fake.set("zombies", "");
    let culprit = worker(&mut stage, 0, "faults");
    assert_eq!(stage.exit(culprit).0, Exit::Code(1));
    assert_eq!(faults(&mut stage), [(Gpus::one(0), FaultKind::Server)]);
    assert_eq!(recovered(&mut stage, 0), Recovery::Replaced);
    serves(&mut stage, 0);
    stage.nothing_is_left();
}
