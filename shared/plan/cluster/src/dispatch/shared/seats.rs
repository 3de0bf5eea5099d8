//! The GPUs where two tasks may train on one: who trains there, until when, and from when on it is reserved.

use crate::sharing::ends_together;
use crate::state::Priorities;
use crate::{Place, Problem};

/// A task that trains.
#[derive(Debug, Clone, Copy)]
pub(super) struct Trains {
    pub(super) place: Place,
    pub(super) start: f64,
    /// When it is trained if its rate stays.
    pub(super) end: f64,
    /// Its rate over that alone.
    pub(super) rate: f64,
    pub(super) sync: f64,
    /// Whether this play has started it.
    pub(super) fresh: bool,
}

/// The GPUs and what trains there.
#[derive(Debug, Default)]
pub(super) struct Seats {
    /// Tasks on each GPU, the first seat filled first.
    taken: Vec<[Option<Trains>; 2]>,
    /// When the next in rank can have a GPU to itself; infinite where it is lost.
    available: Vec<f64>,
    /// When the first reservation of a GPU begins.
    reserved: Vec<f64>,
}

impl Seats {
    /// Nothing trains; GPUs that are free at infinity are lost.
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

    /// Another task trains on a GPU.
    pub(super) fn sit(&mut self, problem: &Problem, gpu: usize, trains: Trains, now: f64) {
        let free = self.taken[gpu].iter_mut().find(|s| s.is_none());
        if let Some(seat) = free {
            *seat = Some(trains);
        }
        self.settle(problem, gpu, now);
    }

    /// The tasks that are trained by now leave their GPU; what is left there has it to itself.
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

    /// Nobody has reserved anything any more.
    pub(super) fn reopen(&mut self, problem: &Problem, now: f64) {
        for gpu in 0..self.taken.len() {
            self.settle(problem, gpu, now);
        }
        self.reserved.clear();
        self.reserved.resize(self.taken.len(), f64::INFINITY);
    }

    /// Whatever trains.
    pub(super) fn trains(&self) -> impl Iterator<Item = &Trains> {
        self.taken.iter().flatten().flatten()
    }

    /// Whether a GPU is idle and nobody has reserved it.
    pub(super) fn unwanted(&self, gpu: usize) -> bool {
        self.idle(gpu) && self.reserved[gpu].is_infinite()
    }

    /// The rates of a GPU's tasks are those of who is there now; their ends move with them.
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

    /// The only task on a GPU that nobody has reserved.
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

    /// When a GPU can be had alone for so many seconds: at once if that ends before its reservation begins.
    pub(super) fn from(&self, gpu: usize, seconds: f64, now: f64) -> f64 {
        let fits = self.idle(gpu) && now + seconds <= self.reserved[gpu];
        if fits { now } else { self.available[gpu] }
    }

    pub(super) fn reserve(&mut self, gpu: usize, start: f64, until: f64) {
        self.reserved[gpu] = self.reserved[gpu].min(start);
        self.available[gpu] = self.available[gpu].max(until);
    }

    /// Where a task that has a GPU to itself is synchronised first, of equals with less training.
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

    /// Beside which other task it is synchronised first, and before `alone`, where both together get more done.
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
