//! The trivial rival of scheduling online: the job with the least remaining work over its weight first, each task
//! where it is synchronised first.

use cluster::{Assignment, Problem, Schedule, TaskPlace};

/// How far a job is.
struct Job {
    round: usize,
    started: usize,
    ready: f64,
    synced: f64,
}

/// Plays the rule as time passes. At every arrival and every end the jobs are looked at again; a task that would be done
/// first on a busy GPU waits for it. Gangs are not modelled.
pub fn urgent_first(problem: &Problem) -> Schedule {
    let fresh = |arrival| Job {
        round: 0,
        started: 0,
        ready: arrival,
        synced: 0.0,
    };
    let mut jobs: Vec<Job> = problem.jobs.iter().map(|j| fresh(j.arrival)).collect();
    let mut free = vec![0.0_f64; problem.gpus.len()];
    let mut out = Vec::with_capacity(problem.volume());
    let mut now = 0.0;
    loop {
        let work = |n: usize| {
            let (job, own) = (&problem.jobs[n], &jobs[n]);
            ((job.rounds - own.round) * job.tasks) as f64 * job.fastest() / job.weight
        };
        let mut waiting: Vec<usize> = (0..jobs.len())
            .filter(|&n| jobs[n].round < problem.jobs[n].rounds && jobs[n].ready <= now)
            .collect();
        waiting.sort_by(|&a, &b| work(a).total_cmp(&work(b)));
        let mut available: Vec<f64> = free.iter().map(|&t: &f64| t.max(now)).collect();
        for n in waiting {
            let (job, own) = (&problem.jobs[n], &mut jobs[n]);
            for _ in own.started..job.tasks {
                let end = |m: usize| {
                    let class = problem.gpus[m];
                    available[m] + job.train[class] + job.sync[class]
                };
                let best = (0..free.len()).min_by(|&a, &b| end(a).total_cmp(&end(b)));
                let Some(gpu) = best else { break };
                let (train, synced) = (job.train[problem.gpus[gpu]], end(gpu));
                let start = available[gpu];
                available[gpu] += train;
                if start > now {
                    continue;
                }
                let place = TaskPlace {
                    job: n,
                    round: own.round,
                    task: own.started,
                };
                free[gpu] = now + train;
                out.push(Assignment::new(place, gpu, now, now + train, synced));
                own.started += 1;
                own.synced = own.synced.max(synced);
            }
            if own.started == job.tasks {
                (own.round, own.started, own.ready) = (own.round + 1, 0, own.synced);
                own.synced = 0.0;
            }
        }
        let open = (0..jobs.len()).filter(|&n| jobs[n].round < problem.jobs[n].rounds);
        let moments = open.map(|n| jobs[n].ready).chain(free.iter().copied());
        now = moments.filter(|&t| t > now).fold(f64::INFINITY, f64::min);
        if now.is_infinite() {
            return Schedule::new(problem.jobs.len(), out);
        }
    }
}
