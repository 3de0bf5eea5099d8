//! GPUs of one class during a dispatch.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// A moment in seconds, ordered.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Moment(pub f64);

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

/// Moves jobs whose round may start by `now` from `events` to `ready`, which is sorted by rank;
/// returns whether there were any.
pub(super) fn arrive(
    events: &mut BinaryHeap<Reverse<(Moment, usize)>>,
    ready: &mut Vec<usize>,
    rank: &[usize],
    now: f64,
) -> bool {
    let before = ready.len();
    while let Some(Reverse((at, n))) = events.peek().copied() {
        if at.0 > now {
            break;
        }
        events.pop();
        let at = ready.partition_point(|&m| rank[m] < rank[n]);
        ready.insert(at, n);
    }
    ready.len() > before
}

/// GPUs of one class.
#[derive(Debug, Clone, Default)]
pub(super) struct Pool {
    /// Idle GPUs; the last one is taken first.
    pub idle: Vec<usize>,
    /// Busy GPUs with the moments at which they are free, the earliest last.
    busy: Vec<(f64, usize)>,
    /// How many of the earliest GPUs in `busy` are reserved in this scan.
    taken: usize,
    /// Expected ends of the tasks that this scan has reserved GPUs for or started. New ends wait in
    /// `pushed` and enter the heap only when it is needed, since most scans end before that;
    /// `earliest` is the least of all ends.
    later: BinaryHeap<Reverse<Moment>>,
    pushed: Vec<Reverse<Moment>>,
    earliest: f64,
    /// Jobs that have reserved a GPU of the class, in order of the starts of their reservations.
    queue: VecDeque<usize>,
    /// GPUs that were given a task in this scan, with the ends of its training.
    fresh: Vec<(f64, usize)>,
    /// When the next busy GPU is available, after all reservations made so far.
    next: f64,
}

impl Pool {
    /// Removes all GPUs.
    pub fn clear(&mut self) {
        self.idle.clear();
        self.busy.clear();
        self.fresh.clear();
    }

    /// Adds a GPU that is free at `until`; call [`Pool::settle`] after the last one.
    pub fn add(&mut self, gpu: usize, until: f64, now: f64) {
        if until <= now {
            self.idle.push(gpu);
        } else {
            self.fresh.push((until, gpu));
        }
    }

    /// When the first busy GPU is free.
    pub fn first_free(&self) -> f64 {
        self.busy.last().map_or(f64::INFINITY, |b| b.0)
    }

    /// Earliest moment at which a GPU is available.
    pub fn available(&self, now: f64) -> f64 {
        if self.idle.is_empty() { self.next } else { now }
    }

    /// When the first busy GPU that is not reserved is free.
    fn next_busy(&self) -> f64 {
        let at = self.busy.len().checked_sub(self.taken + 1);
        at.map_or(f64::INFINITY, |at| self.busy[at].0)
    }

    fn push(&mut self, until: f64) {
        self.pushed.push(Reverse(Moment(until)));
        self.earliest = self.earliest.min(until);
    }

    /// Drops all reservations.
    pub fn reopen(&mut self) {
        self.queue.clear();
    }

    /// Takes the first reservation that an idle GPU can serve; returns its job and the GPU.
    pub fn due(&mut self) -> Option<(usize, usize)> {
        let gpu = self.idle.last()?;
        let due = (self.queue.pop_front()?, *gpu);
        self.idle.pop();
        Some(due)
    }

    /// Reserves the GPU whose moment [`Pool::available`] returns, for a task of job `n` that trains
    /// `train` seconds. Each reservation takes the GPU that is free first, so no reservation starts
    /// before an earlier one.
    pub fn reserve(&mut self, n: usize, train: f64) {
        self.queue.push_back(n);
        let until = self.next + train;
        if self.next_busy() <= self.earliest {
            self.taken += 1;
            self.push(until);
        } else {
            self.later.extend(self.pushed.drain(..));
            if let Some(mut first) = self.later.peek_mut() {
                *first = Reverse(Moment(until));
            }
            self.earliest = self.later.peek().map_or(f64::INFINITY, |m| m.0.0);
        }
        self.next = self.next_busy().min(self.earliest);
    }

    /// Records that an idle GPU has been given a task that trains until `trained`.
    pub fn started(&mut self, gpu: usize, trained: f64) {
        self.fresh.push((trained, gpu));
        self.push(trained);
        self.next = self.next.min(trained);
    }

    /// Ends a scan: GPUs that were given a task become busy, and the expected ends are forgotten.
    pub fn settle(&mut self) {
        self.taken = 0;
        self.later.clear();
        self.pushed.clear();
        self.earliest = f64::INFINITY;
        for (until, gpu) in self.fresh.drain(..) {
            let at = self.busy.partition_point(|b| b.0 > until);
            self.busy.insert(at, (until, gpu));
        }
        self.next = self.first_free();
    }

    /// GPUs that are free at `now` become idle.
    pub fn release(&mut self, now: f64) {
        while let Some((_, gpu)) = self.busy.pop_if(|b| b.0 <= now) {
            self.idle.push(gpu);
        }
        self.next = self.first_free();
    }
}
