use crate::{Class, CoRates, TrainingJob, Underway, decode, smith};
use proptest::prelude::*;

use super::*;

/// Takes a GPU out of use; returns the jobs that are given up as a result.
fn take_out(agenda: &mut Agenda, gpu: usize) -> Vec<usize> {
    agenda.use_gpu(gpu, false);
    let stuck = agenda.stuck();
    stuck.iter().for_each(|&n| agenda.give_up(n));
    stuck
}

/// Follows an agenda in which every task takes its time.
fn run_as_planned(agenda: &mut Agenda) {
    let mut now = 0.0;
    loop {
        // One task a GPU at a time: another may join the one that has just been started.
        loop {
            let startable = agenda.startable(now);
            startable
                .iter()
                .for_each(|&(_, gpu)| agenda.start(gpu, now));
            if startable.is_empty() {
                break;
            }
        }
        let next = |r: &Underway| if r.training { r.trained } else { r.synced };
        now = agenda
            .running
            .iter()
            .map(next)
            .fold(f64::INFINITY, f64::min);
        if now.is_infinite() {
            return;
        }
        for r in agenda.running.clone().iter().filter(|r| next(r) <= now) {
            let place = TaskPlace {
                job: r.job,
                round: agenda.jobs[r.job].round,
                task: r.task,
            };
            if r.training {
                agenda.trained(place, now);
            } else {
                agenda.synced(place, now);
            }
        }
    }
}

fn problem(jobs: &[(usize, usize, f64)]) -> Problem {
    let class = Class {
        count: 0,
        memory: f64::INFINITY,
        bus: f64::INFINITY,
    };
    let jobs = jobs.iter().map(|&(rounds, tasks, train)| TrainingJob {
        weight: 1.0,
        arrival: 0.0,
        rounds,
        tasks,
        train: vec![train, 2.0 * train],
        sync: vec![0.1, 0.1],
        shortest_round: 0.0,
        deadline: f64::INFINITY,
        gang: None,
    });
    Problem::new(vec![class, class], vec![0, 0, 1], jobs.collect())
}

fn planned(problem: &Problem) -> Schedule {
    let order = Priorities::new(smith(problem));
    decode(problem, &order, Decoder::Events)
}

fn agenda(problem: &Problem) -> Agenda {
    let mut agenda = Agenda::new(problem.clone(), &planned(problem), 1);
    agenda.next.effort = 200;
    agenda
}

/// More tasks than a schedule can list one by one, so that equal rounds are one entry.
fn long() -> (Problem, Schedule) {
    let problem = problem(&[(60_000, 4, 1.0), (100_000, 3, 0.5), (70_000, 2, 2.0)]);
    let order = Priorities::new(smith(&problem));
    let schedule = decode(&problem, &order, Decoder::Blocks);
    assert!(schedule.assignments.len() < 5_000);
    (problem, schedule)
}

#[test]
fn a_plan_of_merged_rounds_is_followed_on_time() {
    let (problem, schedule) = long();
    assert_eq!(followed(problem.clone(), &schedule), Ok(()));
    let mut agenda = Agenda::new(problem, &schedule, 1);
    run_as_planned(&mut agenda);
    for (own, planned) in agenda.completions().iter().zip(&schedule.completions) {
        let own = own.expect("all complete");
        assert!((own / planned - 1.0).abs() < 1e-9, "{own} {planned}");
    }
}

#[test]
fn merged_rounds_are_done_once_whatever_fails() {
    let (problem, schedule) = long();
    let mut agenda = Agenda::new(problem.clone(), &schedule, 1);
    agenda.next.effort = 200;
    let mut complete = follow(&mut agenda, &[0.9, 1.0, 1.3], Some(1));
    assert_eq!(complete.len(), problem.volume());
    complete.sort_unstable();
    complete.dedup();
    assert_eq!(complete.len(), problem.volume());
}

#[test]
fn merged_rounds_that_alternate_on_a_gpu_are_refused() {
    let (problem, mut schedule) = long();
    let last = schedule.assignments.len() - 1;
    let (first, other) = (schedule.assignments[0], &mut schedule.assignments[last]);
    (other.gpu, other.start) = (first.gpu, first.trained);
    schedule
        .assignments
        .sort_by(|a, b| a.start.total_cmp(&b.start));
    let refused = followed(problem, &schedule).unwrap_err();
    assert!(refused.contains("in the middle of"), "{refused}");
}

/// Follows an agenda with given deviations: every task takes its time multiplied by the next
/// factor, a task fails at every seventh step, and the GPU `lose` is lost once two tasks are
/// complete. Returns the completed tasks in order.
fn follow(agenda: &mut Agenda, factors: &[f64], lose: Option<usize>) -> Vec<TaskPlace> {
    let mut now = 0.0;
    let mut ends: Vec<(f64, TaskPlace)> = Vec::new();
    let mut complete = Vec::new();
    let mut step = 0;
    while !agenda.done() {
        for (place, gpu) in agenda.startable(now) {
            agenda.start(gpu, now);
            let train = agenda.problem.jobs[place.job].train[agenda.problem.gpus[gpu]];
            ends.push((now + train * factors[step % factors.len()], place));
            step += 1;
        }
        ends.sort_by(|a, b| b.0.total_cmp(&a.0));
        let (at, place) = ends
            .pop()
            .expect("something runs while the agenda is not done");
        now = at;
        agenda.trained(place, now);
        if step % 7 == 3 {
            agenda.failed(place, now);
            step += 1;
        } else {
            agenda.synced(place, now);
            complete.push(place);
        }
        if let Some(gpu) = lose.filter(|_| complete.len() == 2) {
            take_out(agenda, gpu);
            agenda.replan(now);
        }
    }
    complete
}

#[test]
fn a_plan_is_followed_on_time() {
    let problem = problem(&[(2, 3, 1.0), (3, 1, 0.5)]);
    let schedule = planned(&problem);
    let mut agenda = Agenda::new(problem, &schedule, 1);
    let first = agenda.startable(0.0);
    let wanted = schedule.assignments.iter().filter(|a| a.start == 0.0);
    assert_eq!(first.len(), wanted.count());
    for (_, gpu) in first {
        agenda.start(gpu, 0.0);
    }
    assert!(agenda.startable(0.0).is_empty());
    assert!(!agenda.done());
}

#[test]
fn what_cannot_be_followed_is_said() {
    let problem = problem(&[(2, 1, 1.0)]);
    let mut schedule = planned(&problem);
    for a in &mut schedule.assignments {
        a.gpu = 0;
    }
    schedule.assignments.reverse();
    let agenda = Agenda::new(problem, &schedule, 1);
    assert_eq!(
        agenda.plays_out(),
        Err("round 1 of job 0 never becomes ready".to_owned())
    );
}

#[test]
fn without_a_gpu_that_can_run_it_a_job_is_given_up() {
    let mut problem = problem(&[(1, 1, 1.0), (1, 1, 1.0)]);
    let mut picky = problem.jobs[0].clone();
    picky.train[0] = f64::INFINITY;
    problem.replace(0, picky);
    let mut agenda = agenda(&problem);
    assert_eq!(take_out(&mut agenda, 2), [0]);
    agenda.replan(0.0);
    assert_eq!(follow(&mut agenda, &[1.0], None).len(), 1);
}

#[test]
fn a_lost_gpu_gets_nothing_when_its_task_ends() {
    let problem = problem(&[(3, 2, 1.0)]);
    let mut agenda = agenda(&problem);
    let started = agenda.startable(0.0);
    for &(_, gpu) in &started {
        agenda.start(gpu, 0.0);
    }
    assert!(take_out(&mut agenda, 0).is_empty());
    for &(place, _) in &started {
        agenda.trained(place, 1.0);
        agenda.synced(place, 1.1);
    }
    agenda.replan(1.1);
    let next = agenda.startable(1.1);
    assert!(
        !next.is_empty() && next.iter().all(|&(_, gpu)| gpu != 0),
        "{next:?}"
    );
}

#[test]
fn a_job_given_up_while_its_last_tasks_run_leaves_the_plan_to_others() {
    let problem = problem(&[(1, 3, 1.0), (2, 1, 4.0)]);
    let mut agenda = agenda(&problem);
    let started = agenda.startable(0.0);
    for &(_, gpu) in &started {
        agenda.start(gpu, 0.0);
    }
    agenda.give_up(0);
    agenda.replan(0.5);
    let queued: Vec<_> = agenda.next.queues.iter().flat_map(Lane::iter).collect();
    assert!(queued.iter().all(|(place, _)| place.job == 1));
    let running = started.iter().filter(|(place, _)| place.job == 1).count();
    assert_eq!(queued.len() + running, 2);
    for &(place, _) in started.iter().filter(|(place, _)| place.job == 0) {
        agenda.trained(place, 1.0);
        assert!(!agenda.synced(place, 1.0), "it is given up, not complete");
    }
    assert_eq!(agenda.completions()[0], None);
}

/// The same jobs, all of which may share a GPU of the first class.
fn sharing(problem: Problem) -> Problem {
    let count = problem.jobs.len();
    let pairs = (0..count).flat_map(|a| (a + 1..count).map(move |b| (0, [a, b], [0.9, 0.7])));
    problem.sharing(CoRates::new(count, pairs))
}

#[test]
fn a_plan_that_shares_gpus_is_followed_on_time() {
    let problem = sharing(problem(&[
        (2, 3, 1.0),
        (3, 2, 0.5),
        (2, 2, 2.0),
        (1, 1, 4.0),
    ]));
    let schedule = planned(&problem);
    let shares = |a: &Assignment| {
        let beside = |b: &&Assignment| b.job != a.job && b.gpu == a.gpu && b.start <= a.start;
        let all = schedule.assignments.iter().filter(beside);
        all.filter(|b| b.trained > a.start + 1e-9).count() == 1
    };
    assert!(schedule.assignments.iter().any(shares));
    let mut agenda = Agenda::new(problem, &schedule, 1);
    run_as_planned(&mut agenda);
    for (happened, planned) in agenda.completions().iter().zip(&schedule.completions) {
        let happened = happened.expect("all complete");
        assert!((happened - planned).abs() < 1e-9, "{happened} {planned}");
    }
}

#[test]
fn no_task_joins_one_beside_which_it_was_not_planned() {
    let problem = sharing(problem(&[(1, 1, 4.0), (1, 1, 4.0)]));
    let mut schedule = planned(&problem);
    for a in &mut schedule.assignments {
        // One after the other on the first GPU, whatever the rates.
        a.gpu = 0;
        a.start = 4.0 * a.job as f64;
        a.trained = a.start + 4.0;
    }
    let mut agenda = Agenda::new(problem, &schedule, 1);
    agenda.start(0, 0.0);
    assert_eq!(agenda.startable(1.0), []);
    assert_eq!(
        agenda.trained(
            TaskPlace {
                job: 0,
                round: 0,
                task: 0
            },
            4.0
        ),
        Some(1.0)
    );
    assert_eq!(agenda.startable(4.0).len(), 1);
}

/// Two jobs on the first GPU, as planned from the start on.
fn pair() -> (Agenda, [TaskPlace; 2]) {
    let problem = sharing(problem(&[(1, 1, 4.0), (1, 1, 4.0)]));
    let mut schedule = planned(&problem);
    for a in &mut schedule.assignments {
        (a.gpu, a.start, a.trained) = (0, 0.0, 5.0);
    }
    let mut agenda = Agenda::new(problem, &schedule, 1);
    agenda.start(0, 0.0);
    agenda.start(0, 0.0);
    let place = |job| TaskPlace {
        job,
        round: 0,
        task: 0,
    };
    (agenda, [place(0), place(1)])
}

#[test]
fn a_task_that_fails_beside_another_starts_there_again() {
    let (mut agenda, [first, second]) = pair();
    agenda.failed(first, 1.0);
    assert_eq!(agenda.startable(1.0), [(first, 0)]);
    agenda.failed(second, 1.0);
    assert_eq!(agenda.startable(1.0).len(), 1);
    agenda.start(0, 1.0);
    assert_eq!(agenda.startable(1.0).len(), 1);
}

#[test]
fn whoever_is_left_by_a_cancelled_job_is_expected_at_its_rate_alone() {
    let (mut agenda, [cancelled, left]) = pair();
    agenda.give_up(cancelled.job);
    agenda.failed(cancelled, 1.0);
    // 0.7 of its 4 s were done beside the other.
    let ratio = agenda.trained(left, 4.3);
    assert!((ratio.unwrap_or(0.0) - 1.0).abs() < 1e-9, "{ratio:?}");
}

fn gangs(jobs: &[(usize, usize, f64)]) -> Problem {
    let mut problem = problem(jobs);
    for n in 0..jobs.len() {
        let mut job = problem.jobs[n].clone();
        job.gang = Some(doc::Gang::Anywhere);
        problem.replace(n, job);
    }
    problem
}

#[test]
fn a_gang_starts_as_a_whole_and_again_when_one_of_it_fails() {
    let problem = gangs(&[(2, 2, 1.0)]);
    let mut agenda = agenda(&problem);
    let first = agenda.startable(0.0);
    let [(one, _), (other, second)] = first[..] else {
        panic!("{first:?}");
    };
    assert_eq!(agenda.peers(one).map(|p| p.len()), Some(2));
    for &(_, gpu) in &first {
        agenda.start(gpu, 0.0);
    }
    agenda.trained(one, 1.0);
    assert!(!agenda.synced(one, 1.1));
    agenda.failed(other, 1.2);
    assert_eq!(
        agenda.startable(1.2).len(),
        2,
        "also the one that had ended"
    );
    for &(_, gpu) in &first {
        agenda.start(gpu, 1.2);
    }
    // Its GPU is lost while it trains: the gang needs another, and both start there.
    assert!(take_out(&mut agenda, second).is_empty());
    agenda.failed(other, 2.0);
    let next = agenda.startable(2.0);
    assert!(
        next.len() == 2 && next.iter().all(|n| n.1 != second),
        "{next:?}"
    );
    let left = (0..3).find(|&m| m != second).unwrap_or_default();
    assert_eq!(
        take_out(&mut agenda, left),
        [0],
        "one GPU is too few for two at once"
    );
}

#[test]
fn gangs_of_several_widths_play_out() {
    let problem = gangs(&[(2, 2, 1.0), (3, 3, 0.5), (2, 1, 2.0), (1, 2, 0.7)]);
    let schedule = planned(&problem);
    assert_eq!(schedule.verify(&problem), Ok(()));
    assert_eq!(Agenda::new(problem, &schedule, 1).plays_out(), Ok(()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// An agenda that resumes after any part of the tasks runs each of the others once.
    #[test]
    fn what_is_done_stays_done(
        jobs in prop::collection::vec((1_usize..4, 1_usize..5, 0.1..5.0_f64), 1..6),
        part in 0.0..1.0_f64,
    ) {
        let problem = problem(&jobs);
        let order = follow(&mut agenda(&problem), &[1.0], None);
        let kept = (part * order.len() as f64) as usize;
        let done = order[..kept].iter().map(|p| (*p, 0.0));
        let mut again = agenda(&problem);
        again.resume(&done.collect(), 0.0);
        let mut rest = follow(&mut again, &[1.0], None);
        rest.extend(&order[..kept]);
        rest.sort_unstable();
        rest.dedup();
        prop_assert_eq!(rest.len(), problem.volume());
        prop_assert!(again.completions().iter().all(Option::is_some));
    }

    /// Whatever the times, failures and lost GPUs, every task is completed once and the agenda
    /// ends.
    #[test]
    fn everything_is_done_once(
        jobs in prop::collection::vec((1_usize..4, 1_usize..5, 0.1..5.0_f64), 1..6),
        factors in prop::collection::vec(0.3..3.0_f64, 1..6),
        lose in prop::option::of(0_usize..3),
        shares in any::<bool>(),
    ) {
        let apart = problem(&jobs);
        let problem = if shares { sharing(apart) } else { apart };
        let mut agenda = agenda(&problem);
        let mut complete = follow(&mut agenda, &factors, lose);
        let whole = complete.len();
        complete.sort_unstable();
        complete.dedup();
        prop_assert_eq!(whole, complete.len());
        prop_assert_eq!(whole, problem.volume());
    }
}

proptest! {
    /// The forecast at the start comes true if every task takes its planned time, with and without
    /// gangs.
    #[test]
    fn what_is_expected_at_first_happens(
        jobs in prop::collection::vec((1_usize..5, 1_usize..4, 0.5..3.0_f64, any::<bool>()), 1..6),
    ) {
        let shapes: Vec<(usize, usize, f64)> = jobs.iter().map(|j| (j.0, j.1, j.2)).collect();
        let mut problem = problem(&shapes);
        for (n, job) in jobs.iter().enumerate() {
            let mut own = problem.jobs[n].clone();
            own.gang = Some(doc::Gang::Anywhere).filter(|_| job.3 && job.1 > 1);
            problem.replace(n, own);
        }
        let schedule = planned(&problem);
        let mut agenda = Agenda::new(problem.clone(), &schedule, 1);
        let names: Vec<units::TaskId> = (0..jobs.len())
            .map(|n| units::TaskId::new(&format!("j{n}")).expect("a name"))
            .collect();
        let gpus = ["a", "b", "c"].map(str::to_owned);
        let names = Names { jobs: &names, gpus: &gpus };
        let told = agenda.outlook(0.0, &names).expect("times that can be written");
        run_as_planned(&mut agenda);
        for (status, happened) in told.iter().zip(agenda.completions()) {
            let end = status.end.expect("an end").at.get();
            let happened = happened.expect("all complete");
            prop_assert!((end - happened).abs() < 1e-9, "{} {}", end, happened);
        }
    }
}
