//! The event-driven placement where two tasks may train on one GPU.
//!
//! As in the other placements, jobs are considered by priority, and a task goes where it is
//! synchronised first: it starts at once on an idle GPU, or reserves a busy one. It may also *join*
//! a task in training, if it is then synchronised even earlier, and if both are trained sooner than
//! one after the other: only then does sharing raise the throughput of the GPU. A task that joins
//! delays the other one, so ends are computed for the present rates and updated whenever a task
//! comes or goes.

mod seats;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::pool::{Moment, arrive};
use crate::state::{ClusterState, JobProgress, Priorities, Start};
use crate::{Assignment, Problem, TaskPlace};
use seats::{Seats, Trains};

/// A job during a play.
#[derive(Debug, Clone, Copy)]
struct Going {
    progress: JobProgress,
    /// Tasks of the present round that are in training.
    training: usize,
    /// The lower bound on the job's completion that is counted in the cost so far.
    booked: f64,
}

/// State of a play: the GPUs, the tasks in training there, and the progress of all jobs.
#[derive(Debug, Default)]
pub(super) struct Hall {
    seats: Seats,
    jobs: Vec<Going>,
    rank: Vec<usize>,
    /// Jobs with tasks to start, by rank.
    ready: Vec<usize>,
    events: BinaryHeap<Reverse<(Moment, usize)>>,
    starts: Vec<Start>,
    /// Whether this is greedy packing: every task starts at once wherever it fits.
    packs: bool,
    /// `sum w C` of the booked completions.
    cost: f64,
}

impl Hall {
    /// A hall for greedy packing: every ready task takes the fastest idle GPU, or else joins
    /// another task if the two can run together, however much that slows them down.
    pub fn packing() -> Self {
        Self {
            packs: true,
            ..Self::default()
        }
    }

    /// Tasks that should start now, with their GPUs.
    pub fn decide(
        &mut self,
        problem: &Problem,
        state: &ClusterState,
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
        state: &ClusterState,
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
            let trains = self.seats.trains();
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

    fn set(&mut self, problem: &Problem, state: &ClusterState, now: f64, priorities: &Priorities) {
        self.rank.resize(problem.jobs.len(), 0);
        for (rank, &n) in priorities.order.iter().enumerate() {
            self.rank[n] = rank;
        }
        self.seats.clear(&state.free, now);
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
                place: TaskPlace {
                    job: r.job,
                    round: 0,
                    task: 0,
                },
                start: now,
                end: now + r.left,
                rate: 1.0,
                sync: r.sync,
                fresh: false,
            };
            self.seats.sit(problem, r.gpu, trains, now);
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

    /// Tasks that are trained by now leave their GPUs.
    fn finish(&mut self, problem: &Problem, now: f64, note: &mut impl FnMut(Assignment)) {
        for gpu in 0..self.seats.len() {
            for t in self.seats.leave(problem, gpu, now).into_iter().flatten() {
                if t.fresh {
                    note(Assignment::new(
                        t.place,
                        gpu,
                        t.start,
                        t.end,
                        t.end + t.sync,
                    ));
                }
                self.trained(problem, t.place.job, t.end + t.sync);
            }
        }
    }

    /// Records that a task of a job is trained; the last task of a round makes the next round
    /// ready.
    fn trained(&mut self, problem: &Problem, n: usize, synced: f64) {
        let job = &problem.jobs[n];
        let going = &mut self.jobs[n];
        going.training -= 1;
        let p = &mut going.progress;
        p.synced = p.synced.max(synced);
        if going.training > 0 || p.started < job.tasks {
            return;
        }
        *p = JobProgress {
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

    /// Raises the cost to a completion of the job at `end`, if that is later than the booked one.
    fn book(&mut self, problem: &Problem, n: usize, end: f64) {
        let job = &problem.jobs[n];
        let booked = &mut self.jobs[n].booked;
        if end > *booked {
            self.cost += job.cost_at(end) - job.cost_at(*booked);
            *booked = end;
        }
    }

    /// Starts the tasks that should start at `now`, by priority.
    fn scan(&mut self, problem: &Problem, now: f64, priorities: &Priorities) {
        self.seats.reopen(problem, now);
        let mut i = 0;
        while i < self.ready.len() && self.seats.some_open(problem) {
            let n = self.ready[i];
            match problem.jobs[n].gang {
                Some(_) => self.place_gang(problem, n, now, priorities),
                None => self.place_tasks(problem, n, now, priorities),
            }
            i += usize::from(!self.all_started(problem, i, now));
        }
        self.spare(problem, now, priorities);
    }

    fn place_gang(&mut self, problem: &Problem, n: usize, now: f64, priorities: &Priorities) {
        let finite = problem.jobs[n].train.iter().copied();
        let longest = finite.filter(|t| t.is_finite()).fold(0.0, f64::max);
        let gpus = 0..self.seats.len();
        let available: Vec<f64> = gpus.map(|m| self.seats.from(m, longest, now)).collect();
        let masked = problem.together(n, priorities.allowed[n], &available);
        // Ignore a mask that leaves too few GPUs.
        let found = masked.or_else(|| problem.together(n, u64::MAX, &available));
        let Some(found) = found else { return };
        for gpu in found.gpus {
            if found.start > now {
                self.seats.reserve(gpu, found.start, found.trained);
            } else {
                let sync = found.synced - found.trained;
                self.begin(problem, n, gpu, now, found.trained, sync);
            }
        }
    }

    /// Places the tasks of a job that is no gang: each one starts, joins another task, or reserves
    /// a GPU.
    fn place_tasks(&mut self, problem: &Problem, n: usize, now: f64, priorities: &Priorities) {
        let job = &problem.jobs[n];
        let allowed = priorities.allowed[n];
        for _ in self.jobs[n].progress.started..job.tasks {
            if !self.seats.some_open(problem) {
                return;
            }
            if self.packs {
                let idle = (0..self.seats.len())
                    .filter(|&m| self.seats.idle(m))
                    .filter(|&m| job.train[problem.gpus[m]].is_finite());
                let train = |m: usize| job.train[problem.gpus[m]];
                let fastest = idle.min_by(|&a, &b| train(a).total_cmp(&train(b)));
                let never = f64::INFINITY;
                let joined = || {
                    let seats = &self.seats;
                    let best = seats.best_joined(problem, n, never, now, priorities, true);
                    best.map(|j| j.1)
                };
                let Some(gpu) = fastest.or_else(joined) else {
                    return;
                };
                let sync = job.sync[problem.gpus[gpu]];
                self.begin(problem, n, gpu, now, now + train(gpu), sync);
                continue;
            }
            let alone = self
                .seats
                .best_alone(problem, n, allowed, now)
                .or_else(|| self.seats.best_alone(problem, n, u64::MAX, now));
            let Some((end, gpu)) = alone else { return };
            let class = problem.gpus[gpu];
            match self
                .seats
                .best_joined(problem, n, end, now, priorities, false)
            {
                Some((_, beside)) => {
                    let class = problem.gpus[beside];
                    let end = now + job.train[class];
                    self.begin(problem, n, beside, now, end, job.sync[class]);
                }
                _ => {
                    let (train, sync) = (job.train[class], job.sync[class]);
                    let start = self.seats.from(gpu, train, now);
                    if start > now || !self.seats.idle(gpu) {
                        self.seats.reserve(gpu, start, start + train);
                    } else {
                        self.begin(problem, n, gpu, now, now + train, sync);
                    }
                }
            }
        }
    }

    /// Starts the next task of a job's round. The times given are those with the GPU to itself.
    fn begin(&mut self, problem: &Problem, n: usize, gpu: usize, start: f64, end: f64, sync: f64) {
        let going = &mut self.jobs[n];
        let p = &mut going.progress;
        let trains = Trains {
            place: p.next_task(n),
            start,
            end,
            rate: 1.0,
            sync,
            fresh: true,
        };
        p.started += 1;
        going.training += 1;
        self.starts.push(Start { job: n, gpu });
        self.seats.sit(problem, gpu, trains, start);
    }

    /// Whether the ready job at place i has started its whole round; if so, it is no longer ready
    /// until its tasks end.
    fn all_started(&mut self, problem: &Problem, i: usize, now: f64) -> bool {
        let n = self.ready[i];
        let job = &problem.jobs[n];
        if self.jobs[n].progress.started < job.tasks {
            return false;
        }
        self.ready.remove(i);
        // At best each of its tasks in training has its GPU to itself from now on.
        let own = self.seats.trains().filter(|t| t.place.job == n);
        let ends = own.map(|t| now + (t.end - now) * t.rate + t.sync);
        let p = self.jobs[n].progress;
        let next = JobProgress {
            round: p.round + 1,
            ready: ends.fold(p.synced, f64::max),
            ..p
        };
        // Slightly less, so that rounding errors cannot raise the bound above the real completion.
        self.book(problem, n, next.chain_end(job) * (1.0 - 1e-12));
        true
    }

    /// Gives idle GPUs that no permitted job wants to tasks that are restricted to slower ones.
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
            let own = classes
                .filter(|g| allowed >> g & 1 == 1)
                .map(|g| job.train[g] + job.sync[g])
                .fold(f64::INFINITY, f64::min);
            while self.jobs[n].progress.started < job.tasks {
                let open =
                    (0..self.seats.len()).filter(|&m| self.seats.unwanted(m) && span(m) <= own);
                let Some(m) = open.min_by(|&a, &b| span(a).total_cmp(&span(b))) else {
                    break;
                };
                let g = problem.gpus[m];
                if job.train[g].is_infinite() {
                    break;
                }
                self.begin(problem, n, m, now, now + job.train[g], job.sync[g]);
            }
            i += usize::from(!self.all_started(problem, i, now));
        }
    }
}
