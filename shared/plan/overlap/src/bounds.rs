pub mod quick;
pub mod workload;

use units::Batch;

use crate::bounds::workload::WorkloadBound;
use crate::instance::members;
use crate::rates::cache::RateCache;
use crate::{Instance, Link, OverlapError, Rates};

/// Up to this many tasks, every set of active tasks is evaluated for the highest rates.
const ENUMERATE_TASKS: usize = 12;

/// Lower bounds on the makespan, in seconds. With `c_i = W_i / max_A r_i(A)` they hold for every order and for any
/// idling of links and processor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LowerBounds {
    /// `max_i (d_i + c_i + u_i)`.
    pub longest_task_s: f64,
    /// `max_S (sum_S d + min_S (c + u))`: some task of `S` downloads last.
    pub downlink_s: f64,
    /// `max_S (min_S (d + c) + sum_S u)`: some task of `S` uploads first. On a half-duplex link
    /// also the sum of all transfers.
    pub uplink_s: f64,
    /// The processor: `min d + T_gpu + min u` with `T_gpu = min sum tau_A s.t. sum_A tau_A r_i(A) >= W_i`, sharpened
    /// by what can have been downloaded early and must still be uploaded late.
    pub compute_s: f64,
    /// The bounds are valid only if tasks are never slower with fewer co-runners, which was not verified because
    /// there are too many sets of tasks.
    pub assumes_falling_rates: bool,
}

impl LowerBounds {
    /// The largest of the bounds.
    #[must_use]
    pub fn best(&self) -> f64 {
        self.longest_task_s
            .max(self.downlink_s)
            .max(self.uplink_s)
            .max(self.compute_s)
    }
}

/// Lower bounds of a round; `batches` as for [`crate::simulate`].
///
/// Up to 12 tasks all sets of tasks are evaluated. With more tasks, `c_i` uses only the solo rate,
/// and `T_gpu` only the [`Rates::all_sets_of`] tasks with the most compute. Both are valid if
/// co-runners never speed a task up.
pub fn lower_bounds(
    instance: &Instance,
    rates: &dyn Rates,
    batches: &[Batch],
) -> Result<LowerBounds, OverlapError> {
    let mut cache = RateCache::at(rates, instance.len(), batches);
    let bounds = Floor::new(instance, &mut cache).bounds(instance);
    cache.failure()?;
    Ok(bounds)
}

/// Parts of the bounds of one instance.
pub(crate) struct Floor {
    /// Highest rate of each task.
    pub fastest: Vec<f64>,
    /// Minimum seconds of compute of each task, `c_i`.
    pub compute: Vec<f64>,
    /// Bound of the processor.
    pub workload: WorkloadBound,
    /// Tasks by falling `c + u`.
    pub by_tail: Vec<usize>,
    assumes_falling_rates: bool,
}

impl Floor {
    /// All bounds.
    pub fn new(instance: &Instance, rates: &mut RateCache<'_>) -> Self {
        let mut floor = Self::without_workload(instance, rates);
        floor.add_workload(instance, rates);
        floor
    }

    /// Adds the bound of the shared processor.
    ///
    /// With many tasks it leaves some out, which is valid only if co-runners never speed a task up. If they are known
    /// to do so, there is no such bound.
    pub fn add_workload(&mut self, instance: &Instance, rates: &mut RateCache<'_>) {
        let all = instance.len() <= rates.all_sets_of();
        if !(all || self.assumes_falling_rates || rates.source_falls()) {
            return;
        }
        self.workload = WorkloadBound::new(instance, &self.compute, rates);
    }

    /// The bounds except that of the shared processor, which needs a linear program.
    pub fn without_workload(instance: &Instance, rates: &mut RateCache<'_>) -> Self {
        let n = instance.len();
        let known = rates.source_falls();
        let few = n <= ENUMERATE_TASKS;
        // If co-runners never speed a task up, it is fastest alone, so one query per task suffices.
        if few && !known {
            let mut fastest = vec![0.0_f64; n];
            for set in 1..=instance.everyone() {
                let row = rates.row(set);
                for i in members(set) {
                    fastest[i] = fastest[i].max(row[i]);
                }
            }
            return Self::of_tasks(instance, &fastest);
        }
        match rates.source_fastest().filter(|_| !known) {
            Some(fastest) => Self::of_tasks(instance, &fastest),
            None => Self::by_rates_alone(instance, rates),
        }
    }

    /// The same with each task's solo rate, for searches without a proof: all sets of 12 tasks take 4,095
    /// predictions, while such a search meets only a few hundred of them.
    pub fn by_rates_alone(instance: &Instance, rates: &mut RateCache<'_>) -> Self {
        let known = rates.source_falls();
        let alone = |i: usize| rates.row(1 << i)[i];
        let fastest: Vec<f64> = (0..instance.len()).map(alone).collect();
        Self {
            assumes_falling_rates: !known,
            ..Self::of_tasks(instance, &fastest)
        }
    }

    /// The bounds of the link alone. They hold for any rates, so a round that meets them is proven even if rates are
    /// only assumed to fall with more co-runners.
    pub fn of_link(instance: &Instance) -> Self {
        Self::of_tasks(instance, &vec![f64::INFINITY; instance.len()])
    }

    /// The bounds except that of the shared processor, for given highest rates.
    pub fn of_tasks(instance: &Instance, fastest: &[f64]) -> Self {
        let jobs = instance.jobs();
        let n = jobs.len();
        let compute: Vec<f64> = (0..n).map(|i| jobs[i].work / fastest[i]).collect();
        let mut by_tail: Vec<usize> = (0..n).collect();
        let tail = |i: usize| compute[i] + jobs[i].upload_s;
        by_tail.sort_by(|&a, &b| tail(b).total_cmp(&tail(a)));
        Self {
            fastest: fastest.to_vec(),
            compute,
            workload: WorkloadBound::none(),
            by_tail,
            assumes_falling_rates: false,
        }
    }

    pub fn bounds(&self, instance: &Instance) -> LowerBounds {
        let jobs = instance.jobs();
        let c = &self.compute;
        let n = jobs.len();
        let longest_task_s = (0..n)
            .map(|i| jobs[i].download_s + c[i] + jobs[i].upload_s)
            .fold(0.0, f64::max);
        // For a given minimum tail, the best set contains all tasks with at least that tail.
        let mut sum = 0.0;
        let downlink_s = self.by_tail.iter().fold(0.0_f64, |m, &i| {
            sum += jobs[i].download_s;
            m.max(sum + c[i] + jobs[i].upload_s)
        });
        let mut by_head: Vec<usize> = (0..n).collect();
        let head = |i: usize| jobs[i].download_s + c[i];
        by_head.sort_by(|&a, &b| head(b).total_cmp(&head(a)));
        let mut sum = 0.0;
        let mut uplink_s = by_head.iter().fold(0.0_f64, |m, &i| {
            sum += jobs[i].upload_s;
            m.max(head(i) + sum)
        });
        if instance.link() == Link::Half {
            let all: f64 = jobs.iter().map(|j| j.download_s + j.upload_s).sum();
            uplink_s = uplink_s.max(all);
        }
        LowerBounds {
            longest_task_s,
            downlink_s,
            uplink_s,
            compute_s: self.workload.makespan_s,
            assumes_falling_rates: self.assumes_falling_rates,
        }
    }
}
