//! The event-driven placement: at every moment when a GPU frees or a round becomes ready, jobs are
//! looked at by priority, and a ready task goes to the GPU with the earliest completion. If that
//! one is still busy, the task waits for it (it is *reserved* for this moment) rather than start
//! on a slower one.
//!
//! The same code plans (predicted times) and runs online (times as they happen), so that what is
//! compared differs in knowledge only.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::{Assignment, Problem};

/// A moment in seconds, ordered.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Moment(pub f64);

impl Eq for Moment {}
impl PartialOrd for Moment {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Moment {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// What decides between ready tasks.
#[derive(Debug, Clone, PartialEq)]
pub struct Priorities {
    /// Jobs, the most urgent first.
    pub order: Vec<usize>,
    /// Classes that a job may use, as bits. A faster one that would stay idle it may use, too.
    pub allowed: Vec<u64>,
}

impl Priorities {
    /// An order, with every class allowed.
    pub fn new(order: Vec<usize>) -> Self {
        let allowed = vec![u64::MAX; order.len()];
        Self { order, allowed }
    }
}

/// How far a job is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// Present round.
    pub round: usize,
    /// Tasks of the present round that have been started.
    pub started: usize,
    /// When the present round may start.
    pub ready: f64,
    /// Latest synchronisation of the tasks of the present round started so far.
    pub synced: f64,
}

/// The cluster at one moment.
#[derive(Debug, Clone)]
pub struct State {
    /// When each GPU is expected to be free.
    pub free: Vec<f64>,
    /// How far each job is.
    pub jobs: Vec<Progress>,
}

impl State {
    /// Nothing started.
    pub fn new(problem: &Problem) -> Self {
        let fresh = |arrival| Progress {
            round: 0,
            started: 0,
            ready: arrival,
            synced: 0.0,
        };
        Self {
            free: vec![0.0; problem.gpus.len()],
            jobs: problem.jobs.iter().map(|j| fresh(j.arrival)).collect(),
        }
    }
}

/// GPUs of one class during a dispatch.
#[derive(Debug, Clone, Default)]
struct Pool {
    /// Idle now; the last is taken first.
    idle: Vec<usize>,
    /// Busy until, the earliest last.
    busy: Vec<(f64, usize)>,
    /// How many of the earliest of `busy` are reserved for this moment.
    taken: usize,
    /// Expected ends of what was reserved or started at this moment.
    later: BinaryHeap<Reverse<Moment>>,
    /// Started at this moment.
    fresh: Vec<(f64, usize)>,
}

impl Pool {
    fn next_busy(&self) -> Option<f64> {
        let at = self.busy.len().checked_sub(self.taken + 1)?;
        Some(self.busy[at].0)
    }

    /// Earliest moment at which a GPU can be had.
    fn available(&self, now: f64) -> f64 {
        if !self.idle.is_empty() {
            return now;
        }
        let busy = self.next_busy().unwrap_or(f64::INFINITY);
        let later = self.later.peek().map_or(f64::INFINITY, |m| m.0.0);
        busy.min(later)
    }

    /// Reserves what [`Pool::available`] found for `train` seconds.
    fn reserve(&mut self, train: f64) {
        let busy = self.next_busy().unwrap_or(f64::INFINITY);
        let later = self.later.peek().map_or(f64::INFINITY, |m| m.0.0);
        let from = if busy <= later {
            self.taken += 1;
            busy
        } else {
            self.later.pop();
            later
        };
        self.later.push(Reverse(Moment(from + train)));
    }

    fn settle(&mut self) {
        self.taken = 0;
        self.later.clear();
        for (until, gpu) in self.fresh.drain(..) {
            let at = self.busy.partition_point(|b| b.0 > until);
            self.busy.insert(at, (until, gpu));
        }
    }

    fn release(&mut self, now: f64) {
        while self.busy.last().is_some_and(|b| b.0 <= now) {
            self.idle.extend(self.busy.pop().map(|b| b.1));
        }
    }
}

/// A started task: job, GPU, and its class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Start {
    /// Number of the job.
    pub job: usize,
    /// Number of the GPU.
    pub gpu: usize,
}

/// Plays the event-driven placement; keeps its memory between plays.
#[derive(Debug)]
pub struct Player<'p> {
    problem: &'p Problem,
    rank: Vec<usize>,
    /// Whether some job may not use every class.
    restricted: bool,
    pools: Vec<Pool>,
    jobs: Vec<Progress>,
    /// Jobs with tasks to start, by rank.
    ready: Vec<usize>,
    events: BinaryHeap<Reverse<(Moment, usize)>>,
    starts: Vec<Start>,
}

impl<'p> Player<'p> {
    /// A player of `problem`.
    pub fn new(problem: &'p Problem) -> Self {
        Self {
            problem,
            rank: vec![0; problem.jobs.len()],
            restricted: false,
            pools: vec![Pool::default(); problem.classes.len()],
            jobs: Vec::new(),
            ready: Vec::new(),
            events: BinaryHeap::new(),
            starts: Vec::new(),
        }
    }

    fn set(&mut self, state: &State, now: f64, priorities: &Priorities) {
        for (rank, &n) in priorities.order.iter().enumerate() {
            self.rank[n] = rank;
        }
        self.restricted = priorities.allowed.iter().any(|&a| a != u64::MAX);
        for pool in &mut self.pools {
            pool.idle.clear();
            pool.busy.clear();
            pool.settle();
        }
        for (gpu, &free) in state.free.iter().enumerate().rev() {
            let pool = &mut self.pools[self.problem.gpus[gpu]];
            if free <= now {
                pool.idle.push(gpu);
            } else {
                pool.busy.push((free, gpu));
            }
        }
        for pool in &mut self.pools {
            pool.busy.sort_by(|a, b| b.0.total_cmp(&a.0));
        }
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

    /// What should start now, and where; the state is left as it is.
    pub fn decide(&mut self, state: &State, now: f64, priorities: &Priorities) -> &[Start] {
        self.set(state, now, priorities);
        self.starts.clear();
        self.scan(now, priorities, |_| {});
        &self.starts
    }

    /// Cost `sum w C` of playing on from `state` at `now`, or infinity as soon as it is certain
    /// to reach `cutoff`.
    pub fn cost(&mut self, state: &State, now: f64, priorities: &Priorities, cutoff: f64) -> f64 {
        self.play(state, now, priorities, cutoff, |_| {})
    }

    /// As [`Player::cost`] without cut-off; the assignments made go to `out`.
    pub fn record(
        &mut self,
        state: &State,
        now: f64,
        priorities: &Priorities,
        out: &mut Vec<Assignment>,
    ) -> f64 {
        self.play(state, now, priorities, f64::INFINITY, |a| out.push(a))
    }

    fn play(
        &mut self,
        state: &State,
        mut now: f64,
        priorities: &Priorities,
        cutoff: f64,
        mut note: impl FnMut(Assignment),
    ) -> f64 {
        self.set(state, now, priorities);
        // A lower bound that becomes the cost: completed jobs exactly, the others by their chain.
        let mut bound = 0.0;
        for (job, p) in self.problem.jobs.iter().zip(&self.jobs) {
            bound += job.weight * chain_end(job, p);
        }
        loop {
            self.starts.clear();
            bound += self.scan(now, priorities, &mut note);
            if bound >= cutoff {
                return f64::INFINITY;
            }
            let busy = self.pools.iter().filter_map(|p| p.busy.last());
            let mut next = busy.map(|b| b.0).fold(f64::INFINITY, f64::min);
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
            while let Some(Reverse((at, n))) = self.events.peek().copied() {
                if at.0 > now {
                    break;
                }
                self.events.pop();
                let rank = &self.rank;
                let at = self.ready.partition_point(|&m| rank[m] < rank[n]);
                self.ready.insert(at, n);
            }
        }
    }

    /// Starts what should start at `now`; answers by how much the bound on the cost rises.
    fn scan(&mut self, now: f64, priorities: &Priorities, mut note: impl FnMut(Assignment)) -> f64 {
        let mut rise = 0.0;
        let mut idle: usize = self.pools.iter().map(|p| p.idle.len()).sum();
        let mut i = 0;
        while i < self.ready.len() && idle > 0 {
            let n = self.ready[i];
            let job = &self.problem.jobs[n];
            let mut left = job.tasks - self.jobs[n].started;
            while left > 0 && idle > 0 {
                left -= 1;
                let g = best_class(&self.pools, job, priorities.allowed[n], now);
                match self.pools[g].idle.pop() {
                    None => self.pools[g].reserve(job.train[g]),
                    Some(gpu) => {
                        idle -= 1;
                        self.start(n, gpu, now, &mut note);
                    }
                }
            }
            let (more, gone) = self.round_started(i);
            rise += more;
            i += usize::from(!gone);
        }
        if idle > 0 && self.restricted {
            rise += self.spare(now, idle, priorities, &mut note);
        }
        for pool in &mut self.pools {
            pool.settle();
        }
        rise
    }

    /// GPUs that nobody wants who may use them go to tasks that are restricted to slower ones: a
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
            let job = &self.problem.jobs[n];
            let allowed = priorities.allowed[n];
            let span = |g: usize| job.train[g] + job.sync[g];
            let classes = 0..self.pools.len();
            let own = classes.clone().filter(|g| allowed >> g & 1 == 1).map(span);
            let own = own.fold(f64::INFINITY, f64::min);
            while self.jobs[n].started < job.tasks && own.is_finite() && idle > 0 {
                let faster = classes.clone().filter(|&g| {
                    allowed >> g & 1 == 0 && !self.pools[g].idle.is_empty() && span(g) <= own
                });
                let best = faster.min_by(|&a, &b| span(a).total_cmp(&span(b)));
                let Some(gpu) = best.and_then(|g| self.pools[g].idle.pop()) else {
                    break;
                };
                idle -= 1;
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
        let progress = &mut self.jobs[n];
        let trained = now + job.train[g];
        let synced = trained + job.sync[g];
        self.pools[g].fresh.push((trained, gpu));
        self.pools[g].later.push(Reverse(Moment(trained)));
        note(Assignment {
            job: n,
            round: progress.round,
            task: progress.started,
            gpu,
            switch: 0.0,
            start: now,
            trained,
            synced,
        });
        self.starts.push(Start { job: n, gpu });
        progress.started += 1;
        progress.synced = progress.synced.max(synced);
    }

    /// If the ready job at place i has started its whole round, its next round becomes an event;
    /// answers by how much that raises the bound, and whether the job is no longer ready.
    fn round_started(&mut self, i: usize) -> (f64, bool) {
        let n = self.ready[i];
        let job = &self.problem.jobs[n];
        let progress = self.jobs[n];
        if progress.started < job.tasks {
            return (0.0, false);
        }
        self.ready.remove(i);
        let next = Progress {
            round: progress.round + 1,
            started: 0,
            ready: progress.synced,
            synced: 0.0,
        };
        if next.round < job.rounds {
            self.events.push(Reverse((Moment(next.ready), n)));
        }
        self.jobs[n] = next;
        let rise = job.weight * (chain_end(job, &next) - chain_end(job, &progress));
        (rise, true)
    }
}

/// Earliest end of a job that goes on at full speed from the start of its present round.
fn chain_end(job: &crate::Job, p: &Progress) -> f64 {
    p.ready + (job.rounds - p.round) as f64 * job.shortest_round
}

/// The class with the earliest synchronised end of a task; of equals the faster.
fn best_class(pools: &[Pool], job: &crate::Job, allowed: u64, now: f64) -> usize {
    let mut best = (f64::INFINITY, f64::INFINITY, 0);
    for pass in 0..2 {
        for (g, pool) in pools.iter().enumerate() {
            if job.train[g].is_infinite() || (pass == 0 && allowed >> g & 1 == 0) {
                continue;
            }
            let at = pool.available(now) + job.train[g] + job.sync[g];
            if (at, job.train[g]) < (best.0, best.1) {
                best = (at, job.train[g], g);
            }
        }
        // A mask that leaves nothing is no mask.
        if best.0.is_finite() {
            break;
        }
    }
    best.2
}
