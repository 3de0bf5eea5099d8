use crate::instance::members;
use crate::play::branch::{SearchContext, SearchState, Step};
use crate::play::gpu::Gpu;
use crate::play::round::Transfer;
use crate::rates::cache::RateCache;
use crate::{Instance, MAX_TASKS, RoundTask, Set};

/// A full-duplex round in which some downloads have been made. Uploads go first come first served, which ends soonest
/// given when each task is ready (`1 | r_j | C_max`).
#[derive(Clone, Copy)]
pub(crate) struct FullRound {
    pub gpu: Gpu,
    /// When the uplink is free.
    pub uplink: f64,
    /// Remaining seconds of upload.
    pub uploads_s: f64,
}

impl FullRound {
    /// Without any download.
    pub fn new(jobs: &[RoundTask]) -> Self {
        Self {
            gpu: Gpu::new(),
            uplink: 0.0,
            uploads_s: jobs.iter().map(|j| j.upload_s).sum(),
        }
    }

    /// Computes until `at` while the uplink continues.
    pub fn compute(&mut self, at: f64, jobs: &[RoundTask], rates: &mut RateCache<'_>) {
        let Self {
            gpu,
            uplink,
            uploads_s,
        } = self;
        gpu.advance(at, rates, |j, t| {
            *uplink = uplink.max(t) + jobs[j].upload_s;
            *uploads_s -= jobs[j].upload_s;
        });
    }

    /// Downloads task `i`; its compute waits until the compute of `until` has ended.
    pub fn download(
        &mut self,
        i: usize,
        until: Option<usize>,
        jobs: &[RoundTask],
        rates: &mut RateCache<'_>,
    ) {
        self.compute(self.gpu.now + jobs[i].download_s, jobs, rates);
        self.gpu.admit(i, jobs[i].work, until);
    }
}

/// A full-duplex round whose order of downloads is to be decided; the order of uploads needs no branching. With
/// `single` the uplink serves in the order of the downloads.
///
/// Dominance: two states with the same downloaded tasks are also at the same time. If in one of them every remainder
/// of work and the uplink are no later than in the other, it ends no later, provided that tasks are never slower with
/// fewer co-runners: if one of its remainders were to overtake the other's, then at that instant its co-runners would
/// be a subset.
#[derive(Clone, Copy)]
pub(crate) struct FullState {
    round: FullRound,
    /// Tasks not downloaded yet.
    rest: Set,
    /// Tasks whose compute has ended and that wait for their turn on the uplink, if it keeps the
    /// order.
    ended: Set,
    end: [f64; MAX_TASKS],
    /// Downloads uploaded so far, if the uplink keeps the order.
    served: usize,
}

impl FullState {
    /// A state without any decision.
    pub fn new(instance: &Instance) -> Self {
        Self {
            round: FullRound::new(instance.jobs()),
            rest: instance.everyone(),
            ended: 0,
            end: [0.0; MAX_TASKS],
            served: 0,
        }
    }

    /// Computes until `at` and lets the uplink serve the tasks that end.
    fn compute(&mut self, at: f64, path: &[Step], context: &mut SearchContext<'_, '_>) {
        let jobs = context.jobs;
        if !context.candidates.single_order {
            return self.round.compute(at, jobs, context.rates);
        }
        let Self { ended, end, .. } = self;
        self.round.gpu.advance(at, context.rates, |j, t| {
            end[j] = t;
            *ended |= 1 << j;
        });
        while let Some(&Step {
            transfer: Transfer::Download(j),
            ..
        }) = path.get(self.served)
            && self.ended & 1 << j != 0
        {
            self.round.uplink = self.round.uplink.max(self.end[j]) + jobs[j].upload_s;
            self.ended &= !(1 << j);
            self.served += 1;
        }
    }

    /// When the uplink is done, if it serves first come first served at the earliest possible ends of compute.
    fn uploads_s(&self, context: &SearchContext<'_, '_>) -> f64 {
        let (now, jobs) = (self.round.gpu.now, context.jobs);
        let mut ready = [(0.0_f64, 0.0_f64); MAX_TASKS];
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
        for j in members(self.round.gpu.unfinished()) {
            let left = self.round.gpu.left[j];
            put(now + left / context.floor.fastest[j], jobs[j].upload_s);
        }
        for j in members(self.rest) {
            put(
                now + jobs[j].download_s + context.floor.compute[j],
                jobs[j].upload_s,
            );
        }
        let waiting: f64 = members(self.ended).map(|j| jobs[j].upload_s).sum();
        let mut uplink = self.round.uplink + waiting;
        for &(at, upload) in &ready[..count] {
            uplink = uplink.max(at) + upload;
        }
        uplink
    }

    /// Minimum seconds that the processor still needs, plus the last upload.
    fn rest_s(&self, context: &SearchContext<'_, '_>) -> f64 {
        let jobs: &[RoundTask] = context.jobs;
        let mut left = [0.0; MAX_TASKS];
        for j in members(self.round.gpu.unfinished()) {
            left[j] = self.round.gpu.left[j];
        }
        let mut soonest = f64::INFINITY;
        for j in members(self.rest) {
            left[j] = jobs[j].work;
            soonest = soonest.min(jobs[j].download_s);
        }
        let workload = &context.floor.workload;
        workload.rest_s(&left[..jobs.len()], self.round.gpu.unfinished(), soonest)
    }
}

impl SearchState for FullState {
    type Key = Set;

    fn step(
        &self,
        i: usize,
        alternative: usize,
        _: &[Step],
        context: &SearchContext<'_, '_>,
    ) -> Option<Step> {
        if self.rest & 1 << i == 0 {
            return None;
        }
        Step::download(i, alternative, &self.round.gpu, context.candidates.waits)
    }

    fn play(&mut self, path: &[Step], context: &mut SearchContext<'_, '_>) {
        let Some(&Step {
            transfer: Transfer::Download(i),
            until,
        }) = path.last()
        else {
            return;
        };
        let at = self.round.gpu.now + context.jobs[i].download_s;
        self.compute(at, path, context);
        self.round.gpu.admit(i, context.jobs[i].work, until);
        self.rest &= !(1 << i);
    }

    fn is_decided(&self) -> bool {
        self.rest == 0
    }

    fn finish(mut self, path: &mut Vec<Step>, context: &mut SearchContext<'_, '_>) -> f64 {
        self.compute(f64::INFINITY, path, context);
        self.round.uplink
    }

    fn bound(&self, enough: f64, context: &SearchContext<'_, '_>) -> f64 {
        let now = self.round.gpu.now;
        let c = &context.floor.compute;
        // Downlink: among the tasks with at least the tail of `j`, the last one to download still has that tail.
        let mut sum = 0.0;
        let mut bound = 0.0_f64;
        for &j in &context.floor.by_tail {
            if self.rest & 1 << j != 0 {
                sum += context.jobs[j].download_s;
                bound = bound.max(now + sum + c[j] + context.jobs[j].upload_s);
            }
        }
        if bound < enough {
            bound = bound.max(self.uploads_s(context));
        }
        if bound < enough {
            bound = bound.max(now + self.rest_s(context));
        }
        bound
    }

    fn key(&self) -> Set {
        self.rest
    }

    fn no_later(&self, other: &Self) -> bool {
        let left = |s: &Self, j: usize| {
            if s.round.gpu.active & 1 << j != 0 {
                s.round.gpu.left[j]
            } else {
                0.0
            }
        };
        self.round.uplink.max(self.round.gpu.now) <= other.round.uplink.max(other.round.gpu.now)
            && members(self.round.gpu.active).all(|j| left(self, j) <= left(other, j))
    }
}
