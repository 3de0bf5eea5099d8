//! AlloX (Le et al., EuroSys 2020): a job runs on one GPU; which, and in which place from its
//! end, is a bipartite matching of least total completion time.

use super::matching::assign;
use crate::problem::total;
use crate::{Assignment, Problem, Schedule};

/// Seconds of a whole job on one GPU: its tasks one after another, then the synchronisation.
fn alone(problem: &Problem, n: usize, gpu: usize) -> f64 {
    let job = &problem.jobs[n];
    let class = problem.gpus[gpu];
    job.rounds as f64 * (job.tasks as f64 * job.train[class] + job.sync[class])
}

/// Matches the waiting jobs again at each arrival and each end; jobs that run keep their GPU.
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

/// Which waiting job starts on which idle GPU: the first in the GPU's matched sequence.
///
/// A job in place k from the end of GPU m delays k jobs, itself included, so that it costs
/// `k p_nm`, and its GPU's remaining time once. Places go up to twice the jobs a GPU has on
/// average, and two, to keep the matching small; a fast GPU could use more among very slow ones.
fn starts(problem: &Problem, waiting: &[usize], free: &[f64], now: f64) -> Vec<(usize, usize)> {
    let gpus = free.len();
    let places = (2 * waiting.len()).div_ceil(gpus) + 2;
    let places = places.min(waiting.len());
    let cost = |row: usize, column: usize| {
        let (gpu, place) = (column % gpus, column / gpus + 1);
        place as f64 * alone(problem, waiting[row], gpu) + (free[gpu] - now).max(0.0)
    };
    let columns = places * gpus;
    if columns < waiting.len() {
        return Vec::new();
    }
    let matched = assign(waiting.len(), columns, cost);
    let mut first: Vec<Option<(usize, usize)>> = vec![None; gpus];
    for (row, column) in matched.iter().enumerate() {
        let Some(column) = column else { continue };
        let (gpu, place) = (column % gpus, column / gpus + 1);
        if first[gpu].is_none_or(|(_, p)| place > p) {
            first[gpu] = Some((waiting[row], place));
        }
    }
    let firsts = first.iter().enumerate();
    firsts
        .filter(|&(gpu, _)| free[gpu] <= now)
        .filter_map(|(gpu, first)| first.map(|(n, _)| (n, gpu)))
        .collect()
}

fn run(problem: &Problem, n: usize, gpu: usize, now: f64, out: &mut Vec<Assignment>) -> f64 {
    let job = &problem.jobs[n];
    let class = problem.gpus[gpu];
    let mut at = now;
    let mut free = now;
    for round in 0..job.rounds {
        for task in 0..job.tasks {
            let trained = at + job.train[class];
            out.push(Assignment {
                job: n,
                round,
                task,
                gpu,
                switch: 0.0,
                start: at,
                trained,
                synced: trained + job.sync[class],
            });
            at = trained;
        }
        free = at + job.sync[class];
        at = free;
    }
    free
}
