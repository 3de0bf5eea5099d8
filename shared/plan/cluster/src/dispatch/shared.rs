//! The event-driven placement where two tasks may train on one GPU.
//!
//! As elsewhere jobs are looked at by priority, and a task goes where it is synchronised first: on an idle GPU
//! at once, on a busy one when that is free, for which it reserves it. Beside these it may *join* a task that
//! trains, if that ends earlier still, and if both are then trained sooner than one after the other: only then
//! does the GPU get more done. Who joins changes the end of the other, so that ends are kept for the present
//! rates and moved whenever somebody comes or goes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::pool::{Moment, arrive};
use crate::sharing::ends_together;
use crate::state::{Priorities, Progress, Start, State};
use crate::{Assignment, Problem};

/// A task that trains.
#[derive(Debug, Clone, Copy)]
struct Trains {
    job: usize,
    round: usize,
    task: usize,
    start: f64,
    /// When it is trained if its rate stays.
    end: f64,
    /// Its rate over that alone.
    rate: f64,
    sync: f64,
    /// Whether this play has started it.
    fresh: bool,
}

/// A job during a play.
#[derive(Debug, Clone, Copy)]
struct Going {
    progress: Progress,
    /// Tasks of the present round that train.
    training: usize,
    /// The end of the job that the cost counts so far.
    booked: f64,
}

/// The GPUs and what trains there.
#[derive(Debug, Default)]
pub(super) struct Hall {
    /// Tasks on each GPU, the first seat filled first.
    seats: Vec<[Option<Trains>; 2]>,
    jobs: Vec<Going>,
    rank: Vec<usize>,
    /// Jobs with tasks to start, by rank.
    ready: Vec<usize>,
    events: BinaryHeap<Reverse<(Moment, usize)>>,
    /// When the next in rank can have a GPU to itself; infinite where it is lost.
    available: Vec<f64>,
    /// When the first reservation of a GPU begins.
    reserved: Vec<f64>,
    starts: Vec<Start>,
    /// Whether every task takes whatever it fits, at once.
    packs: bool,
    /// `sum w C` of the ends that are booked.
    cost: f64,
}

impl Hall {
    /// Where every task that is ready takes the fastest idle GPU, or else joins another task if they can run
    /// together, whatever that costs the two.
    pub fn packing() -> Self {
        Self {
            packs: true,
            ..Self::default()
        }
    }

    /// What should start now, and where.
    pub fn decide(
        &mut self,
        problem: &Problem,
        state: &State,
        now: f64,
        priorities: &Priorities,
    ) -> &[Start] {
        self.set(problem, state, now, priorities);
        self.scan(problem, now, priorities);
        &self.starts
    }

    /// Cost of playing on, or infinity as soon as it is certain to reach `cutoff`.
    pub fn play(
        &mut self,
        problem: &Problem,
        state: &State,
        mut now: f64,
        priorities: &Priorities,
        cutoff: f64,
        mut note: impl FnMut(Assignment),
    ) -> f64 {
        self.set(problem, state, now, priorities);
        loop {
            self.finish(problem, now, &mut note);
            arrive(&mut self.events, &mut self.ready, &self.rank, now);
            self.scan(problem, now, priorities);
            if self.cost >= cutoff {
                return f64::INFINITY;
            }
            let trains = self.seats.iter().flatten().flatten();
            let mut next = trains.map(|t| t.end).fold(f64::INFINITY, f64::min);
            if let Some(Reverse((at, _))) = self.events.peek() {
                next = next.min(at.0);
            }
            if next.is_infinite() {
                return self.cost;
            }
            now = next;
        }
    }

    fn set(&mut self, problem: &Problem, state: &State, now: f64, priorities: &Priorities) {
        self.rank.resize(problem.jobs.len(), 0);
        for (rank, &n) in priorities.order.iter().enumerate() {
            self.rank[n] = rank;
        }
        self.seats.clear();
        self.seats.resize(problem.gpus.len(), [None; 2]);
        let lost = |&free: &f64| if free.is_infinite() { free } else { now };
        self.available.clear();
        self.available.extend(state.free.iter().map(lost));
        self.jobs.clear();
        self.cost = 0.0;
        for (job, progress) in problem.jobs.iter().zip(&state.jobs) {
            let booked = progress.chain_end(job);
            self.cost += job.cost_at(booked);
            self.jobs.push(Going {
                progress: *progress,
                training: 0,
                booked,
            });
        }
        for r in &state.residents {
            self.jobs[r.job].training += 1;
            let trains = Trains {
                job: r.job,
                round: 0,
                task: 0,
                start: now,
                end: now + r.left,
                rate: 1.0,
                sync: r.sync,
                fresh: false,
            };
            self.sit(r.gpu, trains);
            self.settle(problem, r.gpu, now);
        }
        self.ready.clear();
        self.events.clear();
        self.starts.clear();
        for &n in &priorities.order {
            let p = self.jobs[n].progress;
            let job = &problem.jobs[n];
            if p.round < job.rounds && p.started < job.tasks && p.ready.is_finite() {
                self.events.push(Reverse((Moment(p.ready), n)));
            }
        }
        arrive(&mut self.events, &mut self.ready, &self.rank, now);
    }

    fn sit(&mut self, gpu: usize, trains: Trains) {
        let free = self.seats[gpu].iter_mut().find(|s| s.is_none());
        if let Some(seat) = free {
            *seat = Some(trains);
        }
    }

    /// The rates of a GPU's tasks are those of who is there now; their ends move with them.
    fn settle(&mut self, problem: &Problem, gpu: usize, now: f64) {
        let class = problem.gpus[gpu];
        let rates = match self.seats[gpu] {
            [Some(a), Some(b)] => problem.beside(class, a.job, b.job).unwrap_or((1.0, 1.0)),
            _ => (1.0, 1.0),
        };
        let mut until = now;
        for (seat, rate) in self.seats[gpu].iter_mut().zip([rates.0, rates.1]) {
            let Some(trains) = seat else { continue };
            if trains.rate != rate {
                trains.end = now + (trains.end - now) * trains.rate / rate;
                trains.rate = rate;
            }
            until = until.max(trains.end);
        }
        if self.available[gpu].is_finite() {
            self.available[gpu] = until;
        }
    }

    /// Tasks that are trained by now leave their GPUs.
    fn finish(&mut self, problem: &Problem, now: f64, note: &mut impl FnMut(Assignment)) {
        for gpu in 0..self.seats.len() {
            let mut left = false;
            for seat in 0..2 {
                let Some(t) = self.seats[gpu][seat].filter(|t| t.end <= now) else {
                    continue;
                };
                self.seats[gpu][seat] = None;
                left = true;
                if t.fresh {
                    note(Assignment {
                        job: t.job,
                        round: t.round,
                        task: t.task,
                        gpu,
                        switch: 0.0,
                        start: t.start,
                        trained: t.end,
                        synced: t.end + t.sync,
                    });
                }
                self.trained(problem, t.job, t.end + t.sync);
            }
            if left {
                if self.seats[gpu][0].is_none() {
                    self.seats[gpu].swap(0, 1);
                }
                self.settle(problem, gpu, now);
            }
        }
    }

    /// A task of a job is trained; the last of a round makes the next ready.
    fn trained(&mut self, problem: &Problem, n: usize, synced: f64) {
        let job = &problem.jobs[n];
        let going = &mut self.jobs[n];
        going.training -= 1;
        let p = &mut going.progress;
        p.synced = p.synced.max(synced);
        if going.training > 0 || p.started < job.tasks {
            return;
        }
        *p = Progress {
            round: p.round + 1,
            started: 0,
            ready: p.synced,
            synced: 0.0,
        };
        let next = *p;
        if next.round < job.rounds {
            self.events.push(Reverse((Moment(next.ready), n)));
        }
        self.book(problem, n, next.chain_end(job));
    }

    /// Counts that a job ends no earlier than at `end`.
    fn book(&mut self, problem: &Problem, n: usize, end: f64) {
        let job = &problem.jobs[n];
        let booked = &mut self.jobs[n].booked;
        if end > *booked {
            self.cost += job.cost_at(end) - job.cost_at(*booked);
            *booked = end;
        }
    }

    fn idle(&self, gpu: usize) -> bool {
        self.seats[gpu][0].is_none() && self.available[gpu].is_finite()
    }

    /// The only task on a GPU that nobody has reserved.
    fn joinable(&self, gpu: usize) -> Option<Trains> {
        let [Some(trains), None] = self.seats[gpu] else {
            return None;
        };
        (self.reserved[gpu].is_infinite() && self.available[gpu].is_finite()).then_some(trains)
    }

    fn some_open(&self, problem: &Problem) -> bool {
        let open = |m: usize| {
            let joinable = self.joinable(m);
            self.idle(m) || joinable.is_some_and(|t| problem.jobs[t.job].gang.is_none())
        };
        (0..self.seats.len()).any(open)
    }

    /// Starts what should start at `now`, by priority.
    fn scan(&mut self, problem: &Problem, now: f64, priorities: &Priorities) {
        for gpu in 0..self.seats.len() {
            self.settle(problem, gpu, now);
        }
        self.reserved.clear();
        self.reserved.resize(self.seats.len(), f64::INFINITY);
        let mut i = 0;
        while i < self.ready.len() && self.some_open(problem) {
            let n = self.ready[i];
            match problem.jobs[n].gang {
                Some(_) => self.place_gang(problem, n, now, priorities),
                None => self.place_tasks(problem, n, now, priorities),
            }
            i += usize::from(!self.all_started(problem, i, now));
        }
        self.spare(problem, now, priorities);
    }

    /// When a GPU can be had alone for so many seconds: at once if that ends before its reservation begins.
    fn from(&self, gpu: usize, seconds: f64, now: f64) -> f64 {
        let fits = self.idle(gpu) && now + seconds <= self.reserved[gpu];
        if fits { now } else { self.available[gpu] }
    }

    fn reserve(&mut self, gpu: usize, start: f64, until: f64) {
        self.reserved[gpu] = self.reserved[gpu].min(start);
        self.available[gpu] = self.available[gpu].max(until);
    }

    fn place_gang(&mut self, problem: &Problem, n: usize, now: f64, priorities: &Priorities) {
        let finite = problem.jobs[n].train.iter().copied();
        let longest = finite.filter(|t| t.is_finite()).fold(0.0, f64::max);
        let gpus = 0..self.seats.len();
        let available: Vec<f64> = gpus.map(|m| self.from(m, longest, now)).collect();
        let masked = problem.together(n, priorities.allowed[n], &available);
        // A mask that leaves too few is no mask.
        let found = masked.or_else(|| problem.together(n, u64::MAX, &available));
        let Some(found) = found else { return };
        for gpu in found.gpus {
            if found.start > now {
                self.reserve(gpu, found.start, found.trained);
            } else {
                let times = (now, found.trained, found.synced - found.trained);
                self.begin(problem, n, gpu, times);
            }
        }
    }

    /// The tasks of a round that may run one after another: each starts, joins another, or reserves a GPU.
    fn place_tasks(&mut self, problem: &Problem, n: usize, now: f64, priorities: &Priorities) {
        let job = &problem.jobs[n];
        let allowed = priorities.allowed[n];
        for _ in self.jobs[n].progress.started..job.tasks {
            if !self.some_open(problem) {
                return;
            }
            if self.packs {
                let idle = (0..self.seats.len()).filter(|&m| self.idle(m));
                let idle = idle.filter(|&m| job.train[problem.gpus[m]].is_finite());
                let train = |m: usize| job.train[problem.gpus[m]];
                let fastest = idle.min_by(|&a, &b| train(a).total_cmp(&train(b)));
                let never = f64::INFINITY;
                let joined = || {
                    self.best_joined(problem, n, never, now, priorities)
                        .map(|j| j.1)
                };
                let Some(gpu) = fastest.or_else(joined) else {
                    return;
                };
                let sync = job.sync[problem.gpus[gpu]];
                self.begin(problem, n, gpu, (now, now + train(gpu), sync));
                continue;
            }
            let alone = self.best_alone(problem, n, allowed, now);
            let alone = alone.or_else(|| self.best_alone(problem, n, u64::MAX, now));
            let Some((end, gpu)) = alone else { return };
            let class = problem.gpus[gpu];
            match self.best_joined(problem, n, end, now, priorities) {
                Some((_, beside)) => {
                    let class = problem.gpus[beside];
                    let times = (now, now + job.train[class], job.sync[class]);
                    self.begin(problem, n, beside, times);
                }
                _ => {
                    let (train, sync) = (job.train[class], job.sync[class]);
                    let start = self.from(gpu, train, now);
                    if start > now || !self.idle(gpu) {
                        self.reserve(gpu, start, start + train);
                    } else {
                        self.begin(problem, n, gpu, (now, now + train, sync));
                    }
                }
            }
        }
    }

    /// Where a task that has a GPU to itself is synchronised first, of equals with less training.
    fn best_alone(
        &self,
        problem: &Problem,
        n: usize,
        allowed: u64,
        now: f64,
    ) -> Option<(f64, usize)> {
        let job = &problem.jobs[n];
        let end = |m: usize| {
            let g = problem.gpus[m];
            let at = self.from(m, job.train[g], now);
            (at + (job.train[g] + job.sync[g]), job.train[g], m)
        };
        let may = |m: &usize| allowed >> problem.gpus[*m] & 1 == 1;
        let ends = (0..self.seats.len()).filter(may).map(end);
        let finite = ends.filter(|e| e.0.is_finite());
        let best = finite.min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        best.map(|(end, _, m)| (end, m))
    }

    /// Beside which other task it is synchronised first, and before `alone`, where both together get more done.
    fn best_joined(
        &self,
        problem: &Problem,
        n: usize,
        alone: f64,
        now: f64,
        priorities: &Priorities,
    ) -> Option<(f64, usize)> {
        if priorities.alone[n] {
            return None;
        }
        let job = &problem.jobs[n];
        let mut best: Option<(f64, usize)> = None;
        for gpu in 0..self.seats.len() {
            let g = problem.gpus[gpu];
            let Some(other) = self.joinable(gpu).filter(|t| !priorities.alone[t.job]) else {
                continue;
            };
            if priorities.allowed[n] >> g & 1 == 0 {
                continue;
            }
            let Some(rates) = problem.beside(g, n, other.job) else {
                continue;
            };
            let left = (job.train[g], other.end - now);
            let (own, others) = ends_together(now, left, rates);
            let end = own + job.sync[g];
            let more = own.max(others) < now + left.0 + left.1;
            let weight = |n: usize| problem.jobs[n].weight;
            let gain = weight(n) * (alone - end) - weight(other.job) * (others - other.end);
            let pays = more && end < alone && (gain > 0.0 || !priorities.weighed);
            if (pays || self.packs) && best.is_none_or(|b| end < b.0) {
                best = Some((end, gpu));
            }
        }
        best
    }

    /// Starts the next task of a job's round, with its times if it has the GPU to itself.
    fn begin(
        &mut self,
        problem: &Problem,
        n: usize,
        gpu: usize,
        (start, end, sync): (f64, f64, f64),
    ) {
        let going = &mut self.jobs[n];
        let p = &mut going.progress;
        let trains = Trains {
            job: n,
            round: p.round,
            task: p.started,
            start,
            end,
            rate: 1.0,
            sync,
            fresh: true,
        };
        p.started += 1;
        going.training += 1;
        self.starts.push(Start { job: n, gpu });
        self.sit(gpu, trains);
        self.settle(problem, gpu, start);
    }

    /// Whether the ready job at place i has started its whole round; it then waits for its tasks.
    fn all_started(&mut self, problem: &Problem, i: usize, now: f64) -> bool {
        let n = self.ready[i];
        let job = &problem.jobs[n];
        if self.jobs[n].progress.started < job.tasks {
            return false;
        }
        self.ready.remove(i);
        // At best what trains has its GPU to itself from now on.
        let trains = self.seats.iter().flatten().flatten();
        let own = trains.filter(|t| t.job == n);
        let ends = own.map(|t| now + (t.end - now) * t.rate + t.sync);
        let p = self.jobs[n].progress;
        let next = Progress {
            round: p.round + 1,
            ready: ends.fold(p.synced, f64::max),
            ..p
        };
        // A rounding error must not count more than the end will be.
        self.book(problem, n, next.chain_end(job) * (1.0 - 1e-12));
        true
    }

    /// Idle GPUs that nobody wants who may use them go to tasks that are restricted to slower ones.
    fn spare(&mut self, problem: &Problem, now: f64, priorities: &Priorities) {
        let mut i = 0;
        while i < self.ready.len() {
            let n = self.ready[i];
            let allowed = priorities.allowed[n];
            let job = &problem.jobs[n];
            let span = |m: usize| job.train[problem.gpus[m]] + job.sync[problem.gpus[m]];
            if allowed == u64::MAX || job.gang.is_some() {
                i += 1;
                continue;
            }
            let classes = 0..job.train.len();
            let own = classes.filter(|g| allowed >> g & 1 == 1);
            let own = own
                .map(|g| job.train[g] + job.sync[g])
                .fold(f64::INFINITY, f64::min);
            while self.jobs[n].progress.started < job.tasks {
                let open = (0..self.seats.len())
                    .filter(|&m| self.idle(m) && self.reserved[m].is_infinite() && span(m) <= own);
                let Some(m) = open.min_by(|&a, &b| span(a).total_cmp(&span(b))) else {
                    break;
                };
                let g = problem.gpus[m];
                if job.train[g].is_infinite() {
                    break;
                }
                self.begin(problem, n, m, (now, now + job.train[g], job.sync[g]));
            }
            i += usize::from(!self.all_started(problem, i, now));
        }
    }
}
