//! Published schedulers, implemented as their authors describe them and run in the same simulated
//! cluster.

mod allox;
mod gang;
mod matching;

pub use allox::allox;
pub(crate) use allox::{sequences, train_round};
pub use gang::{fifo, srtf};

use doc::Gang;

use crate::list::{Choice, Fill, place};
use crate::problem::total;
use crate::{Assignment, Problem, Schedule, TaskPlace};

/// Sched_Homo of Hare's evaluation: it uses weights and the parallelism within and between jobs,
/// but ignores GPU types. Sorts jobs by Smith's ratio of the *mean* training time and puts every
/// task on the earliest available GPU.
///
/// Decides as time passes: a job is considered from its arrival on and never delays a task that has
/// started.
pub fn homo(problem: &Problem) -> Schedule {
    let blind = |n: usize| {
        let job = &problem.jobs[n];
        let known = job.train.iter().filter(|t| t.is_finite());
        let (sum, count) = known.fold((0.0, 0.0), |(s, c), t| (s + t, c + 1.0));
        job.volume() as f64 * sum / count / job.weight
    };
    let mut order: Vec<usize> = (0..problem.jobs.len()).collect();
    order.sort_by(|&a, &b| total(blind(a), blind(b)).then(a.cmp(&b)));
    greedy_available(problem, &order)
}

/// Whenever a GPU is idle, the most urgent ready task goes to the GPU that has been idle longest.
fn greedy_available(problem: &Problem, order: &[usize]) -> Schedule {
    let mut free = vec![0.0_f64; problem.gpus.len()];
    let mut jobs = crate::state::ClusterState::new(problem).jobs;
    let mut assignments = Vec::with_capacity(problem.volume());
    let mut now = 0.0;
    loop {
        for &n in order {
            let job = &problem.jobs[n];
            let p = &mut jobs[n];
            if job.gang.is_some() {
                if p.round < job.rounds && p.ready <= now {
                    p.ready = start_gang(problem, n, p.round, &mut free, now, &mut assignments)
                        .inspect(|_| p.round += 1)
                        .unwrap_or(p.ready);
                }
                continue;
            }
            while p.round < job.rounds && p.ready <= now && p.started < job.tasks {
                let usable = |m: &usize| job.train[problem.gpus[*m]].is_finite();
                let idle = (0..free.len()).filter(usable).filter(|&m| free[m] <= now);
                let Some(gpu) = idle.min_by(|&a, &b| total(free[a], free[b])) else {
                    break;
                };
                let class = problem.gpus[gpu];
                let trained = now + job.train[class];
                let synced = trained + job.sync[class];
                assignments.push(Assignment::new(p.next_task(n), gpu, now, trained, synced));
                free[gpu] = trained;
                p.start(job, synced);
            }
        }
        let left = jobs
            .iter()
            .zip(&problem.jobs)
            .filter(|(p, j)| p.round < j.rounds)
            .map(|(p, _)| p);
        let ready = left.clone().map(|p| p.ready);
        let moments = ready.chain(free.iter().copied()).filter(|&t| t > now);
        let next = moments.fold(f64::INFINITY, f64::min);
        if left.count() == 0 || next.is_infinite() {
            return Schedule::new(problem.jobs.len(), assignments);
        }
        now = next;
    }
}

/// Starts a gang on the GPUs that have been idle longest, whatever their type, if there are enough;
/// returns when it is synchronised.
fn start_gang(
    problem: &Problem,
    n: usize,
    round: usize,
    free: &mut [f64],
    now: f64,
    out: &mut Vec<Assignment>,
) -> Option<f64> {
    let job = &problem.jobs[n];
    let usable = |m: &usize| free[*m] <= now && job.train[problem.gpus[*m]].is_finite();
    let mut idle: Vec<usize> = (0..free.len()).filter(usable).collect();
    idle.sort_by(|&a, &b| total(free[a], free[b]).then(a.cmp(&b)));
    if job.gang == Some(Gang::SameNode) {
        let of = |m: &usize| problem.nodes[*m];
        let enough = |m: &usize| idle.iter().filter(|k| of(k) == of(m)).count() >= job.tasks;
        let node = of(idle.iter().find(|m| enough(m))?);
        idle.retain(|m| of(m) == node);
    }
    let gpus = idle.get(..job.tasks)?;
    let (train, sync) = problem.pace(n, gpus);
    let trained = now + train;
    for (task, &gpu) in gpus.iter().enumerate() {
        free[gpu] = trained;
        let place = TaskPlace {
            job: n,
            round,
            task,
        };
        out.push(Assignment::new(place, gpu, now, trained, trained + sync));
    }
    Some(trained + sync)
}

/// Hare as printed: the relaxation has the volume inequality on the complete set of tasks only,
/// tasks are ordered by its midpoints `H`, and each takes the earliest available GPU.
///
/// With that one inequality the relaxation has a closed form: every job runs along its chain from
/// its arrival on, and the missing volume delays one job as a whole, the one that is cheapest to
/// delay (least `w / (R D p)`). For the same reason its bound and its claimed ratio do not hold:
/// see the test `counter_example`.
pub fn hare_literal(problem: &Problem) -> Schedule {
    let mut rounds: Vec<(f64, usize, usize)> = Vec::new();
    let delays = literal_delays(problem);
    for (n, job) in problem.jobs.iter().enumerate() {
        for r in 0..job.rounds {
            let begin = job.arrival + r as f64 * job.shortest_round + delays[n];
            rounds.push((begin + job.fastest() / 2.0, n, r));
        }
    }
    rounds.sort_by(|a, b| total(a.0, b.0).then(a.1.cmp(&b.1)).then(a.2.cmp(&b.2)));
    let order: Vec<(usize, usize)> = rounds.iter().map(|&(_, n, r)| (n, r)).collect();
    place(problem, &order, Fill::Append, Choice::EarliestAvailable)
}

/// Seconds by which the relaxation on the complete set delays each job.
fn literal_delays(problem: &Problem) -> Vec<f64> {
    let gpus = problem.gpus.len() as f64;
    let mut have = 0.0;
    let mut volume = 0.0;
    let mut squares = 0.0;
    for job in &problem.jobs {
        let p = job.fastest();
        let tasks = job.volume() as f64;
        let mean_end = job.arrival + (job.rounds - 1) as f64 / 2.0 * job.shortest_round + p;
        have += tasks * p * mean_end;
        volume += tasks * p;
        squares += tasks * p * p;
    }
    let missing = (volume * volume / gpus + squares) / 2.0 - have;
    let mut delays = vec![0.0; problem.jobs.len()];
    let price = |n: usize| {
        let job = &problem.jobs[n];
        job.weight / (job.volume() as f64 * job.fastest())
    };
    let cheapest = (0..delays.len()).min_by(|&a, &b| total(price(a), price(b)).then(b.cmp(&a)));
    if let Some(n) = cheapest.filter(|_| missing > 0.0) {
        let job = &problem.jobs[n];
        delays[n] = missing / (job.volume() as f64 * job.fastest());
    }
    delays
}

/// The greedy algorithm with the guarantee `4 alpha` (Munier, Queyranne, Schulz). Orders rounds by
/// their midpoints in a relaxation that has the inequalities of all subsets, and puts each task
/// where it ends earliest.
pub fn by_midpoints(problem: &Problem, midpoints: &[Vec<f64>]) -> Schedule {
    let each = problem
        .jobs
        .iter()
        .enumerate()
        .flat_map(|(n, job)| (0..job.rounds).map(move |r| (n, r)));
    let mut rounds: Vec<(usize, usize)> = each.collect();
    rounds.sort_by(|&(a, r), &(b, s)| {
        total(midpoints[a][r], midpoints[b][s]).then((a, r).cmp(&(b, s)))
    });
    place(problem, &rounds, Fill::Append, Choice::EarliestCompletion)
}
