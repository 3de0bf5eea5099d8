use std::collections::HashMap;

use crate::anytime::Budget;
use crate::bounds::Floor;
use crate::cache::RateCache;
use crate::gpu::Gpu;
use crate::instance::members;
use crate::{Instance, Job};

/// States kept per set of downloaded tasks, to compare new ones with.
const KEPT_STATES: usize = 48;

/// Branch and bound over the order of downloads of a full-duplex link.
///
/// The order of uploads needs no branching: given when each task is ready, serving the uplink
/// first come first served ends soonest (`1 | r_j | C_max`). With `single` the uplink serves in
/// the order of the downloads instead.
///
/// Dominance: after the same tasks have been downloaded the time is the same too, so a state
/// whose every remainder of work and whose uplink are not later than another's ends no later,
/// provided that tasks are not slower for having fewer companions: were a remainder of the first
/// to overtake the other's, at that instant its companions would be a subset.
pub(crate) struct FullSearch<'a, 'r> {
    jobs: &'a [Job],
    rates: &'a mut RateCache<'r>,
    floor: &'a Floor,
    single: bool,
    seen: Option<HashMap<u32, Vec<State>>>,
    path: Vec<usize>,
    /// The best makespan so far; only better orders are looked for.
    pub best_s: f64,
    /// The order that reaches it; empty if none better than given was found.
    pub best: Vec<usize>,
}

#[derive(Clone, Copy)]
struct State {
    gpu: Gpu,
    /// When the uplink is free.
    uplink: f64,
    /// Ends of compute that wait for their turn on the uplink, where it keeps the order.
    ended: u32,
    end: [f64; crate::MAX_TASKS],
    /// Downloads uploaded so far, where the uplink keeps the order.
    served: usize,
}

impl<'a, 'r> FullSearch<'a, 'r> {
    /// Looks for orders that end before `best_s`.
    pub fn new(
        instance: &'a Instance,
        rates: &'a mut RateCache<'r>,
        floor: &'a Floor,
        single: bool,
        best_s: f64,
    ) -> Self {
        let comparable = !single && rates.falls_with_company();
        Self {
            jobs: instance.jobs(),
            rates,
            floor,
            single,
            seen: comparable.then(HashMap::new),
            path: Vec::with_capacity(instance.len()),
            best_s,
            best: Vec::new(),
        }
    }

    /// Searches; `first` is the order in which branches are tried. Whether the search was
    /// complete is in `budget`.
    pub fn run(&mut self, first: &[usize], budget: &mut Budget) {
        let root = State {
            gpu: Gpu::new(),
            uplink: 0.0,
            ended: 0,
            end: [0.0; crate::MAX_TASKS],
            served: 0,
        };
        let remaining = first.iter().fold(0, |m, &i| m | 1 << i);
        self.branch(&root, remaining, first, budget);
    }

    fn branch(&mut self, state: &State, remaining: u32, first: &[usize], budget: &mut Budget) {
        for &i in first {
            if remaining & 1 << i == 0 {
                continue;
            }
            if !budget.spend() {
                return;
            }
            let rest = remaining & !(1 << i);
            let mut next = *state;
            self.path.push(i);
            self.download(&mut next, i);
            if rest == 0 {
                let end = self.finish(&mut next);
                if end < self.best_s {
                    self.best_s = end;
                    self.best.clone_from(&self.path);
                }
            } else if self.bound(&next, rest) < self.best_s && !self.dominated(&next, rest) {
                self.branch(&next, rest, first, budget);
            }
            self.path.pop();
        }
    }

    fn download(&mut self, state: &mut State, i: usize) {
        let at = state.gpu.now + self.jobs[i].download_s;
        self.compute(state, at);
        state.gpu.start(i, self.jobs[i].work);
    }

    /// Computes until `at` and lets the uplink serve what ends.
    fn compute(&mut self, state: &mut State, at: f64) {
        let State {
            gpu,
            uplink,
            ended,
            end,
            served,
        } = state;
        let jobs = self.jobs;
        if self.single {
            gpu.advance(at, self.rates, |j, t| {
                end[j] = t;
                *ended |= 1 << j;
            });
            while let Some(&j) = self.path.get(*served)
                && *ended & 1 << j != 0
            {
                *uplink = uplink.max(end[j]) + jobs[j].upload_s;
                *ended &= !(1 << j);
                *served += 1;
            }
        } else {
            gpu.advance(at, self.rates, |j, t| {
                *uplink = uplink.max(t) + jobs[j].upload_s;
            });
        }
    }

    fn finish(&mut self, state: &mut State) -> f64 {
        self.compute(state, f64::INFINITY);
        state.uplink
    }

    /// No completion of `state` ends before this.
    fn bound(&self, state: &State, rest: u32) -> f64 {
        let now = state.gpu.now;
        let c = &self.floor.compute;
        // Downlink: the last of the longest tails to download.
        let mut sum = 0.0;
        let mut bound = 0.0_f64;
        for &j in &self.floor.by_tail {
            if rest & 1 << j != 0 {
                sum += self.jobs[j].download_s;
                bound = bound.max(now + sum + c[j] + self.jobs[j].upload_s);
            }
        }
        if bound >= self.best_s {
            return bound;
        }
        // Uplink: first come first served at the earliest ends imaginable.
        let mut ready = [(0.0_f64, 0.0_f64); crate::MAX_TASKS];
        let mut count = 0;
        let mut put = |at: f64, upload: f64| {
            let mut k = count;
            while k > 0 && ready[k - 1].0 > at {
                ready[k] = ready[k - 1];
                k -= 1;
            }
            ready[k] = (at, upload);
            count += 1;
        };
        for j in members(state.gpu.active) {
            let left = state.gpu.left[j];
            put(now + left / self.floor.fastest[j], self.jobs[j].upload_s);
        }
        for j in members(rest) {
            let job = self.jobs[j];
            put(now + job.download_s + c[j], job.upload_s);
        }
        let waiting: f64 = members(state.ended).map(|j| self.jobs[j].upload_s).sum();
        let mut uplink = state.uplink + waiting;
        for &(at, upload) in &ready[..count] {
            uplink = uplink.max(at) + upload;
        }
        let bound = bound.max(uplink);
        if bound >= self.best_s {
            return bound;
        }
        bound.max(now + self.rest_s(state, rest))
    }

    /// Seconds that the processor still needs at least, with the last upload.
    fn rest_s(&self, state: &State, rest: u32) -> f64 {
        let mut left = [0.0; crate::MAX_TASKS];
        for j in members(state.gpu.active) {
            left[j] = state.gpu.left[j];
        }
        let mut soonest = f64::INFINITY;
        for j in members(rest) {
            left[j] = self.jobs[j].work;
            soonest = soonest.min(self.jobs[j].download_s);
        }
        let workload = &self.floor.workload;
        workload.rest_s(&left[..self.jobs.len()], state.gpu.active, soonest)
    }

    /// Whether a state seen before ends no later than `state` whatever follows.
    fn dominated(&mut self, state: &State, rest: u32) -> bool {
        let Some(seen) = &mut self.seen else {
            return false;
        };
        let kept = seen.entry(rest).or_default();
        let uplink = state.uplink.max(state.gpu.now);
        let left = |s: &State, j: usize| {
            if s.gpu.active & 1 << j != 0 {
                s.gpu.left[j]
            } else {
                0.0
            }
        };
        let better = |a: &State, b: &State, b_uplink: f64| {
            a.uplink.max(a.gpu.now) <= b_uplink
                && members(a.gpu.active).all(|j| left(a, j) <= left(b, j))
        };
        if kept.iter().any(|k| better(k, state, uplink)) {
            return true;
        }
        kept.retain(|k| !better(state, k, k.uplink.max(k.gpu.now)));
        if kept.len() < KEPT_STATES {
            kept.push(*state);
        }
        false
    }
}
