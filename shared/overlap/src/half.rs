use std::collections::HashMap;

use crate::anytime::Budget;
use crate::bounds::Floor;
use crate::cache::RateCache;
use crate::gpu::Gpu;
use crate::instance::members;
use crate::round::Transfer;
use crate::{Instance, Job};

const KEPT_STATES: usize = 48;

/// Branch and bound over all transfers of a half-duplex link.
///
/// The next transfer is any download left, or the upload of any task downloaded, for whose
/// compute the link waits if need be. With no download left, uploads go first come first served,
/// which ends soonest. With `single`, uploads keep the order of the downloads.
///
/// Dominance as for the full-duplex link, among states that have made the same transfers by the
/// same time.
pub(crate) struct HalfSearch<'a, 'r> {
    jobs: &'a [Job],
    rates: &'a mut RateCache<'r>,
    floor: &'a Floor,
    single: bool,
    seen: Option<HashMap<(u32, u32), Vec<Gpu>>>,
    path: Vec<Transfer>,
    /// The best makespan so far; only better orders are looked for.
    pub best_s: f64,
    /// The transfers that reach it; empty if none better than given was found.
    pub best: Vec<Transfer>,
}

#[derive(Clone, Copy)]
struct State {
    gpu: Gpu,
    to_download: u32,
    /// Downloaded but not uploaded.
    to_upload: u32,
    /// Of these, when compute ended; infinite while it runs.
    end: [f64; crate::MAX_TASKS],
}

impl<'a, 'r> HalfSearch<'a, 'r> {
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
            path: Vec::with_capacity(2 * instance.len()),
            best_s,
            best: Vec::new(),
        }
    }

    /// Searches; `first` is the order in which branches are tried. Whether the search was
    /// complete is in `budget`.
    pub fn run(&mut self, first: &[usize], budget: &mut Budget) {
        let root = State {
            gpu: Gpu::new(),
            to_download: first.iter().fold(0, |m, &i| m | 1 << i),
            to_upload: 0,
            end: [f64::INFINITY; crate::MAX_TASKS],
        };
        self.branch(&root, first, budget);
    }

    fn branch(&mut self, state: &State, first: &[usize], budget: &mut Budget) {
        if state.to_download == 0 {
            self.upload_rest(state);
            return;
        }
        let uploads = self.uploads(state);
        for &i in first {
            let bit = 1 << i;
            let transfer = if uploads & bit != 0 {
                Transfer::Upload(i)
            } else if state.to_download & bit != 0 {
                Transfer::Download(i)
            } else {
                continue;
            };
            if !budget.spend() {
                return;
            }
            let mut next = *state;
            self.path.push(transfer);
            self.transfer(&mut next, transfer);
            if self.bound(&next) < self.best_s && !self.dominated(&next) {
                self.branch(&next, first, budget);
            }
            self.path.pop();
        }
    }

    /// The tasks that may upload next.
    fn uploads(&self, state: &State) -> u32 {
        if self.single {
            self.next_in_order(state).map_or(0, |i| 1 << i)
        } else {
            state.to_upload
        }
    }

    fn next_in_order(&self, state: &State) -> Option<usize> {
        self.path.iter().find_map(|t| match *t {
            Transfer::Download(i) if state.to_upload & 1 << i != 0 => Some(i),
            _ => None,
        })
    }

    fn transfer(&mut self, state: &mut State, transfer: Transfer) {
        let end = &mut state.end;
        match transfer {
            Transfer::Download(i) => {
                let at = state.gpu.now + self.jobs[i].download_s;
                state.gpu.advance(at, self.rates, |j, t| end[j] = t);
                state.to_download &= !(1 << i);
                state.to_upload |= 1 << i;
                state.gpu.start(i, self.jobs[i].work);
            }
            Transfer::Upload(i) => {
                state.gpu.finish(1 << i, self.rates, |j, t| end[j] = t);
                let at = state.gpu.now + self.jobs[i].upload_s;
                state.gpu.advance(at, self.rates, |j, t| end[j] = t);
                state.to_upload &= !(1 << i);
            }
        }
    }

    fn upload_rest(&mut self, state: &State) {
        let mut clock = state.gpu.now;
        let mut all = *state;
        let end = &mut all.end;
        all.gpu
            .advance(f64::INFINITY, self.rates, |j, t| end[j] = t);
        let mut rest: Vec<usize> = members(all.to_upload).collect();
        if self.single {
            let place = |i: &usize| self.path.iter().position(|t| *t == Transfer::Download(*i));
            rest.sort_by_key(place);
        } else {
            rest.sort_by(|&a, &b| all.end[a].total_cmp(&all.end[b]).then(a.cmp(&b)));
        }
        for &i in &rest {
            clock = clock.max(all.end[i]) + self.jobs[i].upload_s;
        }
        if clock < self.best_s {
            self.best_s = clock;
            self.best.clone_from(&self.path);
            self.best.extend(rest.iter().map(|&i| Transfer::Upload(i)));
        }
    }

    /// No completion of `state` ends before this.
    fn bound(&self, state: &State) -> f64 {
        let now = state.gpu.now;
        let c = &self.floor.compute;
        let mut sum = 0.0;
        let mut bound = 0.0_f64;
        let mut transfers = 0.0;
        let mut remaining = [0.0; crate::MAX_TASKS];
        for &j in &self.floor.by_tail {
            let job = self.jobs[j];
            if state.to_download & 1 << j != 0 {
                sum += job.download_s;
                bound = bound.max(now + sum + c[j] + job.upload_s);
                transfers += job.download_s + job.upload_s;
                remaining[j] = job.work;
            } else if state.to_upload & 1 << j != 0 {
                transfers += job.upload_s;
                if state.gpu.active & 1 << j != 0 {
                    let left = state.gpu.left[j];
                    remaining[j] = left;
                    bound = bound.max(now + left / self.floor.fastest[j] + job.upload_s);
                }
            }
        }
        bound = bound.max(now + transfers);
        if bound >= self.best_s {
            return bound;
        }
        let workload = &self.floor.workload;
        bound.max(now + workload.rest_s(&remaining[..self.jobs.len()], state.gpu.active, 0.0))
    }

    fn dominated(&mut self, state: &State) -> bool {
        let Some(seen) = &mut self.seen else {
            return false;
        };
        let kept = seen
            .entry((state.to_download, state.to_upload))
            .or_default();
        let better = |a: &Gpu, b: &Gpu| {
            (a.now - b.now).abs() <= 1e-12 * b.now
                && a.active & !b.active == 0
                && members(a.active).all(|j| a.left[j] <= b.left[j])
        };
        if kept.iter().any(|k| better(k, &state.gpu)) {
            return true;
        }
        kept.retain(|k| !better(&state.gpu, k));
        if kept.len() < KEPT_STATES {
            kept.push(state.gpu);
        }
        false
    }
}
