//! List placements: tasks one after another, each on the GPU where it is synchronised earliest.

use crate::gang::Together;
use crate::state::{ClusterState, JobProgress};
use crate::{Assignment, Problem, Schedule, TaskPlace, TrainingJob};

/// Where a task of a list may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fill {
    /// After everything that the GPU already has.
    Append,
    /// Also into the first gap that is long enough.
    Holes,
}

/// How the GPU of a task is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// Earliest synchronised end, then shorter training.
    EarliestCompletion,
    /// Earliest available, whatever its speed, as in Hare's printed algorithm.
    EarliestAvailable,
}

/// Places rounds, given as (job, round), in this order; the rounds of each job must be in ascending
/// order.
pub fn place(problem: &Problem, order: &[(usize, usize)], fill: Fill, choice: Choice) -> Schedule {
    let mut assignments = Vec::with_capacity(problem.volume());
    let list = List {
        problem,
        state: &ClusterState::new(problem),
        now: 0.0,
        fill,
        choice,
    };
    let note = |a| assignments.push(a);
    list.play(order.iter().copied(), f64::INFINITY, note);
    Schedule::new(problem.jobs.len(), assignments)
}

/// A list placement of the tasks that have not started.
#[derive(Debug, Clone, Copy)]
pub struct List<'a> {
    /// The problem to schedule.
    pub problem: &'a Problem,
    /// Progress of its jobs and GPUs.
    pub state: &'a ClusterState,
    /// Tasks start at this moment or later.
    pub now: f64,
    /// Where tasks may go.
    pub fill: Fill,
    /// How their GPUs are chosen.
    pub choice: Choice,
}

impl List<'_> {
    /// The rounds that are not complete as (job, round), job after job in the given order.
    pub fn job_by_job(&self, order: &[usize]) -> impl Iterator<Item = (usize, usize)> {
        let rounds = move |&n: &usize| {
            let left = self.state.jobs[n].round..self.problem.jobs[n].rounds;
            left.map(move |r| (n, r))
        };
        order.iter().flat_map(rounds)
    }

    /// Cost `sum w C` of placing the rounds that are not complete in the order given, or infinity
    /// as soon as it is certain to reach `cutoff`. A job that no usable GPU can run is left out;
    /// its chain counts as its cost.
    pub fn play(
        &self,
        order: impl Iterator<Item = (usize, usize)>,
        cutoff: f64,
        mut note: impl FnMut(Assignment),
    ) -> f64 {
        let problem = self.problem;
        let busy = |&free: &f64| Lane {
            busy: vec![(f64::NEG_INFINITY, free)],
        };
        let mut lanes: Vec<Lane> = self.state.free.iter().map(busy).collect();
        let mut jobs = self.state.jobs.clone();
        // A lower bound that rises to the cost: each job counts with its chain after the rounds
        // placed so far.
        let cost = |(job, p): (&TrainingJob, &JobProgress)| job.cost_at(p.chain_end(job));
        let mut bound: f64 = problem.jobs.iter().zip(&jobs).map(cost).sum();
        for (n, round) in order {
            let (job, progress) = (&problem.jobs[n], jobs[n]);
            if round != progress.round || progress.ready.is_infinite() {
                continue;
            }
            let Some(synced) = self.round(n, progress, &mut lanes, &mut note) else {
                continue;
            };
            jobs[n] = JobProgress {
                round: round + 1,
                started: 0,
                ready: synced,
                synced: 0.0,
            };
            bound += cost((job, &jobs[n])) - cost((job, &progress));
            if bound >= cutoff {
                return f64::INFINITY;
            }
        }
        bound
    }

    /// Places the remaining tasks of a job's present round; returns when it is synchronised.
    fn round(
        &self,
        n: usize,
        progress: JobProgress,
        lanes: &mut [Lane],
        mut note: impl FnMut(Assignment),
    ) -> Option<f64> {
        let (problem, job) = (self.problem, &self.problem.jobs[n]);
        let ready = progress.ready.max(self.now);
        let mut start = |task, gpu: usize, (start, trained, synced), lanes: &mut [Lane]| {
            lanes[gpu].insert(start, trained);
            let place = TaskPlace {
                task,
                ..progress.next_task(n)
            };
            note(Assignment::new(place, gpu, start, trained, synced));
        };
        if job.gang.is_some() {
            let found = slot(problem, n, lanes, ready, self.fill)?;
            for (task, gpu) in found.gpus.into_iter().enumerate() {
                let times = (found.start, found.trained, found.synced);
                start(task, gpu, times, lanes);
            }
            return Some(found.synced);
        }
        let mut last = progress.synced;
        for task in progress.started..job.tasks {
            let (gpu, at) = best_gpu(problem, job, lanes, ready, self.fill, self.choice)?;
            let class = problem.gpus[gpu];
            let trained = at + job.train[class];
            let synced = trained + job.sync[class];
            start(task, gpu, (at, trained, synced), lanes);
            last = last.max(synced);
        }
        Some(last)
    }
}

/// GPUs and times of a gang: after everything that its GPUs have, or in a gap that all of them have
/// at the same time. Gaps begin when the round is ready or a GPU becomes free; the gang takes the
/// first of these moments at which it is synchronised no later than after everything.
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
        // Only GPUs that have a gap for the longest training from this moment on are available.
        let job = &problem.jobs[n];
        let longest = job
            .train
            .iter()
            .copied()
            .filter(|t| t.is_finite())
            .fold(0.0, f64::max);
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
) -> Option<(usize, f64)> {
    let mut best = ((f64::INFINITY, f64::INFINITY), None);
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
        if key < best.0 && start.is_finite() {
            best = (key, Some((gpu, start)));
        }
    }
    best.1
}

/// Busy times of a GPU: disjoint spans in order of time.
#[derive(Debug, Clone, Default)]
struct Lane {
    busy: Vec<(f64, f64)>,
}

impl Lane {
    fn end(&self) -> f64 {
        self.busy.last().map_or(f64::NEG_INFINITY, |b| b.1)
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
