//! Co-runs of a workload on several GPUs. Only the tasks of one GPU run together there, so the measured co-runs are
//! the parts of a division of all tasks, not all tasks on one GPU.

use std::collections::BTreeSet;

use doc::StopReason;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::seq::index::sample;
use rand::{Rng, SeedableRng};
use units::Share;
use units::corun::Setting;

use super::adaptive::{Adaptive, schemes};
use super::space::Configuration;

/// Maximum number of tasks above an even division that are still measured together: the best division of unequal
/// tasks is rarely even. A plan with more tasks on a GPU would lie outside the measured domain, so none is made.
const MORE: usize = 1;
/// Number of draws per co-run. The draw with the most pairs of tasks that never ran together is taken. Not tuned: the
/// 28 pairs of 8 tasks are covered within 7 draws of 4 or 5 tasks.
const DRAWS: usize = 50;

impl Adaptive {
    /// The next co-run: first the schemes of equal shares on an even division, then alternately the parts of the plan
    /// that would be chosen now, and co-runs of tasks that never ran together. In between, at the rate of
    /// `--subsets`, a part of the plan with tasks left out.
    pub(super) fn next_part(&mut self) -> Option<Configuration> {
        if self.parts.divisions == 0 {
            self.parts.divisions = 1;
            self.parts.queue = self.first_division().into();
        }
        if let Some(runs) = self.queued().or_else(|| self.left_out()) {
            return Some(runs);
        }
        self.parts.divisions += 1;
        if self.parts.divisions % 2 == 1
            && let Some(runs) = self.stranger()
        {
            return Some(runs);
        }
        let plan = self.plan_so_far();
        self.parts.queue = plan.iter().cloned().collect();
        self.parts.plan = plan;
        let next = self.queued();
        if next.is_none() && !self.parts.plan.is_empty() && self.wanted.tolerance > 0.0 {
            self.stopped = Some(StopReason::Tolerance);
            return None;
        }
        next.or_else(|| self.stranger())
    }

    /// The next part of the current division.
    fn queued(&mut self) -> Option<Configuration> {
        while let Some(runs) = self.parts.queue.pop_front() {
            if self.is_new(&runs) {
                return Some(runs);
            }
        }
        None
    }

    /// Whether a configuration is a co-run that may be measured and was not requested before.
    fn is_new(&self, runs: &Configuration) -> bool {
        runs.len() > 1 && self.may(runs) && !self.tried.contains(runs)
    }

    /// The first division: the plan by a model of a similar workload, otherwise equal shares.
    fn first_division(&self) -> Vec<Configuration> {
        if let Some(model) = &self.earlier {
            return self.wanted.plan.by_model(model, self.wanted.seed);
        }
        let division = self.even_division();
        let sizes = self.scheme_sizes();
        let parts = division
            .iter()
            .flat_map(|tasks| schemes(&self.space, tasks, &sizes));
        parts.collect()
    }

    /// An even division, longest task first: each task goes to the GPU with the least work, by volumes and best solo
    /// rates.
    fn even_division(&self) -> Vec<Vec<usize>> {
        let workload = &self.wanted.plan.workload;
        let seconds = |task: usize| {
            let alone = Setting {
                task,
                batch: self.space.batches(task)[0],
                share: Share::FULL,
            };
            let volume = workload.tasks[task].samples.map_or(1.0, |s| s.as_f64());
            volume / self.solo(&alone).unwrap_or(1.0)
        };
        let mut tasks: Vec<usize> = (0..self.space.task_count()).collect();
        tasks.sort_by(|&a, &b| seconds(b).total_cmp(&seconds(a)));
        let mut gpus = vec![(0.0_f64, Vec::new()); self.gpus()];
        for task in tasks {
            let least = gpus.iter_mut().min_by(|a, b| a.0.total_cmp(&b.0));
            if let Some((busy, tasks)) = least {
                *busy += seconds(task);
                tasks.push(task);
            }
        }
        let mut division: Vec<Vec<usize>> = gpus.into_iter().map(|(_, tasks)| tasks).collect();
        division.iter_mut().for_each(|tasks| tasks.sort_unstable());
        division
    }

    /// In its turn, a part of the plan with some of its tasks left out.
    fn left_out(&self) -> Option<Configuration> {
        if !self.is_turn_of_subsets() {
            return None;
        }
        let mut rng = self.rng();
        let parts: Vec<&Configuration> = self.parts.plan.iter().filter(|p| p.len() > 2).collect();
        let part = parts.choose(&mut rng)?;
        let size = rng.random_range(2..part.len());
        let mut keep = sample(&mut rng, part.len(), size).into_vec();
        keep.sort_unstable();
        let left: Configuration = keep.into_iter().map(|k| part[k]).collect();
        self.is_new(&left).then_some(left)
    }

    /// Of some random co-runs, the one with the most pairs of tasks that never ran together.
    fn stranger(&self) -> Option<Configuration> {
        let n = self.space.task_count();
        let met: BTreeSet<(usize, usize)> =
            self.tried.iter().flat_map(|runs| pairs(runs)).collect();
        let most = (n.div_ceil(self.gpus()) + MORE).min(n);
        let batches = self.measured_batches();
        let mut rng = self.rng();
        let mut draw = || -> Option<Configuration> {
            let size = rng.random_range(2..=most);
            let mut tasks = sample(&mut rng, n, size).into_vec();
            tasks.sort_unstable();
            let one = |&task: &usize| {
                Some(Setting {
                    task,
                    batch: *batches[task].choose(&mut rng)?,
                    share: *self.space.shares.choose(&mut rng)?,
                })
            };
            let mut runs: Configuration = tasks.iter().map(one).collect::<Option<_>>()?;
            self.space.shrink(&mut runs, &batches);
            self.is_new(&runs).then_some(runs)
        };
        let drawn = (0..DRAWS).filter_map(|_| draw());
        // If only recorded co-runs can be measured, choose among these, because few random draws would be recorded.
        let recorded = self
            .only
            .iter()
            .flatten()
            .filter(|runs| runs.len() <= most && self.is_new(runs));
        let strangers = |runs: &Configuration| pairs(runs).filter(|p| !met.contains(p)).count();
        let mut best: Option<(usize, Configuration)> = None;
        for runs in drawn.chain(recorded.cloned()) {
            let found = strangers(&runs);
            if best.as_ref().is_none_or(|(most, _)| found > *most) {
                best = Some((found, runs));
            }
        }
        best.map(|(_, runs)| runs)
    }

    /// Number of GPUs of the workload.
    pub(super) fn gpus(&self) -> usize {
        self.wanted.plan.workload.device.gpus as usize
    }

    /// A generator that depends only on the seed and the number of the co-run, so that a profile can be resumed.
    fn rng(&self) -> StdRng {
        StdRng::seed_from_u64(self.wanted.seed ^ (self.coruns << 32))
    }
}

/// Pairs of tasks of a co-run.
fn pairs(runs: &[Setting]) -> impl Iterator<Item = (usize, usize)> {
    let pair = move |(k, a): (usize, &Setting)| {
        let task = a.task;
        runs[k + 1..].iter().map(move |b| (task, b.task))
    };
    runs.iter().enumerate().flat_map(pair)
}
