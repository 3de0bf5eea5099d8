use super::*;
use crate::{Class, Decision, Online, OnlineSettings, TaskPlace, TrainingJob};

/// Two GPUs, and a job of two rounds of two tasks that train for 4 s and synchronise for 1 s.
fn problem() -> Problem {
    let class = Class {
        count: 0,
        memory: f64::INFINITY,
        bus: f64::INFINITY,
    };
    Problem::new(vec![class], vec![0, 0], vec![job()])
}

fn job() -> TrainingJob {
    TrainingJob {
        weight: 1.0,
        arrival: 0.0,
        rounds: 2,
        tasks: 2,
        train: vec![4.0],
        sync: vec![1.0],
        shortest_round: 0.0,
        deadline: f64::INFINITY,
        gang: None,
    }
}

fn expected(
    usable: [bool; 2],
    underway: &[Underway],
    standing: Standing,
    now: f64,
) -> ClusterState {
    ClusterState::expected(&problem(), &usable, underway, [standing].into_iter(), now)
}

const FIRST: Standing = Standing {
    round: 0,
    started: 1,
    ready: 0.0,
};

#[test]
fn a_gpu_is_free_when_its_task_has_trained() {
    let mut task = Underway::new(&problem(), 0, 0, 0, 0.5);
    let state = expected([true; 2], &[task], FIRST, 1.0);
    assert_eq!(state.free, [4.5, 1.0]);
    assert_eq!((state.jobs[0].started, state.jobs[0].synced), (1, 5.5));
    // The training ends half a second late, so the synchronisation does, too.
    task.end_training(5.0);
    let state = expected([true; 2], &[task], FIRST, 5.0);
    assert_eq!((state.free, state.jobs[0].synced), (vec![5.0; 2], 6.0));
}

#[test]
fn an_overdue_task_is_expected_a_little_later() {
    let task = Underway::new(&problem(), 0, 0, 1, 0.0);
    let state = expected([true; 2], &[task], FIRST, 10.0);
    assert_eq!(state.free, [10.0, 10.0 + OVERDUE * 4.0]);
    assert_eq!(state.jobs[0].synced, 10.0 + OVERDUE * 4.0);
}

#[test]
fn a_lost_gpu_is_not_freed_by_its_task() {
    let mut task = Underway::new(&problem(), 0, 0, 0, 0.0);
    for now in [1.0, 3.0] {
        let state = expected([false, true], &[task], FIRST, now);
        assert_eq!(state.free, [f64::INFINITY, now]);
        assert_eq!(state.jobs[0].synced, 5.0, "it may end all the same");
    }
    task.end_training(4.0);
    let state = expected([false, true], &[task], FIRST, 4.0);
    assert_eq!(state.free, [f64::INFINITY, 4.0]);
}

#[test]
fn the_round_after_one_that_runs_as_a_whole_is_waited_for() {
    let underway = [0, 1].map(|t| Underway::new(&problem(), 0, t, t, t as f64));
    let standing = Standing {
        started: 2,
        ..FIRST
    };
    let job = expected([true; 2], &underway, standing, 2.0).jobs[0];
    assert_eq!((job.round, job.started, job.ready), (1, 0, 6.0));
    // The same in the last round: the job is complete then.
    let last = Standing {
        round: 1,
        ..standing
    };
    assert_eq!(expected([true; 2], &underway, last, 2.0).jobs[0].round, 2);
}

#[test]
fn a_job_abandoned_while_its_last_tasks_run_is_behind_its_last_round() {
    let underway = [0, 1].map(|t| Underway::new(&problem(), 0, t, t, 0.0));
    let standing = Standing {
        round: 2,
        started: 2,
        ready: 0.0,
    };
    let state = expected([true; 2], &underway, standing, 1.0);
    assert_eq!((state.jobs[0].round, state.jobs[0].started), (2, 0));
    assert_eq!(state.free, [4.0; 2]);
}

fn live() -> Online {
    let problem = problem();
    Online::new(
        problem.classes,
        problem.gpus,
        problem.nodes,
        OnlineSettings::default(),
    )
}

fn gpus(decisions: &[Decision]) -> Vec<usize> {
    decisions.iter().map(|d| d.gpu).collect()
}

#[test]
fn a_lost_gpu_gives_its_task_to_another_and_gets_nothing_until_it_is_found() {
    let mut live = live();
    live.arrive(job(), None, 0.0);
    let first = live.decide(0.0);
    assert_eq!(first.len(), 2);
    // No failure of the task is reported: a dead node cannot report one.
    let lost = first.iter().find(|d| d.gpu == 0).unwrap().place;
    assert_eq!(live.lose(0), [lost]);
    let other = TaskPlace {
        task: 1 - lost.task,
        ..lost
    };
    assert!(live.decide(1.0).is_empty(), "the other GPU trains");
    live.trained(other, 4.0);
    let again = live.decide(4.0);
    assert_eq!((again[0].place, again[0].gpu, again.len()), (lost, 1, 1));
    live.synced(other, 5.0);
    live.trained(lost, 8.0);
    live.synced(lost, 9.0);
    assert_eq!(live.round(0), 1, "the round is complete");
    live.replan(9.0);
    assert_eq!(gpus(&live.decide(9.0)), [1], "one of the two is lost");
    live.use_gpu(0, true);
    assert_eq!(gpus(&live.decide(9.5)), [0]);
}

#[test]
fn a_gang_is_started_again_as_a_whole_when_one_of_it_fails() {
    let mut live = live();
    let gang = Some(doc::Gang::Anywhere);
    live.arrive(TrainingJob { gang, ..job() }, None, 0.0);
    let first = live.decide(0.0);
    assert_eq!(first.len(), 2);
    live.failed(first[1].place);
    assert_eq!(live.decide(1.0).len(), 2, "both start again");
    assert_eq!(live.lose(1).len(), 2, "so they do where a GPU is lost");
    assert!(live.decide(2.0).is_empty(), "one GPU is too few");
    live.use_gpu(1, true);
    assert_eq!(live.decide(3.0).len(), 2);
}

#[test]
fn an_abandoned_job_leaves_its_gpus_to_others() {
    let mut live = live();
    live.arrive(TrainingJob { rounds: 1, ..job() }, None, 0.0);
    assert_eq!(live.decide(0.0).len(), 2);
    let next = live.arrive(job(), None, 1.0);
    assert!(live.decide(1.0).is_empty());
    live.cancel(0);
    live.replan(2.0);
    let started = live.decide(2.0);
    assert!(started.len() == 2 && started.iter().all(|d| d.place.job == next));
    live.cancel(next);
    live.replan(3.0);
    assert!(live.done() && live.decide(3.0).is_empty());
}
