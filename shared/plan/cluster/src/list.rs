//! List placements: tasks one after another, each on the GPU where it is synchronised earliest.

use crate::gang::Together;
use crate::{Assignment, Problem, Schedule, TrainingJob};

/// Where a task of a list may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fill {
    /// Behind what the GPU already has.
    Append,
    /// Into the first gap that is long enough, too.
    Holes,
}

/// How the GPU of a task is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// Earliest synchronised end, then shorter training.
    EarliestCompletion,
    /// Earliest available, whatever its speed, as the printed algorithm of Hare does.
    EarliestAvailable,
}

/// The rounds of `problem` as (job, round), job after job in the given order.
pub fn job_by_job(problem: &Problem, order: &[usize]) -> Vec<(usize, usize)> {
    let rounds = |&n: &usize| (0..problem.jobs[n].rounds).map(move |r| (n, r));
    order.iter().flat_map(rounds).collect()
}

/// Places the rounds in the order given, in which the rounds of a job follow each other.
pub fn place(problem: &Problem, order: &[(usize, usize)], fill: Fill, choice: Choice) -> Schedule {
    let mut lanes: Vec<Lane> = vec![Lane::default(); problem.gpus.len()];
    let mut ready: Vec<f64> = problem.jobs.iter().map(|j| j.arrival).collect();
    let mut assignments = Vec::with_capacity(problem.volume());
    for &(n, round) in order {
        let job = &problem.jobs[n];
        let mut synced_all = ready[n];
        if job.gang.is_some() {
            // A document whose gangs find no GPUs is refused where it is read.
            let Some(found) = slot(problem, n, &lanes, ready[n], fill) else {
                continue;
            };
            let Together {
                gpus,
                start,
                trained,
                synced,
            } = found;
            for (task, gpu) in gpus.into_iter().enumerate() {
                lanes[gpu].insert(start, trained);
                assignments.push(Assignment {
                    job: n,
                    round,
                    task,
                    gpu,
                    switch: 0.0,
                    start,
                    trained,
                    synced,
                });
            }
            ready[n] = synced;
            continue;
        }
        for task in 0..job.tasks {
            let (gpu, start) = best_gpu(problem, job, &lanes, ready[n], fill, choice);
            let class = problem.gpus[gpu];
            let trained = start + job.train[class];
            let synced = trained + job.sync[class];
            lanes[gpu].insert(start, trained);
            synced_all = synced_all.max(synced);
            assignments.push(Assignment {
                job: n,
                round,
                task,
                gpu,
                switch: 0.0,
                start,
                trained,
                synced,
            });
        }
        ready[n] = synced_all;
    }
    Schedule::new(problem.jobs.len(), assignments)
}

/// Where and when a gang is synchronised first: behind what its GPUs have, or in a gap that all of them
/// have at the same time. Gaps begin when the round is ready or a GPU becomes free; the first of these
/// moments from which the gang fits as it fits best is taken.
fn slot(problem: &Problem, n: usize, lanes: &[Lane], ready: f64, fill: Fill) -> Option<Together> {
    let behind: Vec<f64> = lanes.iter().map(|l| ready.max(l.end())).collect();
    let last = problem.together(n, u64::MAX, &behind)?;
    if fill == Fill::Append {
        return Some(last);
    }
    let mut moments: Vec<f64> = lanes
        .iter()
        .flat_map(|l| l.busy.iter().map(|b| b.1))
        .collect();
    moments.push(ready);
    moments.retain(|&t| t >= ready && t < last.start);
    moments.sort_by(f64::total_cmp);
    moments.dedup();
    for at in moments {
        // Exactly those with a gap for the longest training at this time are available.
        let job = &problem.jobs[n];
        let longest = job.train.iter().copied().filter(|t| t.is_finite());
        let longest = longest.fold(0.0, f64::max);
        let open = |l: &Lane| match l.first_gap(at, longest) <= at {
            true => at,
            false => f64::INFINITY,
        };
        let available: Vec<f64> = lanes.iter().map(open).collect();
        if let Some(found) = problem.together(n, u64::MAX, &available)
            && found.synced <= last.synced
        {
            return Some(found);
        }
    }
    Some(last)
}

fn best_gpu(
    problem: &Problem,
    job: &TrainingJob,
    lanes: &[Lane],
    ready: f64,
    fill: Fill,
    choice: Choice,
) -> (usize, f64) {
    let mut best = ((f64::INFINITY, f64::INFINITY), 0, ready);
    for (gpu, lane) in lanes.iter().enumerate() {
        let class = problem.gpus[gpu];
        let train = job.train[class];
        if train.is_infinite() {
            continue;
        }
        let start = match fill {
            Fill::Append => ready.max(lane.end()),
            Fill::Holes => lane.first_gap(ready, train),
        };
        let key = match choice {
            Choice::EarliestCompletion => (start + train + job.sync[class], train),
            Choice::EarliestAvailable => (lane.end(), 0.0),
        };
        if key < best.0 {
            best = (key, gpu, start);
        }
    }
    (best.1, best.2)
}

/// Busy times of a GPU: disjoint spans in order of time.
#[derive(Debug, Clone, Default)]
struct Lane {
    busy: Vec<(f64, f64)>,
}

impl Lane {
    fn end(&self) -> f64 {
        self.busy.last().map_or(0.0, |b| b.1)
    }

    fn first_gap(&self, from: f64, length: f64) -> f64 {
        let mut start = from;
        let first = self.busy.partition_point(|b| b.1 <= from);
        for &(begin, end) in &self.busy[first..] {
            if start + length <= begin {
                return start;
            }
            start = start.max(end);
        }
        start
    }

    fn insert(&mut self, start: f64, end: f64) {
        let at = self.busy.partition_point(|b| b.0 < start);
        self.busy.insert(at, (start, end));
    }
}
