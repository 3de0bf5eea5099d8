//! Event-driven placement with gangs: a gang takes the GPUs on which it is synchronised first, and
//! reserves them if one of them is still busy. Tasks that end before the gang begins may use the idle
//! ones meanwhile (*backfilling*: Lifka, JSSPP 1995), so no job of lower rank delays it.
//!
//! Every event considers every waiting job and every GPU again: reservations of whole sets are not
//! kept between events, unlike those of single GPUs without gangs.

use super::block::{self, Block};
use crate::Problem;

/// A task that starts now: its GPU, and when it is trained and synchronised.
pub(super) struct Begun {
    pub gpu: usize,
    pub trained: f64,
    pub synced: f64,
}

/// GPUs during a play.
#[derive(Debug, Default)]
pub(super) struct Floor {
    /// When each GPU is free.
    free: Vec<f64>,
    /// When each GPU is available to the next job in rank.
    available: Vec<f64>,
    /// When the first reservation of each GPU begins; infinite without one.
    reserved: Vec<f64>,
}

impl Floor {
    pub fn set(&mut self, free: &[f64]) {
        self.free.clear();
        self.free.extend_from_slice(free);
    }

    /// When the first busy GPU is free.
    pub fn next_free(&self, now: f64) -> f64 {
        let busy = self.free.iter().copied().filter(|&t| t > now);
        busy.fold(f64::INFINITY, f64::min)
    }

    /// Begins a scan of the waiting jobs: drops all reservations.
    pub fn open(&mut self, now: f64) {
        self.available.clear();
        self.available.extend(self.free.iter().map(|&t| t.max(now)));
        self.reserved.clear();
        self.reserved.resize(self.free.len(), f64::INFINITY);
    }

    pub fn some_idle(&self, now: f64) -> bool {
        self.free.iter().any(|&t| t <= now)
    }

    /// When a task can have a GPU for `seconds`: at once if the GPU is idle and the task ends
    /// before the first reservation begins.
    fn from(&self, gpu: usize, seconds: f64, now: f64) -> f64 {
        let fits = self.free[gpu] <= now && now + seconds <= self.reserved[gpu];
        if fits { now } else { self.available[gpu] }
    }

    fn take(&mut self, gpu: usize, until: f64) {
        self.free[gpu] = until;
        self.available[gpu] = self.available[gpu].max(until);
    }

    fn reserve(&mut self, gpu: usize, start: f64, until: f64) {
        self.reserved[gpu] = self.reserved[gpu].min(start);
        self.available[gpu] = self.available[gpu].max(until);
    }

    /// Starts a whole gang if the GPUs on which it is synchronised first are free; otherwise
    /// reserves them.
    pub fn place_gang(
        &mut self,
        problem: &Problem,
        n: usize,
        allowed: u64,
        now: f64,
    ) -> Vec<Begun> {
        let finite = problem.jobs[n].train.iter().copied();
        let longest = finite.filter(|t| t.is_finite()).fold(0.0, f64::max);
        let gpus = 0..self.free.len();
        let available: Vec<f64> = gpus.map(|m| self.from(m, longest, now)).collect();
        let masked = problem.together(n, allowed, &available);
        // Ignore a mask that leaves too few GPUs.
        let found = masked.or_else(|| problem.together(n, u64::MAX, &available));
        let Some(found) = found else {
            return Vec::new();
        };
        if found.start > now {
            for gpu in found.gpus {
                self.reserve(gpu, found.start, found.trained);
            }
            return Vec::new();
        }
        let begun = found.gpus.into_iter().map(|gpu| {
            self.take(gpu, found.trained);
            Begun {
                gpu,
                trained: found.trained,
                synced: found.synced,
            }
        });
        begun.collect()
    }

    /// Starts a block of `rounds` rounds of `tasks` tasks if the GPUs on which it ends first are
    /// free. Otherwise starts it on idle GPUs, if it ends even sooner there and before the
    /// reservations of these GPUs begin. If neither is possible, reserves the GPUs on which it ends
    /// first.
    pub fn place_block(
        &mut self,
        problem: &Problem,
        n: usize,
        allowed: u64,
        tasks: usize,
        rounds: usize,
        now: f64,
    ) -> Option<Block> {
        let find = |allowed, available: &[f64]| {
            block::earliest(problem, n, allowed, tasks, rounds, available)
        };
        // Ignore a mask that leaves too few GPUs.
        let found = find(allowed, &self.available).or_else(|| find(u64::MAX, &self.available))?;
        if found.start <= now {
            return Some(self.begin(found, rounds));
        }
        let idle: Vec<f64> = self
            .free
            .iter()
            .map(|&t| if t <= now { now } else { f64::INFINITY })
            .collect();
        let fits = |b: &Block| {
            let before = |s| b.until(s, rounds) <= self.reserved[s.0];
            b.end(rounds) < found.end(rounds) && b.seats.iter().all(before)
        };
        if let Some(filling) = find(allowed, &idle).filter(fits) {
            return Some(self.begin(filling, rounds));
        }
        for seat in &found.seats {
            self.reserve(seat.0, found.start, found.until(seat, rounds));
        }
        None
    }

    fn begin(&mut self, block: Block, rounds: usize) -> Block {
        for seat in &block.seats {
            self.take(seat.0, block.until(seat, rounds));
        }
        block
    }

    /// Places the tasks of a job that is no gang: each one starts, or reserves a GPU.
    pub fn place_singles(
        &mut self,
        problem: &Problem,
        n: usize,
        allowed: u64,
        tasks: usize,
        now: f64,
    ) -> Vec<Begun> {
        let job = &problem.jobs[n];
        let mut begun = Vec::new();
        for _ in 0..tasks {
            if !self.some_idle(now) {
                break;
            }
            let end = |m: usize| {
                let g = problem.gpus[m];
                let at = self.from(m, job.train[g], now);
                (at + (job.train[g] + job.sync[g]), job.train[g], m)
            };
            let best = |mask: u64| {
                let may = |m: &usize| mask >> problem.gpus[*m] & 1 == 1;
                let ends = (0..problem.gpus.len()).filter(may).map(end);
                let order = |a: &(f64, f64, usize), b: &(f64, f64, usize)| {
                    a.0.total_cmp(&b.0)
                        .then(a.1.total_cmp(&b.1))
                        .then(a.2.cmp(&b.2))
                };
                ends.filter(|e| e.0.is_finite()).min_by(order)
            };
            let Some((_, train, gpu)) = best(allowed).or_else(|| best(u64::MAX)) else {
                break;
            };
            let at = self.from(gpu, train, now);
            let trained = at + train;
            if at > now {
                self.reserve(gpu, at, trained);
            } else {
                self.take(gpu, trained);
                let synced = trained + job.sync[problem.gpus[gpu]];
                begun.push(Begun {
                    gpu,
                    trained,
                    synced,
                });
            }
        }
        begun
    }
}
