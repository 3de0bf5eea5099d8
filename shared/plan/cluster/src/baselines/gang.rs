//! Schedulers that give a job all its GPUs at once.

use crate::problem::total;
use crate::{Assignment, Problem, Schedule, TaskPlace, TrainingJob};

/// GPUs that a job requests at once: one per task, or all that it can use if there are fewer.
fn gang(problem: &Problem, job: &TrainingJob) -> usize {
    let usable = problem.gpus.iter().filter(|&&g| job.train[g].is_finite());
    job.tasks.min(usable.count())
}

/// The fastest GPUs that are free at `now`, if there are enough for the gang.
fn fastest_free(problem: &Problem, n: usize, free: &[f64], now: f64) -> Option<Vec<usize>> {
    let job = &problem.jobs[n];
    let train = |m: usize| job.train[problem.gpus[m]];
    if job.gang.is_some() {
        let idle = free
            .iter()
            .map(|&t| if t <= now { now } else { f64::INFINITY });
        let idle: Vec<f64> = idle.collect();
        return problem.together(n, u64::MAX, &idle).map(|t| t.gpus);
    }
    let mut idle: Vec<usize> = (0..free.len())
        .filter(|&m| free[m] <= now && train(m).is_finite())
        .collect();
    let want = gang(problem, job);
    if idle.len() < want {
        return None;
    }
    idle.sort_by(|&a, &b| total(train(a), train(b)).then(a.cmp(&b)));
    idle.truncate(want);
    Some(idle)
}

/// Runs one round of a gang from `now`; returns its end. Each task goes to the GPU of the gang that
/// finishes it first, so a round takes several waves if there are fewer GPUs than tasks.
fn run_round(
    problem: &Problem,
    n: usize,
    round: usize,
    gpus: &[usize],
    now: f64,
    out: &mut Vec<Assignment>,
) -> f64 {
    let job = &problem.jobs[n];
    let place = |task| TaskPlace {
        job: n,
        round,
        task,
    };
    if job.gang.is_some() {
        let (train, sync) = problem.pace(n, gpus);
        let (trained, synced) = (now + train, now + train + sync);
        for (task, &gpu) in gpus.iter().enumerate() {
            out.push(Assignment::new(place(task), gpu, now, trained, synced));
        }
        return synced;
    }
    let mut free = vec![now; gpus.len()];
    let mut end = now;
    for task in 0..job.tasks {
        let done = |i: usize| free[i] + job.train[problem.gpus[gpus[i]]];
        let best = (0..gpus.len()).min_by(|&a, &b| total(done(a), done(b)));
        let Some(i) = best else { continue };
        let class = problem.gpus[gpus[i]];
        let trained = done(i);
        let synced = trained + job.sync[class];
        out.push(Assignment::new(
            place(task),
            gpus[i],
            free[i],
            trained,
            synced,
        ));
        free[i] = trained;
        end = end.max(synced);
    }
    end
}

/// Gavel's FIFO: jobs in order of arrival; the first waits until enough GPUs are free, takes the
/// fastest, and keeps them to its end. There is no overtaking.
pub fn fifo(problem: &Problem) -> Schedule {
    let mut order: Vec<usize> = (0..problem.jobs.len()).collect();
    order.sort_by(|&a, &b| total(problem.jobs[a].arrival, problem.jobs[b].arrival).then(a.cmp(&b)));
    let mut free = vec![0.0_f64; problem.gpus.len()];
    let mut now = 0.0_f64;
    let mut out = Vec::with_capacity(problem.volume());
    for n in order {
        let job = &problem.jobs[n];
        now = now.max(job.arrival);
        let gpus = loop {
            if let Some(gpus) = fastest_free(problem, n, &free, now) {
                break gpus;
            }
            now = free
                .iter()
                .copied()
                .filter(|&t| t > now)
                .fold(f64::INFINITY, f64::min);
        };
        let mut end = now;
        for round in 0..job.rounds {
            end = run_round(problem, n, round, &gpus, end, &mut out);
        }
        for gpu in gpus {
            free[gpu] = end;
        }
    }
    Schedule::new(problem.jobs.len(), out)
}

/// Shortest remaining time first, with preemption between rounds: whenever GPUs are free, the job
/// with the least remaining time (at its fastest) that fits takes them for one round, as a gang.
pub fn srtf(problem: &Problem) -> Schedule {
    let jobs = &problem.jobs;
    let mut free = vec![0.0_f64; problem.gpus.len()];
    let mut ready: Vec<f64> = jobs.iter().map(|j| j.arrival).collect();
    let mut round = vec![0; jobs.len()];
    let mut now = 0.0_f64;
    let mut out = Vec::with_capacity(problem.volume());
    loop {
        let left = |n: usize, r: usize| (jobs[n].rounds - r) as f64 * jobs[n].shortest_round;
        let mut waiting: Vec<usize> = (0..jobs.len())
            .filter(|&n| round[n] < jobs[n].rounds && ready[n] <= now)
            .collect();
        waiting.sort_by(|&a, &b| total(left(a, round[a]), left(b, round[b])).then(a.cmp(&b)));
        for n in waiting {
            if let Some(gpus) = fastest_free(problem, n, &free, now) {
                let end = run_round(problem, n, round[n], &gpus, now, &mut out);
                for gpu in gpus {
                    free[gpu] = end;
                }
                round[n] += 1;
                ready[n] = end;
            }
        }
        let moments = (0..jobs.len())
            .filter(|&n| round[n] < jobs[n].rounds)
            .map(|n| ready[n])
            .chain(free.iter().copied());
        let next = moments.filter(|&t| t > now).fold(f64::INFINITY, f64::min);
        if next.is_infinite() {
            return Schedule::new(jobs.len(), out);
        }
        now = next;
    }
}
