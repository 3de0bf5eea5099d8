use crate::instance::members;
use crate::rates::cache::RateCache;
use crate::{MAX_TASKS, Set};

/// A task counts as done if its remaining work is at most this fraction of the work just done: such
/// a rest is rounding, not time.
const DONE: f64 = 1e-12;

/// The shared processor: which tasks compute, which are held back, and how much work is left.
#[derive(Clone, Copy)]
pub(crate) struct Gpu {
    pub now: f64,
    pub active: Set,
    /// Downloaded tasks whose compute waits for the end of another's.
    pub held: Set,
    ended: Set,
    /// For held tasks: the task until whose end they wait.
    until: [u8; MAX_TASKS],
    pub left: [f64; MAX_TASKS],
}

impl Gpu {
    pub fn new() -> Self {
        Self {
            now: 0.0,
            active: 0,
            held: 0,
            ended: 0,
            until: [0; MAX_TASKS],
            left: [0.0; MAX_TASKS],
        }
    }

    /// Task `i` starts to compute now.
    pub fn start(&mut self, i: usize, work: f64) {
        self.active |= 1 << i;
        self.left[i] = work;
    }

    /// Task `i` starts to compute now, or when task `until` has ended, whichever is later.
    pub fn admit(&mut self, i: usize, work: f64, until: Option<usize>) {
        self.start(i, work);
        if let Some(j) = until.filter(|&j| self.ended & 1 << j == 0) {
            self.active &= !(1 << i);
            self.held |= 1 << i;
            self.until[i] = j as u8;
        }
    }

    /// Admitted tasks whose compute has not ended.
    pub fn unfinished(&self) -> Set {
        self.active | self.held
    }

    /// Computes until `until`, or to the end of all work if that is infinite. Calls `ended(i, t)` at each end, in
    /// order of time and, at equal times, of index.
    #[inline]
    pub fn advance(
        &mut self,
        until: f64,
        rates: &mut RateCache<'_>,
        ended: impl FnMut(usize, f64),
    ) {
        self.run(until, Set::MAX, rates, ended);
        if until.is_finite() {
            self.now = self.now.max(until);
        }
    }

    /// Computes until the last task of `watch` ends.
    pub fn finish(&mut self, watch: Set, rates: &mut RateCache<'_>, ended: impl FnMut(usize, f64)) {
        self.run(f64::INFINITY, watch, rates, ended);
    }

    /// When the next task ends, if no other starts; infinite if none computes.
    pub fn next_end(&self, rates: &mut RateCache<'_>) -> f64 {
        let row = rates.row(self.active);
        let step = members(self.active)
            .map(|i| self.left[i] / row[i])
            .fold(f64::INFINITY, f64::min);
        self.now + step
    }

    #[inline]
    fn run(
        &mut self,
        until: f64,
        watch: Set,
        rates: &mut RateCache<'_>,
        mut ended: impl FnMut(usize, f64),
    ) {
        while self.active != 0 && self.unfinished() & watch != 0 {
            let row = rates.row(self.active);
            let mut step = f64::INFINITY;
            for i in members(self.active) {
                step = step.min(self.left[i] / row[i]);
            }
            let end = self.now + step;
            if end > until {
                let step = until - self.now;
                for i in members(self.active) {
                    self.left[i] = (self.left[i] - row[i] * step).max(0.0);
                }
                self.now = until;
                return;
            }
            let mut gone = 0;
            for i in members(self.active) {
                let done = row[i] * step;
                if self.left[i] - done <= DONE * done {
                    gone |= 1 << i;
                } else {
                    self.left[i] -= done;
                }
            }
            self.now = end;
            self.active &= !gone;
            self.ended |= gone;
            if self.held != 0 {
                for i in members(self.held) {
                    if gone & 1 << self.until[i] != 0 {
                        self.held &= !(1 << i);
                        self.active |= 1 << i;
                    }
                }
            }
            for i in members(gone) {
                ended(i, end);
            }
        }
    }
}
