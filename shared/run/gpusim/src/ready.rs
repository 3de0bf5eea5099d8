//! Tasks whose kernels are ready: the SMs that they occupy, their speeds, and which of them ends first.

use crate::program::Segment;
use crate::tuning::Tuning;

/// The ready tasks in order of arrival, with one column for each quantity. Loops over these take most of the time of a
/// simulation of many tasks, and columns let the compiler use vector registers. No sum is reordered.
#[derive(Debug, Default)]
pub(crate) struct Ready {
    pub(crate) task: Vec<usize>,
    /// Limits of the segment.
    hold: Vec<f64>,
    parallelism: Vec<f64>,
    intensity: Vec<f64>,
    /// SMs that it occupies.
    held: Vec<f64>,
    /// SMs whose capacity it uses.
    active: Vec<f64>,
    /// Work per microsecond after bandwidth limits.
    rate: Vec<f64>,
    /// Bytes per microsecond that it demands.
    demand: Vec<f64>,
    /// Remaining work.
    remaining: Vec<f64>,
    /// Tasks whose segments ended at the last event.
    pub(crate) completed: Vec<usize>,
    /// Scratch space: the tasks sorted by demand.
    order: Vec<usize>,
}

impl Ready {
    /// The segment of a task has become ready; it gets SMs with the next allocation.
    pub(crate) fn push(&mut self, task: usize, segment: &Segment) {
        self.task.push(task);
        self.hold.push(segment.hold);
        self.parallelism.push(segment.parallelism);
        self.intensity.push(segment.intensity);
        self.remaining.push(segment.work);
    }

    /// Removes a task; the next allocation recomputes the SMs of the others.
    fn remove(&mut self, at: usize) {
        for column in [
            &mut self.hold,
            &mut self.parallelism,
            &mut self.intensity,
            &mut self.remaining,
        ] {
            column.remove(at);
        }
        self.completed.push(self.task.remove(at));
    }

    /// SMs held and SMs active of each of `n` tasks, 0 where it is not ready.
    pub(crate) fn sms_by_task(&self, n: usize) -> [Vec<f64>; 2] {
        [&self.held, &self.active].map(|column| {
            let mut all = vec![0.0; n];
            for (&task, sms) in self.task.iter().zip(column) {
                all[task] = *sms;
            }
            all
        })
    }

    /// Assigns SMs in order of arrival.
    ///
    /// First, every task gets the SMs that retiring blocks free; then the rest is assigned first come, first served.
    pub(crate) fn allocate(&mut self, sms: f64, tuning: &Tuning) {
        let n = self.task.len();
        for column in [
            &mut self.held,
            &mut self.active,
            &mut self.rate,
            &mut self.demand,
        ] {
            column.resize(n, 0.0);
        }
        let sure = sms * tuning.handover.min(1.0 / n.max(1) as f64);
        let mut free = sms;
        for hold in &self.hold {
            free -= smaller(*hold, sure);
        }
        let hold = &self.hold[..n];
        let parallelism = &self.parallelism[..n];
        let held = &mut self.held[..n];
        let active = &mut self.active[..n];
        let mut served = 0;
        while served < n && free != 0.0 {
            let base = smaller(hold[served], sure);
            let extra = smaller(hold[served] - base, free);
            free -= extra;
            held[served] = base + extra;
            active[served] = smaller(parallelism[served], held[served]);
            served += 1;
        }
        for k in served..n {
            held[k] = smaller(hold[k], sure);
            active[k] = smaller(parallelism[k], held[k]);
        }
    }

    /// Rates are the active SMs unless DRAM demand exceeds the bandwidth; then the bandwidth is
    /// divided by max-min fairness and rates shrink with it.
    pub(crate) fn share_bandwidth(&mut self, bytes_per_us: f64, growth: f64) {
        let busy: f64 = self.active.iter().sum();
        let others = self.active.iter().zip(&self.intensity);
        for (demand, (active, intensity)) in self.demand.iter_mut().zip(others) {
            *demand = active * intensity * (1.0 + growth * (busy - active));
        }
        self.rate.copy_from_slice(&self.active);
        if self.demand.iter().sum::<f64>() > bytes_per_us {
            self.fill_bandwidth(bytes_per_us);
        }
    }

    /// Max-min fair division of the bandwidth among demands that exceed it.
    fn fill_bandwidth(&mut self, mut left: f64) {
        self.order.clear();
        self.order.extend(0..self.task.len());
        let demand = &self.demand;
        self.order.sort_by(|&a, &b| demand[a].total_cmp(&demand[b]));
        let mut count = self.order.len() as f64;
        for &k in &self.order {
            let got = self.demand[k].min(left / count);
            if self.demand[k] > got {
                self.rate[k] *= got / self.demand[k];
            }
            left -= got;
            count -= 1.0;
        }
    }

    /// End time of the segment that ends first if nothing else changes.
    pub(crate) fn first_end(&self, now: f64) -> f64 {
        let n = self.task.len();
        let remaining = &self.remaining[..n];
        let rate = &self.rate[..n];
        least(n, |k| now + remaining[k] / rate[k])
    }

    /// Advances the first `running` tasks by `elapsed`; tasks whose segments are done go to `completed`.
    pub(crate) fn run(&mut self, elapsed: f64, running: usize) {
        self.completed.clear();
        let mut done = false;
        let rates = &self.rate[..running];
        for (remaining, rate) in self.remaining[..running].iter_mut().zip(rates) {
            *remaining -= rate * elapsed;
            done |= is_done(*remaining, *rate);
        }
        if done {
            for k in (0..running).rev() {
                if is_done(self.remaining[k], self.rate[k]) {
                    self.remove(k);
                }
            }
        }
    }
}

/// Whether a segment is done. Because of rounding, up to a thousandth of a nanosecond of work may remain.
fn is_done(remaining: f64, rate: f64) -> bool {
    rate > 0.0 && remaining <= 1e-6 * rate
}

/// The smaller value. Neither may be NaN, so unlike [`f64::min`] this is a single instruction.
pub(crate) fn smaller(a: f64, b: f64) -> f64 {
    if a < b { a } else { b }
}

/// The smallest of `n` values; infinite if `n` is 0. Compares four at a time, to fit vector registers.
#[inline(always)]
pub(crate) fn least(n: usize, value: impl Fn(usize) -> f64) -> f64 {
    let mut lanes = [f64::INFINITY; 4];
    let whole = n - n % 4;
    for k in (0..whole).step_by(4) {
        for (lane, least) in lanes.iter_mut().enumerate() {
            *least = smaller(value(k + lane), *least);
        }
    }
    let rest = (whole..n).map(value);
    rest.chain(lanes).fold(f64::INFINITY, |a, b| smaller(b, a))
}
