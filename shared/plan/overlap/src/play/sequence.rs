//! Evaluates a sequence of transfers.

use crate::play::full_duplex::FullRound;
use crate::play::gpu::Gpu;
use crate::play::half_duplex::HalfRound;
use crate::play::round::{ComputeHolds, Order, Transfer, hold, play};
use crate::rates::cache::RateCache;
use crate::{Instance, Link, Set};

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
    marks: Vec<FullRound>,
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
        let mut state = known.unwrap_or_else(|| FullRound::new(jobs));
        self.marks.truncate(from);
        for &i in &sequence[from..] {
            self.marks.push(state);
            state.download(i, None, jobs, self.rates);
        }
    }

    /// The makespan of a sequence that equals the marked one before position `from`, or infinity once it is certain
    /// that it is not below `limit`.
    pub fn value_from(&mut self, sequence: &[usize], from: usize, limit: f64) -> f64 {
        match self.marks.get(from) {
            Some(&state) => self.along(state, &sequence[from..], limit),
            None => self.value(sequence),
        }
    }

    /// The makespan of a sequence in seconds.
    pub fn value(&mut self, sequence: &[usize]) -> f64 {
        self.value_below(sequence, f64::INFINITY)
    }

    /// The same, or infinity once it is certain that it is not below `limit`.
    pub fn value_below(&mut self, sequence: &[usize], limit: f64) -> f64 {
        match self.instance.link() {
            Link::Full if self.single => self.in_one_order(sequence),
            Link::Full => self.along(FullRound::new(self.instance.jobs()), sequence, limit),
            Link::Half => self.half(sequence),
            Link::Shared => play(self.instance, self.rates, &Order::Together, &[]).makespan_s,
        }
    }

    /// The makespan of a full-duplex round that continues with these downloads.
    fn along(&mut self, mut state: FullRound, downloads: &[usize], limit: f64) -> f64 {
        let jobs = self.instance.jobs();
        for &i in downloads {
            state.download(i, hold(&self.holds, i), jobs, self.rates);
            if state.uplink.max(state.gpu.now) + state.uploads_s >= limit {
                return f64::INFINITY;
            }
        }
        state.compute(f64::INFINITY, jobs, self.rates);
        state.uplink
    }

    /// The makespan where uploads keep the order of the downloads.
    fn in_one_order(&mut self, sequence: &[usize]) -> f64 {
        self.compute_ends(sequence);
        let mut end = [0.0; crate::MAX_TASKS];
        for &(t, j) in &self.ends {
            end[j] = t;
        }
        let jobs = self.instance.jobs();
        sequence
            .iter()
            .fold(0.0, |free: f64, &i| free.max(end[i]) + jobs[i].upload_s)
    }

    /// The makespan of a half-duplex sequence; infinite if an upload comes before its download, or
    /// out of order.
    fn half(&mut self, sequence: &[usize]) -> f64 {
        let n = self.instance.len();
        let mut round = HalfRound::new(self.instance.everyone());
        let mut turns = sequence.iter().filter(|&&code| code < n);
        for &code in sequence {
            let transfer = transfer(code, n);
            let until = match transfer {
                Transfer::Download(i) => hold(&self.holds, i),
                Transfer::Upload(i) => {
                    let in_turn = !self.single || turns.next() == Some(&i);
                    if round.to_upload & 1 << i == 0 || !in_turn {
                        return f64::INFINITY;
                    }
                    None
                }
            };
            round.transfer(transfer, until, self.instance.jobs(), self.rates);
        }
        round.gpu.now
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
                Order::OneByOne(sequence.iter().map(|&code| transfer(code, n)).collect())
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
        self.compute_ends(sequence);
        self.ends.iter().map(|e| e.1).collect()
    }

    /// Fills `ends` with the times at which compute ends, and the tasks.
    fn compute_ends(&mut self, downloads: &[usize]) {
        let jobs = self.instance.jobs();
        let mut gpu = Gpu::new();
        self.ends.clear();
        let ends = &mut self.ends;
        for &i in downloads {
            gpu.advance(gpu.now + jobs[i].download_s, self.rates, |j, t| {
                ends.push((t, j))
            });
            gpu.admit(i, jobs[i].work, hold(&self.holds, i));
        }
        gpu.advance(f64::INFINITY, self.rates, |j, t| ends.push((t, j)));
    }
}

/// The transfer that a number stands for in a half-duplex sequence of `n` tasks.
fn transfer(code: usize, n: usize) -> Transfer {
    match code.checked_sub(n) {
        None => Transfer::Download(code),
        Some(i) => Transfer::Upload(i),
    }
}
