use crate::instance::members;
use crate::play::branch::{SearchContext, SearchState, Step};
use crate::play::gpu::Gpu;
use crate::play::round::Transfer;
use crate::rates::cache::RateCache;
use crate::{MAX_TASKS, RoundTask, Set};

/// A half-duplex round in which some transfers have been made.
#[derive(Clone, Copy)]
pub(crate) struct HalfRound {
    pub gpu: Gpu,
    to_download: Set,
    /// Downloaded but not uploaded.
    pub to_upload: Set,
    /// When the compute of each task ended; infinite before.
    end: [f64; MAX_TASKS],
}

impl HalfRound {
    /// Without any transfer, for the tasks `everyone`.
    pub fn new(everyone: Set) -> Self {
        Self {
            gpu: Gpu::new(),
            to_download: everyone,
            to_upload: 0,
            end: [f64::INFINITY; MAX_TASKS],
        }
    }

    /// Makes a transfer; an upload waits until the task's compute has ended. After a download, the
    /// task's compute waits until the compute of `until` has ended.
    pub fn transfer(
        &mut self,
        transfer: Transfer,
        until: Option<usize>,
        jobs: &[RoundTask],
        rates: &mut RateCache<'_>,
    ) {
        let end = &mut self.end;
        match transfer {
            Transfer::Download(i) => {
                let at = self.gpu.now + jobs[i].download_s;
                self.gpu.advance(at, rates, |j, t| end[j] = t);
                self.to_download &= !(1 << i);
                self.to_upload |= 1 << i;
                self.gpu.admit(i, jobs[i].work, until);
            }
            Transfer::Upload(i) => {
                self.gpu.finish(1 << i, rates, |j, t| end[j] = t);
                let at = self.gpu.now + jobs[i].upload_s;
                self.gpu.advance(at, rates, |j, t| end[j] = t);
                self.to_upload &= !(1 << i);
            }
        }
    }

    /// The next task to upload, if uploads keep the order of the downloads.
    fn next_in_order(&self, path: &[Step]) -> Option<usize> {
        path.iter().find_map(|step| match step.transfer {
            Transfer::Download(i) if self.to_upload & 1 << i != 0 => Some(i),
            _ => None,
        })
    }
}

/// Decides the next transfer: any remaining download, or the upload of any downloaded task; the link then waits for
/// its compute if necessary. Without remaining downloads, uploads go first come first served, which ends soonest. With
/// `single`, uploads keep the order of the downloads.
///
/// Dominance as for the full-duplex link, among states that have made the same transfers by the same time.
impl SearchState for HalfRound {
    type Key = (Set, Set);

    fn step(
        &self,
        i: usize,
        alternative: usize,
        path: &[Step],
        context: &SearchContext<'_, '_>,
    ) -> Option<Step> {
        let bit = 1 << i;
        let may_upload = self.to_upload & bit != 0
            && (!context.candidates.single_order || self.next_in_order(path) == Some(i));
        if may_upload {
            (alternative == 0).then(|| Step::plain(Transfer::Upload(i)))
        } else if self.to_download & bit != 0 {
            Step::download(i, alternative, &self.gpu, context.candidates.waits)
        } else {
            None
        }
    }

    fn play(&mut self, path: &[Step], context: &mut SearchContext<'_, '_>) {
        if let Some(&Step { transfer, until }) = path.last() {
            self.transfer(transfer, until, context.jobs, context.rates);
        }
    }

    fn is_decided(&self) -> bool {
        self.to_download == 0
    }

    fn finish(mut self, path: &mut Vec<Step>, context: &mut SearchContext<'_, '_>) -> f64 {
        let mut clock = self.gpu.now;
        let end = &mut self.end;
        self.gpu
            .advance(f64::INFINITY, context.rates, |j, t| end[j] = t);
        let mut rest: Vec<usize> = members(self.to_upload).collect();
        if context.candidates.single_order {
            let place = |i: &usize| {
                path.iter()
                    .position(|s| s.transfer == Transfer::Download(*i))
            };
            rest.sort_by_key(place);
        } else {
            rest.sort_by(|&a, &b| end[a].total_cmp(&end[b]).then(a.cmp(&b)));
        }
        for &i in &rest {
            clock = clock.max(end[i]) + context.jobs[i].upload_s;
        }
        path.extend(rest.iter().map(|&i| Step::plain(Transfer::Upload(i))));
        clock
    }

    fn bound(&self, enough: f64, context: &SearchContext<'_, '_>) -> f64 {
        let now = self.gpu.now;
        let c = &context.floor.compute;
        let mut sum = 0.0;
        let mut bound = 0.0_f64;
        let mut transfers = 0.0;
        let mut remaining = [0.0; MAX_TASKS];
        for &j in &context.floor.by_tail {
            let job = context.jobs[j];
            if self.to_download & 1 << j != 0 {
                sum += job.download_s;
                bound = bound.max(now + sum + c[j] + job.upload_s);
                transfers += job.download_s + job.upload_s;
                remaining[j] = job.work;
            } else if self.to_upload & 1 << j != 0 {
                transfers += job.upload_s;
                if self.gpu.unfinished() & 1 << j != 0 {
                    let left = self.gpu.left[j];
                    remaining[j] = left;
                    bound = bound.max(now + left / context.floor.fastest[j] + job.upload_s);
                }
            }
        }
        bound = bound.max(now + transfers);
        if bound < enough {
            let workload = &context.floor.workload;
            let remaining = &remaining[..context.jobs.len()];
            bound = bound.max(now + workload.rest_s(remaining, self.gpu.unfinished(), 0.0));
        }
        bound
    }

    fn key(&self) -> (Set, Set) {
        (self.to_download, self.to_upload)
    }

    fn no_later(&self, other: &Self) -> bool {
        let (a, b) = (&self.gpu, &other.gpu);
        (a.now - b.now).abs() <= 1e-12 * b.now
            && a.active & !b.active == 0
            && members(a.active).all(|j| a.left[j] <= b.left[j])
    }
}
