//! GPUs on which two tasks may train together: the tasks there, their ends, and the reservations.

use crate::sharing::ends_together;
use crate::state::Priorities;
use crate::{Problem, TaskPlace};

/// A task in training.
#[derive(Debug, Clone, Copy)]
pub(super) struct Trains {
    pub(super) place: TaskPlace,
    pub(super) start: f64,
    /// End of its training at the present rate.
    pub(super) end: f64,
    /// Its present rate relative to its rate alone.
    pub(super) rate: f64,
    pub(super) sync: f64,
    /// Whether this play has started it.
    pub(super) fresh: bool,
}

/// The GPUs and the tasks in training there.
#[derive(Debug, Default)]
pub(super) struct Seats {
    /// Tasks on each GPU; the first seat is filled first.
    taken: Vec<[Option<Trains>; 2]>,
    /// When the next job in rank can have each GPU to itself; infinite for a lost GPU.
    available: Vec<f64>,
    /// When the first reservation of each GPU begins; infinite without one.
    reserved: Vec<f64>,
}

impl Seats {
    /// Removes all tasks. GPUs with an infinite `free` are lost.
    pub(super) fn clear(&mut self, free: &[f64], now: f64) {
        self.taken.clear();
        self.taken.resize(free.len(), [None; 2]);
        let lost = |&free: &f64| if free.is_infinite() { free } else { now };
        self.available.clear();
        self.available.extend(free.iter().map(lost));
    }

    /// Number of GPUs.
    pub(super) fn len(&self) -> usize {
        self.taken.len()
    }

    /// Puts a task on a GPU.
    pub(super) fn sit(&mut self, problem: &Problem, gpu: usize, trains: Trains, now: f64) {
        let free = self.taken[gpu].iter_mut().find(|s| s.is_none());
        if let Some(seat) = free {
            *seat = Some(trains);
        }
        self.settle(problem, gpu, now);
    }

    /// Removes and returns the tasks of a GPU that are trained by `now`; a task that stays has the
    /// GPU to itself.
    pub(super) fn leave(&mut self, problem: &Problem, gpu: usize, now: f64) -> [Option<Trains>; 2] {
        let mut gone = [None; 2];
        for (seat, gone) in self.taken[gpu].iter_mut().zip(&mut gone) {
            *gone = seat.take_if(|t| t.end <= now);
        }
        if gone.iter().any(Option::is_some) {
            if self.taken[gpu][0].is_none() {
                self.taken[gpu].swap(0, 1);
            }
            self.settle(problem, gpu, now);
        }
        gone
    }

    /// Drops all reservations.
    pub(super) fn reopen(&mut self, problem: &Problem, now: f64) {
        for gpu in 0..self.taken.len() {
            self.settle(problem, gpu, now);
        }
        self.reserved.clear();
        self.reserved.resize(self.taken.len(), f64::INFINITY);
    }

    /// All tasks in training.
    pub(super) fn trains(&self) -> impl Iterator<Item = &Trains> {
        self.taken.iter().flatten().flatten()
    }

    /// Whether a GPU is idle and not reserved.
    pub(super) fn unwanted(&self, gpu: usize) -> bool {
        self.idle(gpu) && self.reserved[gpu].is_infinite()
    }

    /// Sets the rates of a GPU's tasks to those that they have together, and moves their ends
    /// accordingly.
    fn settle(&mut self, problem: &Problem, gpu: usize, now: f64) {
        let class = problem.gpus[gpu];
        let rates = match self.taken[gpu] {
            [Some(a), Some(b)] => problem
                .beside(class, a.place.job, b.place.job)
                .unwrap_or((1.0, 1.0)),
            _ => (1.0, 1.0),
        };
        let mut until = now;
        for (seat, rate) in self.taken[gpu].iter_mut().zip([rates.0, rates.1]) {
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

    pub(super) fn idle(&self, gpu: usize) -> bool {
        self.taken[gpu][0].is_none() && self.available[gpu].is_finite()
    }

    /// The task on a GPU that another task may join: the only one there, on a GPU that is not
    /// reserved.
    fn joinable(&self, gpu: usize) -> Option<Trains> {
        let [Some(trains), None] = self.taken[gpu] else {
            return None;
        };
        (self.reserved[gpu].is_infinite() && self.available[gpu].is_finite()).then_some(trains)
    }

    pub(super) fn some_open(&self, problem: &Problem) -> bool {
        let open = |m: usize| {
            let joinable = self.joinable(m);
            self.idle(m) || joinable.is_some_and(|t| problem.jobs[t.place.job].gang.is_none())
        };
        (0..self.taken.len()).any(open)
    }

    /// When a task can have a GPU to itself for `seconds`: at once if the GPU is idle and the task
    /// ends before the first reservation begins.
    pub(super) fn from(&self, gpu: usize, seconds: f64, now: f64) -> f64 {
        let fits = self.idle(gpu) && now + seconds <= self.reserved[gpu];
        if fits { now } else { self.available[gpu] }
    }

    pub(super) fn reserve(&mut self, gpu: usize, start: f64, until: f64) {
        self.reserved[gpu] = self.reserved[gpu].min(start);
        self.available[gpu] = self.available[gpu].max(until);
    }

    /// The GPU on which a task that has it to itself is synchronised first, with that moment; ties
    /// go to less training.
    pub(super) fn best_alone(
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
        let ends = (0..self.taken.len()).filter(may).map(end);
        let finite = ends.filter(|e| e.0.is_finite());
        let best = finite.min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        best.map(|(end, _, m)| (end, m))
    }

    /// The GPU on which a task of job n is synchronised first if it joins another task there, with
    /// that moment. It must be earlier than `alone`, both tasks must be trained sooner than one
    /// after the other, and under weighed priorities the weighted sum of their ends must fall;
    /// `packs` drops these conditions.
    pub(super) fn best_joined(
        &self,
        problem: &Problem,
        n: usize,
        alone: f64,
        now: f64,
        priorities: &Priorities,
        packs: bool,
    ) -> Option<(f64, usize)> {
        if priorities.alone[n] {
            return None;
        }
        let job = &problem.jobs[n];
        let mut best: Option<(f64, usize)> = None;
        for gpu in 0..self.taken.len() {
            let g = problem.gpus[gpu];
            let Some(other) = self
                .joinable(gpu)
                .filter(|t| !priorities.alone[t.place.job])
            else {
                continue;
            };
            if priorities.allowed[n] >> g & 1 == 0 {
                continue;
            }
            let Some(rates) = problem.beside(g, n, other.place.job) else {
                continue;
            };
            let left = (job.train[g], other.end - now);
            let (own, others) = ends_together(now, left, rates);
            let end = own + job.sync[g];
            let more = own.max(others) < now + left.0 + left.1;
            let weight = |n: usize| problem.jobs[n].weight;
            let gain = weight(n) * (alone - end) - weight(other.place.job) * (others - other.end);
            let pays = more && end < alone && (gain > 0.0 || !priorities.weighed);
            if (pays || packs) && best.is_none_or(|b| end < b.0) {
                best = Some((end, gpu));
            }
        }
        best
    }
}
