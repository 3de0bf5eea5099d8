//! Event-driven placement: whenever a GPU becomes free or a round becomes ready, jobs are
//! considered by priority, and a ready task goes to the GPU with the earliest completion. If that
//! GPU is still busy, the task waits for it (the GPU is *reserved*) rather than start on a slower
//! one.
//!
//! The same code plans (with predicted times) and runs online (with actual times), so the two
//! differ only in what they know.

mod block;
mod pool;
mod shared;
mod together;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use pool::{Moment, Pool, arrive};
use shared::Hall;
use together::Floor;

use crate::state::{ClusterState, JobProgress, Priorities, Start};
use crate::{Assignment, Problem, Schedule, merged};

/// Simulates the event-driven placement; reuses its memory from play to play.
#[derive(Debug)]
pub struct Player<'p> {
    problem: &'p Problem,
    /// Seconds of a task of every job on every class, job by job.
    tasks: Vec<Times>,
    rank: Vec<usize>,
    /// Whether some job may not use every class.
    restricted: bool,
    pools: Vec<Pool>,
    jobs: Vec<JobProgress>,
    /// Jobs with tasks to start, by rank.
    ready: Vec<usize>,
    events: BinaryHeap<Reverse<(Moment, usize)>>,
    starts: Vec<Start>,
    /// The GPUs, if some job is a gang; the pools are then unused.
    floor: Option<Floor>,
    /// The GPUs, if jobs may share a GPU; pools and floor are then unused.
    hall: Option<Hall>,
    /// Rounds of each job that are placed in one go, if rounds are merged; the floor then places
    /// all jobs.
    strides: Option<Vec<usize>>,
    /// Whether the last scan of the ready jobs reserved GPUs for all their tasks, and no job has
    /// become ready since.
    reserved: bool,
}

/// Greedy packing, the baseline for sharing: in order of arrival, every task takes the fastest idle
/// GPU, or else trains beside another task wherever the two can run together.
pub fn packed(problem: &Problem) -> Schedule {
    let mut player = Player::new(problem);
    player.hall = Some(Hall::packing());
    let order = problem.jobs_by(|n| problem.jobs[n].arrival);
    let mut out = Vec::with_capacity(problem.volume());
    player.record(
        &ClusterState::new(problem),
        0.0,
        &Priorities::new(order),
        &mut out,
    );
    Schedule::new(problem.jobs.len(), out)
}

/// Seconds of a task on a class.
#[derive(Debug, Clone, Copy)]
struct Times {
    /// Training; infinite where the class cannot run it.
    train: f64,
    /// Training and synchronisation.
    span: f64,
}

impl<'p> Player<'p> {
    /// A player of `problem`.
    pub fn new(problem: &'p Problem) -> Self {
        let times = |(train, sync): (&f64, &f64)| Times {
            train: *train,
            span: train + sync,
        };
        let jobs = problem.jobs.iter();
        let tasks = jobs.flat_map(|j| j.train.iter().zip(&j.sync).map(times));
        Self {
            problem,
            tasks: tasks.collect(),
            rank: vec![0; problem.jobs.len()],
            restricted: false,
            pools: vec![Pool::default(); problem.classes.len()],
            jobs: Vec::new(),
            ready: Vec::new(),
            events: BinaryHeap::new(),
            starts: Vec::new(),
            floor: problem.has_gangs().then(Floor::default),
            hall: problem.shares().then(Hall::default),
            strides: None,
            reserved: false,
        }
    }

    /// A player that gives a job its GPUs for many rounds at once, from `state` on. It serves
    /// problems with too many tasks to simulate each one. GPUs are not shared.
    pub fn in_blocks(problem: &'p Problem, state: &ClusterState) -> Self {
        Self {
            floor: Some(Floor::default()),
            hall: None,
            strides: Some(merged::strides(problem, state)),
            ..Self::new(problem)
        }
    }

    fn times(&self, n: usize) -> &[Times] {
        let classes = self.pools.len();
        &self.tasks[n * classes..(n + 1) * classes]
    }

    fn set(&mut self, state: &ClusterState, now: f64, priorities: &Priorities) {
        for (rank, &n) in priorities.order.iter().enumerate() {
            self.rank[n] = rank;
        }
        self.restricted = priorities.allowed.iter().any(|&a| a != u64::MAX);
        for pool in &mut self.pools {
            pool.clear();
        }
        if let Some(floor) = &mut self.floor {
            floor.set(&state.free);
        } else {
            for (gpu, &free) in state.free.iter().enumerate().rev() {
                self.pools[self.problem.gpus[gpu]].add(gpu, free, now);
            }
        }
        self.pools.iter_mut().for_each(Pool::settle);
        self.reserved = false;
        self.jobs.clone_from(&state.jobs);
        self.ready.clear();
        self.events.clear();
        for &n in &priorities.order {
            let p = self.jobs[n];
            if p.round >= self.problem.jobs[n].rounds || p.ready.is_infinite() {
                continue;
            }
            if p.ready <= now {
                self.ready.push(n);
            } else {
                self.events.push(Reverse((Moment(p.ready), n)));
            }
        }
    }

    /// Tasks that should start now, with their GPUs; does not change `state`.
    pub fn decide(&mut self, state: &ClusterState, now: f64, priorities: &Priorities) -> &[Start] {
        if let Some(ref mut hall) = self.hall {
            return hall.decide(self.problem, state, now, priorities);
        }
        self.set(state, now, priorities);
        self.starts.clear();
        self.scan(now, priorities, |_| {});
        &self.starts
    }

    /// Cost `sum w C` of playing on from `state` at `now`, or infinity as soon as it is certain
    /// to reach `cutoff`.
    pub fn cost(
        &mut self,
        state: &ClusterState,
        now: f64,
        priorities: &Priorities,
        cutoff: f64,
    ) -> f64 {
        self.play(state, now, priorities, cutoff, |_| {})
    }

    /// Like [`Player::cost`] without cut-off; appends the assignments to `out`.
    pub fn record(
        &mut self,
        state: &ClusterState,
        now: f64,
        priorities: &Priorities,
        out: &mut Vec<Assignment>,
    ) -> f64 {
        let first = out.len();
        let cost = self.play(state, now, priorities, f64::INFINITY, |a| out.push(a));
        if self.hall.is_some() {
            // With sharing, an assignment is recorded when it ends.
            out[first..].sort_by(|a, b| a.start.total_cmp(&b.start));
        }
        cost
    }

    fn play(
        &mut self,
        state: &ClusterState,
        mut now: f64,
        priorities: &Priorities,
        cutoff: f64,
        mut note: impl FnMut(Assignment),
    ) -> f64 {
        if let Some(hall) = &mut self.hall {
            return hall.play(self.problem, state, now, priorities, cutoff, note);
        }
        self.set(state, now, priorities);
        // A lower bound that rises to the cost: exact for completed jobs, by their chains for the
        // others.
        let mut bound = 0.0;
        for (job, p) in self.problem.jobs.iter().zip(&self.jobs) {
            bound += job.cost_at(p.chain_end(job));
        }
        loop {
            self.starts.clear();
            bound += if self.reserved {
                self.follow(now, priorities, &mut note)
            } else {
                self.scan(now, priorities, &mut note)
            };
            if bound >= cutoff {
                return f64::INFINITY;
            }
            let busy = self.pools.iter().map(Pool::first_free);
            let mut next = match &self.floor {
                Some(floor) => floor.next_free(now),
                None => busy.fold(f64::INFINITY, f64::min),
            };
            if self.ready.is_empty() {
                next = f64::INFINITY;
            }
            if let Some(Reverse((at, _))) = self.events.peek() {
                next = next.min(at.0);
            }
            if next.is_infinite() {
                return bound;
            }
            now = next;
            for pool in &mut self.pools {
                pool.release(now);
            }
            if arrive(&mut self.events, &mut self.ready, &self.rank, now) {
                self.reserved = false;
            }
        }
    }

    /// Starts the tasks that have reserved the GPUs that are free at `now`; returns the same as
    /// [`Player::scan`].
    ///
    /// If no job has become ready, a new scan would make the same reservations: each reserved GPU
    /// is free when it was expected to be, and starting at once on another one ends even later than
    /// before. With 300 jobs on 160 GPUs a start costs 2.6 us this way, and 6.6 us with a scan at
    /// every event.
    fn follow(
        &mut self,
        now: f64,
        priorities: &Priorities,
        mut note: impl FnMut(Assignment),
    ) -> f64 {
        let mut rise = 0.0;
        for g in 0..self.pools.len() {
            while let Some((n, gpu)) = self.pools[g].due() {
                self.start(n, gpu, now, &mut note);
                let rank = &self.rank;
                let at = self.ready.partition_point(|&m| rank[m] < rank[n]);
                rise += self.round_started(at).0;
            }
        }
        rise + self.end_look(now, priorities, note)
    }

    /// Ends a scan of the ready jobs: GPUs that are still idle may be spare.
    fn end_look(&mut self, now: f64, priorities: &Priorities, note: impl FnMut(Assignment)) -> f64 {
        let idle = self.idle();
        let mut rise = 0.0;
        if idle > 0 && self.restricted {
            rise = self.spare(now, idle, priorities, note);
        }
        self.pools.iter_mut().for_each(Pool::settle);
        rise
    }

    fn idle(&self) -> usize {
        self.pools.iter().map(|p| p.idle.len()).sum()
    }

    /// Starts the tasks that should start at `now`; returns by how much the bound on the cost
    /// rises.
    fn scan(&mut self, now: f64, priorities: &Priorities, mut note: impl FnMut(Assignment)) -> f64 {
        if self.floor.is_some() {
            return self.look_together(now, priorities, note);
        }
        let mut rise = 0.0;
        let mut idle = self.idle();
        let mut i = 0;
        self.reserved = true;
        self.pools.iter_mut().for_each(Pool::reopen);
        while i < self.ready.len() && idle > 0 {
            let n = self.ready[i];
            let mut left = self.problem.jobs[n].tasks - self.jobs[n].started;
            while left > 0 && idle > 0 {
                left -= 1;
                let times = self.times(n);
                let g = best_class(&self.pools, times, priorities.allowed[n], now);
                let train = times[g].train;
                match self.pools[g].idle.pop() {
                    None => self.pools[g].reserve(n, train),
                    Some(gpu) => {
                        idle -= 1;
                        self.start(n, gpu, now, &mut note);
                    }
                }
            }
            self.reserved &= left == 0;
            let (more, gone) = self.round_started(i);
            rise += more;
            i += usize::from(!gone);
        }
        self.reserved &= i == self.ready.len();
        rise + self.end_look(now, priorities, note)
    }

    /// Like [`Player::scan`], where some jobs are gangs.
    fn look_together(
        &mut self,
        now: f64,
        priorities: &Priorities,
        mut note: impl FnMut(Assignment),
    ) -> f64 {
        let Some(mut floor) = self.floor.take() else {
            return 0.0;
        };
        let problem = self.problem;
        let mut rise = 0.0;
        let mut i = 0;
        floor.open(now);
        while i < self.ready.len() && floor.some_idle(now) {
            let n = self.ready[i];
            let allowed = priorities.allowed[n];
            let job = &problem.jobs[n];
            let left = job.tasks - self.jobs[n].started;
            let mut rounds = 1;
            if let Some(strides) = &self.strides {
                // The rest of a round that has begun is placed alone, before whole rounds.
                if left == job.tasks {
                    rounds = strides[n].min(job.rounds - self.jobs[n].round);
                }
                let block = floor.place_block(problem, n, allowed, left, rounds, now);
                for (gpu, start, trained, synced) in block.iter().flat_map(|b| b.tasks()) {
                    let period = block.as_ref().map_or(0.0, |b| b.period);
                    let apart = if rounds > 1 { period } else { 0.0 };
                    let times = (start, trained, synced);
                    self.begin(n, gpu, times, rounds, apart, &mut note);
                }
            } else {
                let begun = match job.gang {
                    Some(_) => floor.place_gang(problem, n, allowed, now),
                    None => floor.place_singles(problem, n, allowed, left, now),
                };
                for task in begun {
                    let times = (now, task.trained, task.synced);
                    self.begin(n, task.gpu, times, 1, 0.0, &mut note);
                }
            }
            let (more, gone) = self.rounds_started(i, rounds);
            rise += more;
            i += usize::from(!gone);
        }
        self.floor = Some(floor);
        rise
    }

    /// Gives GPUs that no permitted job wants to tasks that are restricted to slower ones: a
    /// restriction is a preference, and a faster GPU never completes a task later.
    fn spare(
        &mut self,
        now: f64,
        mut idle: usize,
        priorities: &Priorities,
        mut note: impl FnMut(Assignment),
    ) -> f64 {
        let mut rise = 0.0;
        let mut i = 0;
        while i < self.ready.len() && idle > 0 {
            let n = self.ready[i];
            let allowed = priorities.allowed[n];
            if allowed == u64::MAX {
                i += 1;
                continue;
            }
            let job = &self.problem.jobs[n];
            let span = |g: usize| job.train[g] + job.sync[g];
            let classes = 0..self.pools.len();
            let own = classes
                .clone()
                .filter(|g| allowed >> g & 1 == 1)
                .map(span)
                .fold(f64::INFINITY, f64::min);
            while self.jobs[n].started < job.tasks && own.is_finite() && idle > 0 {
                let faster = classes.clone().filter(|&g| {
                    allowed >> g & 1 == 0 && !self.pools[g].idle.is_empty() && span(g) <= own
                });
                let best = faster.min_by(|&a, &b| span(a).total_cmp(&span(b)));
                let Some(gpu) = best.and_then(|g| self.pools[g].idle.pop()) else {
                    break;
                };
                idle -= 1;
                // The task's reservation is now void.
                self.reserved = false;
                self.start(n, gpu, now, &mut note);
            }
            let (more, gone) = self.round_started(i);
            rise += more;
            i += usize::from(!gone);
        }
        rise
    }

    /// Starts the next task of a job's present round.
    fn start(&mut self, n: usize, gpu: usize, now: f64, mut note: impl FnMut(Assignment)) {
        let g = self.problem.gpus[gpu];
        let job = &self.problem.jobs[n];
        let trained = now + job.train[g];
        let synced = trained + job.sync[g];
        self.pools[g].started(gpu, trained);
        self.begin(n, gpu, (now, trained, synced), 1, 0.0, &mut note);
    }

    /// Books the start of the next task of a job's present round, with its times, the number of
    /// equal rounds and the seconds between their starts.
    fn begin(
        &mut self,
        n: usize,
        gpu: usize,
        times: (f64, f64, f64),
        rounds: usize,
        period: f64,
        mut note: impl FnMut(Assignment),
    ) {
        let progress = &mut self.jobs[n];
        let (start, trained, synced) = times;
        let assignment = Assignment {
            rounds,
            period,
            ..Assignment::new(progress.next_task(n), gpu, start, trained, synced)
        };
        note(assignment);
        self.starts.push(Start { job: n, gpu });
        progress.started += 1;
        progress.synced = progress.synced.max(assignment.last_synced());
    }

    /// If the ready job at place i has started its whole round, its next round becomes an event.
    /// Returns by how much that raises the bound, and whether the job is no longer ready.
    fn round_started(&mut self, i: usize) -> (f64, bool) {
        self.rounds_started(i, 1)
    }

    /// Like [`Player::round_started`], for several rounds at once.
    fn rounds_started(&mut self, i: usize, rounds: usize) -> (f64, bool) {
        let n = self.ready[i];
        let job = &self.problem.jobs[n];
        let progress = self.jobs[n];
        if progress.started < job.tasks {
            return (0.0, false);
        }
        self.ready.remove(i);
        let next = JobProgress {
            round: progress.round + rounds,
            started: 0,
            ready: progress.synced,
            synced: 0.0,
        };
        if next.round < job.rounds {
            self.events.push(Reverse((Moment(next.ready), n)));
        }
        self.jobs[n] = next;
        let rise = job.cost_at(next.chain_end(job)) - job.cost_at(progress.chain_end(job));
        (rise, true)
    }
}

/// The class on which a task is synchronised first; ties go to the class with less training.
fn best_class(pools: &[Pool], times: &[Times], allowed: u64, now: f64) -> usize {
    let mut best = (f64::INFINITY, f64::INFINITY, 0);
    for pass in 0..2 {
        for (g, (pool, task)) in pools.iter().zip(times).enumerate() {
            if task.train.is_infinite() || (pass == 0 && allowed >> g & 1 == 0) {
                continue;
            }
            let at = pool.available(now) + task.span;
            if (at, task.train) < (best.0, best.1) {
                best = (at, task.train, g);
            }
        }
        // If the mask leaves no class, the second pass ignores it.
        if best.0.is_finite() {
            break;
        }
    }
    best.2
}
