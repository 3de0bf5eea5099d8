//! AlloX (Le et al., EuroSys 2020): every job runs on one GPU. A bipartite matching of least total
//! completion time gives each job its GPU and its place there, counted from the end of the GPU's
//! sequence.

use super::matching::assign;
use crate::problem::total;
use crate::{Assignment, Problem, Schedule, TaskPlace};

/// Seconds of a whole job on one GPU: in each round the tasks run one after another, then
/// synchronise.
fn alone(problem: &Problem, n: usize, gpu: usize) -> f64 {
    let job = &problem.jobs[n];
    let class = problem.gpus[gpu];
    job.rounds as f64 * (job.tasks as f64 * job.train[class] + job.sync[class])
}

/// Matches the waiting jobs again at each arrival and each completion; running jobs keep their
/// GPUs.
pub fn allox(problem: &Problem) -> Schedule {
    let mut waiting: Vec<usize> = Vec::new();
    let mut arrivals: Vec<usize> = (0..problem.jobs.len()).collect();
    arrivals.sort_by(|&a, &b| total(problem.jobs[b].arrival, problem.jobs[a].arrival));
    let mut free = vec![0.0_f64; problem.gpus.len()];
    let mut out = Vec::with_capacity(problem.volume());
    let mut now = 0.0_f64;
    loop {
        while let Some(&n) = arrivals.last() {
            if problem.jobs[n].arrival > now {
                break;
            }
            waiting.extend(arrivals.pop());
        }
        if !waiting.is_empty() && free.iter().any(|&t| t <= now) {
            for (n, gpu) in starts(problem, &waiting, &free, now) {
                waiting.retain(|&m| m != n);
                free[gpu] = run(problem, n, gpu, now, &mut out);
            }
        }
        let arrival = arrivals.last().map(|&n| problem.jobs[n].arrival);
        let ends = free
            .iter()
            .copied()
            .filter(|&t| t > now && !waiting.is_empty());
        let next = ends.chain(arrival).fold(f64::INFINITY, f64::min);
        if next.is_infinite() {
            return Schedule::new(problem.jobs.len(), out);
        }
        now = next;
    }
}

/// Waiting jobs that start now, with their GPUs: the first of each idle GPU's matched sequence.
fn starts(problem: &Problem, waiting: &[usize], free: &[f64], now: f64) -> Vec<(usize, usize)> {
    let cost = |row: usize, gpu: usize| {
        let whole = alone(problem, waiting[row], gpu);
        (whole, (free[gpu] - now).max(0.0))
    };
    let sequences = sequences(waiting.len(), free.len(), cost);
    let firsts = sequences.iter().enumerate();
    firsts
        .filter(|&(gpu, _)| free[gpu] <= now)
        .filter_map(|(gpu, own)| own.first().map(|&row| (waiting[row], gpu)))
        .collect()
}

/// The sequence of every GPU in a matching of least total completion time; `cost` returns, for a
/// job (numbered in `0..jobs`) on a GPU, its running time and the delay before it could begin if it
/// were first there, in seconds.
///
/// A job in place k from the end of GPU m delays k jobs, itself included, so it costs `k p_nm`; its
/// delay counts once. To keep the matching small, a GPU has at most twice the mean number of jobs
/// per GPU plus two places; a fast GPU among very slow ones could use more.
pub fn sequences(
    jobs: usize,
    gpus: usize,
    cost: impl Fn(usize, usize) -> (f64, f64),
) -> Vec<Vec<usize>> {
    let places = ((2 * jobs).div_ceil(gpus) + 2).min(jobs);
    let mut out = vec![Vec::new(); gpus];
    if places * gpus < jobs {
        return out;
    }
    let by_column = |row: usize, column: usize| {
        let (gpu, place) = (column % gpus, column / gpus + 1);
        let (whole, delay) = cost(row, gpu);
        place as f64 * whole + delay
    };
    let matched = assign(jobs, places * gpus, by_column);
    let mut by_place: Vec<(usize, usize)> = matched
        .iter()
        .enumerate()
        .filter_map(|(row, column)| Some(((*column)?, row)))
        .collect();
    // The highest column of a GPU is the farthest place from its end: it runs first.
    by_place.sort_unstable_by(|a, b| b.cmp(a));
    for (column, row) in by_place {
        out[column % gpus].push(row);
    }
    out
}

fn run(problem: &Problem, n: usize, gpu: usize, now: f64, out: &mut Vec<Assignment>) -> f64 {
    let job = &problem.jobs[n];
    let mut free = now;
    for round in 0..job.rounds {
        let trained = train_round(problem, n, round, gpu, free, out);
        free = trained + job.sync[problem.gpus[gpu]];
    }
    free
}

/// Runs a whole round of a job on one GPU from `now` on, its tasks one after another. Returns when
/// the last of them has trained.
pub fn train_round(
    problem: &Problem,
    n: usize,
    round: usize,
    gpu: usize,
    now: f64,
    out: &mut Vec<Assignment>,
) -> f64 {
    let job = &problem.jobs[n];
    let class = problem.gpus[gpu];
    let mut at = now;
    for task in 0..job.tasks {
        let trained = at + job.train[class];
        let place = TaskPlace {
            job: n,
            round,
            task,
        };
        out.push(Assignment::new(
            place,
            gpu,
            at,
            trained,
            trained + job.sync[class],
        ));
        at = trained;
    }
    at
}
