//! Evaluates a sequence of transfers.

use crate::cache::RateCache;
use crate::gpu::Gpu;
use crate::round::{ComputeHolds, Order, Transfer, hold, play};
use crate::{Instance, Link, RoundTask, Set};

/// Plays sequences of transfers.
///
/// On a full-duplex link a sequence is the order of the downloads, and uploads go first come first served (or in the
/// same order, with `single`). On a half-duplex link it lists all transfers, `i` for a download and `n + i` for an
/// upload.
pub(crate) struct Player<'a, 'r> {
    instance: &'a Instance,
    pub rates: &'a mut RateCache<'r>,
    single: bool,
    /// Holds of compute, used in every simulation; marks ignore them.
    pub holds: ComputeHolds,
    ends: Vec<(f64, usize)>,
    /// State before each download of the sequence last marked: the processor, and when the uplink is free.
    marks: Vec<Mark>,
}

#[derive(Clone, Copy)]
struct Mark {
    gpu: Gpu,
    free: f64,
    /// Remaining seconds of upload.
    uploads: f64,
}

impl Mark {
    fn start(jobs: &[RoundTask]) -> Self {
        Self {
            gpu: Gpu::new(),
            free: 0.0,
            uploads: jobs.iter().map(|j| j.upload_s).sum(),
        }
    }
}

impl<'a, 'r> Player<'a, 'r> {
    pub fn new(instance: &'a Instance, rates: &'a mut RateCache<'r>, single: bool) -> Self {
        Self {
            instance,
            rates,
            single,
            holds: ComputeHolds::new(),
            ends: Vec::with_capacity(instance.len()),
            marks: Vec::new(),
        }
    }

    /// The round to be played.
    pub fn instance(&self) -> &'a Instance {
        self.instance
    }

    /// Records how `sequence` plays, from position `from` on, for [`Self::value_from`]. Before that position it must
    /// equal the sequence that was marked last.
    pub fn mark(&mut self, sequence: &[usize], from: usize) {
        if self.instance.link() == Link::Half || self.single {
            return;
        }
        let from = from.min(self.marks.len().saturating_sub(1));
        let jobs = self.instance.jobs();
        let known = self.marks.get(from).copied();
        let mut state = known.unwrap_or_else(|| Mark::start(jobs));
        self.marks.truncate(from);
        for &i in &sequence[from..] {
            self.marks.push(state);
            step(&mut state, i, jobs, self.rates);
        }
    }

    /// The makespan of a sequence that equals the marked one before position `from`, or infinity once it is certain
    /// that it is not below `limit`.
    pub fn value_from(&mut self, sequence: &[usize], from: usize, limit: f64) -> f64 {
        let Some(&(mut state)) = self.marks.get(from) else {
            return self.value(sequence);
        };
        let jobs = self.instance.jobs();
        for &i in &sequence[from..] {
            step(&mut state, i, jobs, self.rates);
            if state.free.max(state.gpu.now) + state.uploads >= limit {
                return f64::INFINITY;
            }
        }
        let Mark { gpu, free, .. } = &mut state;
        gpu.advance(f64::INFINITY, self.rates, |j, t| {
            *free = free.max(t) + jobs[j].upload_s;
        });
        state.free
    }

    /// The makespan of a sequence in seconds.
    pub fn value(&mut self, sequence: &[usize]) -> f64 {
        match self.instance.link() {
            Link::Full => self.full(sequence),
            Link::Half => self.half(sequence),
            Link::Shared => play(self.instance, self.rates, &Order::Together, &[]).makespan_s,
        }
    }

    /// The same, or infinity once it is certain that it is not below `limit`.
    pub fn value_below(&mut self, sequence: &[usize], limit: f64) -> f64 {
        if self.instance.link() != Link::Full || self.single || !self.holds.is_empty() {
            return self.value(sequence);
        }
        let jobs = self.instance.jobs();
        let mut state = Mark::start(jobs);
        for &i in sequence {
            step(&mut state, i, jobs, self.rates);
            if state.free.max(state.gpu.now) + state.uploads >= limit {
                return f64::INFINITY;
            }
        }
        let Mark { gpu, free, .. } = &mut state;
        gpu.advance(f64::INFINITY, self.rates, |j, t| {
            *free = free.max(t) + jobs[j].upload_s;
        });
        state.free
    }

    fn full(&mut self, sequence: &[usize]) -> f64 {
        let jobs = self.instance.jobs();
        let mut gpu = Gpu::new();
        if self.single {
            let mut end = [0.0; crate::MAX_TASKS];
            for &i in sequence {
                gpu.advance(gpu.now + jobs[i].download_s, self.rates, |j, t| end[j] = t);
                gpu.admit(i, jobs[i].work, hold(&self.holds, i));
            }
            gpu.advance(f64::INFINITY, self.rates, |j, t| end[j] = t);
            return sequence
                .iter()
                .fold(0.0, |free: f64, &i| free.max(end[i]) + jobs[i].upload_s);
        }
        let mut free = 0.0_f64;
        for &i in sequence {
            gpu.advance(gpu.now + jobs[i].download_s, self.rates, |j, t| {
                free = free.max(t) + jobs[j].upload_s;
            });
            gpu.admit(i, jobs[i].work, hold(&self.holds, i));
        }
        gpu.advance(f64::INFINITY, self.rates, |j, t| {
            free = free.max(t) + jobs[j].upload_s;
        });
        free
    }

    /// Infinite if an upload comes before its download, or out of order.
    fn half(&mut self, sequence: &[usize]) -> f64 {
        let jobs = self.instance.jobs();
        let n = jobs.len();
        let mut gpu = Gpu::new();
        let mut downloaded: Set = 0;
        let mut turns = sequence.iter().filter(|&&code| code < n);
        for &code in sequence {
            if code < n {
                gpu.advance(gpu.now + jobs[code].download_s, self.rates, |_, _| {});
                gpu.admit(code, jobs[code].work, hold(&self.holds, code));
                downloaded |= 1 << code;
                continue;
            }
            let i = code - n;
            if downloaded & 1 << i == 0 || (self.single && turns.next() != Some(&i)) {
                return f64::INFINITY;
            }
            gpu.finish(1 << i, self.rates, |_, _| {});
            gpu.advance(gpu.now + jobs[i].upload_s, self.rates, |_, _| {});
        }
        gpu.now
    }

    /// The half-duplex sequence in which the link, whenever free, takes the first transfer of `priority` that may
    /// start.
    pub fn greedy(&mut self, priority: &[usize]) -> Vec<usize> {
        let jobs = self.instance.jobs();
        let n = jobs.len();
        let mut gpu = Gpu::new();
        let mut todo = priority.to_vec();
        let mut made = Vec::with_capacity(todo.len());
        let mut ended: Set = 0;
        while !todo.is_empty() {
            let turn = made
                .iter()
                .find(|&&i| i < n && todo.contains(&(n + i)))
                .copied();
            let may_start = |&code: &usize| {
                code < n
                    || (ended & 1 << (code - n) != 0 && (!self.single || turn == Some(code - n)))
            };
            let Some(at) = todo.iter().position(may_start) else {
                let next = gpu.next_end(self.rates);
                gpu.advance(next, self.rates, |j, _| ended |= 1 << j);
                continue;
            };
            let code = todo.remove(at);
            made.push(code);
            let seconds = if code < n {
                jobs[code].download_s
            } else {
                jobs[code - n].upload_s
            };
            gpu.advance(gpu.now + seconds, self.rates, |j, _| ended |= 1 << j);
            if code < n {
                gpu.start(code, jobs[code].work);
            }
        }
        made
    }

    /// The order that a sequence describes.
    pub fn order(&mut self, sequence: &[usize]) -> Order {
        match self.instance.link() {
            Link::Shared => Order::Together,
            Link::Half => {
                let n = self.instance.len();
                let transfer = |&code: &usize| {
                    if code < n {
                        Transfer::Download(code)
                    } else {
                        Transfer::Upload(code - n)
                    }
                };
                Order::OneByOne(sequence.iter().map(transfer).collect())
            }
            Link::Full => {
                let uploads = if self.single {
                    sequence.to_vec()
                } else {
                    self.first_come(sequence)
                };
                Order::PerDirection {
                    downloads: sequence.to_vec(),
                    uploads,
                }
            }
        }
    }

    /// The tasks in the order in which compute ends.
    fn first_come(&mut self, sequence: &[usize]) -> Vec<usize> {
        let jobs = self.instance.jobs();
        let mut gpu = Gpu::new();
        self.ends.clear();
        let ends = &mut self.ends;
        for &i in sequence {
            gpu.advance(gpu.now + jobs[i].download_s, self.rates, |j, t| {
                ends.push((t, j))
            });
            gpu.admit(i, jobs[i].work, hold(&self.holds, i));
        }
        gpu.advance(f64::INFINITY, self.rates, |j, t| ends.push((t, j)));
        self.ends.iter().map(|e| e.1).collect()
    }
}

/// Downloads task `i` while the processor and the uplink continue.
fn step(state: &mut Mark, i: usize, jobs: &[RoundTask], rates: &mut RateCache<'_>) {
    let Mark { gpu, free, uploads } = state;
    gpu.advance(gpu.now + jobs[i].download_s, rates, |j, t| {
        *free = free.max(t) + jobs[j].upload_s;
        *uploads -= jobs[j].upload_s;
    });
    gpu.start(i, jobs[i].work);
}
