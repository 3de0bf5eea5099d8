use std::collections::BTreeSet;

use doc::{BatchPolicy, Memory, Workload};
use units::corun::{Setting, shrink_to_fit};
use units::{Batch, Bytes, Share, TotalShare};

use crate::DesignError;
use crate::settings::DesignSettings;

/// Shares (hundredths of a percent) of solo runs in addition to the whole device. At least two are needed to show a
/// bend; a quarter and a half lie on both sides of it for most training jobs.
const PARTS: [u32; 2] = [2500, 5000];

/// Tasks that run together, by index in the workload, ascending.
pub type Configuration = Vec<Setting>;

/// The configurations that may be measured.
#[derive(Debug, Clone)]
pub struct Space {
    /// Batch sizes of each task in solo runs.
    sizes: Vec<Vec<Batch>>,
    /// Batch sizes of each task in co-runs.
    batches: Vec<Vec<Batch>>,
    needs: Vec<Option<Memory>>,
    /// Shares to choose from, ascending.
    pub shares: Vec<Share>,
    rv_min: TotalShare,
    rv_max: TotalShare,
    memory: Option<Bytes>,
}

impl Space {
    /// The space of a workload; an error if it would be empty. If only recorded configurations can be measured,
    /// `only` gives the shares.
    pub fn new(
        workload: &Workload,
        settings: &DesignSettings,
        only: Option<&[Configuration]>,
    ) -> Result<Self, DesignError> {
        let step = settings.step.hundredths();
        let multiples = (1..=Share::FULL.hundredths() / step).map(|k| k * step);
        let shares: BTreeSet<Share> = match only {
            Some(only) => only.iter().flatten().map(|run| run.share).collect(),
            None => multiples.map(Share::from_hundredths).collect(),
        };
        let tasks = workload.tasks.iter();
        let space = Self {
            sizes: tasks.clone().map(|t| t.batch_sizes.clone()).collect(),
            batches: match settings.policy(workload, only.is_some()) {
                BatchPolicy::Reference => tasks.clone().map(|t| vec![t.reference()]).collect(),
                _ => tasks.clone().map(|t| t.batch_sizes.clone()).collect(),
            },
            needs: tasks.map(|t| t.memory).collect(),
            shares: shares.into_iter().collect(),
            rv_min: settings.rv_min,
            rv_max: settings.rv_max,
            memory: workload.device.memory,
        };
        let n = space.task_count() as u32;
        let of = |share: Option<&Share>| share.map_or(0, |s| s.hundredths().saturating_mul(n));
        let reach = (of(space.shares.first()), of(space.shares.last()));
        if reach.1 < space.rv_min.hundredths() || reach.0 > space.rv_max.hundredths() {
            let percent = |hundredths| Share::from_hundredths(hundredths).percent();
            return Err(DesignError::TotalShare {
                tasks: n,
                step: settings.step,
                least: percent(reach.0),
                most: percent(reach.1),
            });
        }
        Ok(space)
    }

    /// Number of tasks.
    pub fn task_count(&self) -> usize {
        self.batches.len()
    }

    /// Batch sizes of a task in co-runs.
    pub fn batches(&self, task: usize) -> &[Batch] {
        &self.batches[task]
    }

    /// Each task alone on the whole device at each of its batch sizes.
    pub fn solos(&self) -> Vec<Configuration> {
        let solo = |task, &batch: &Batch| {
            vec![Setting {
                task,
                batch,
                share: Share::FULL,
            }]
        };
        (0..self.task_count())
            .flat_map(|task| self.sizes[task].iter().map(move |b| solo(task, b)))
            .collect()
    }

    /// Each task alone at the shares nearest to a quarter and a half, at its smallest and largest batch size.
    pub fn part_solos(&self) -> Vec<Configuration> {
        let below = || self.shares.iter().filter(|s| **s < Share::FULL);
        let near = |to: &u32| {
            below()
                .min_by_key(|s| s.hundredths().abs_diff(*to))
                .copied()
        };
        let shares: BTreeSet<Share> = PARTS.iter().filter_map(near).collect();
        let mut all = Vec::new();
        for task in 0..self.task_count() {
            let sizes = || self.batches(task).iter().copied();
            let ends: BTreeSet<Batch> = sizes().min().into_iter().chain(sizes().max()).collect();
            for batch in ends {
                let one = |&share: &Share| vec![Setting { task, batch, share }];
                all.extend(shares.iter().map(one));
            }
        }
        all
    }

    /// Whether the sum of the shares is allowed. The minimum applies only to co-runs of all tasks.
    pub fn allows(&self, configuration: &[Setting]) -> bool {
        let total: TotalShare = configuration.iter().map(|run| run.share).sum();
        let all = configuration.len() == self.task_count();
        total <= self.rv_max && (!all || total >= self.rv_min)
    }

    /// Whether the tasks fit into memory together; unknown needs count as 0.
    pub fn fits(&self, configuration: &[Setting]) -> bool {
        let need: f64 = configuration.iter().map(|run| self.need(run)).sum();
        need <= self.capacity()
    }

    /// Reduces batch sizes, within `sizes`, until the tasks fit into memory, as far as possible.
    pub fn shrink(&self, configuration: &mut [Setting], sizes: &[Vec<Batch>]) {
        shrink_to_fit(configuration, sizes, |run| self.need(run), self.capacity());
    }

    /// Like [`Space::shrink`], with all batch sizes of co-runs.
    pub fn shrunk(&self, mut configuration: Configuration) -> Configuration {
        self.shrink(&mut configuration, &self.batches);
        configuration
    }

    /// Bytes of a task, 0 if unknown.
    fn need(&self, run: &Setting) -> f64 {
        self.needs[run.task].map_or(0.0, |m| m.at(run.batch))
    }

    /// Bytes of the device, infinite if unknown.
    fn capacity(&self) -> f64 {
        self.memory.map_or(f64::INFINITY, |m| m.get() as f64)
    }
}
