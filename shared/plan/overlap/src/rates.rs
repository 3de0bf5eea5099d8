pub mod cache;
pub mod shares;

use std::borrow::Cow;
use std::collections::BTreeMap;

use units::corun::{Setting, Throughput};
use units::{Batch, Share};

use crate::instance::members;
use crate::rates::shares::divided;
use crate::{OverlapError, Set};

/// Rates of compute: how fast each task advances while a set of tasks computes.
pub trait Rates {
    /// Writes `r_i(active)` in samples per second to `out[i]` for each `i` of the bit set `active`; `batches`
    /// contains the batch size of every task (it is empty if batch sizes are unknown), and `out` has one entry per
    /// task.
    fn rates(&self, active: Set, batches: &[Batch], out: &mut [f64]) -> Result<(), OverlapError>;

    /// `r_i(active)` of a single task: the value that [`Rates::rates`] writes for it.
    fn rate(&self, active: Set, batches: &[Batch], i: usize) -> Result<f64, OverlapError> {
        let mut all = vec![0.0; batches.len()];
        self.rates(active, batches, &mut all)?;
        Ok(all[i])
    }

    /// The tasks whose batch sizes affect the rates of `active`.
    fn depends_on(&self, active: Set) -> Set {
        active
    }

    /// Whether tasks are never slower with fewer co-runners: `r_i(A) >= r_i(B)` for `A` within `B`. `false` if
    /// unknown.
    fn falls_with_corunners(&self) -> bool {
        false
    }

    /// Whether every task has one rate, whatever else computes, at any batch sizes. `false` if unknown.
    fn is_independent(&self) -> bool {
        false
    }

    /// Highest rate of every one of `n` tasks over all sets, if known without querying each of them.
    fn fastest(&self, _n: usize) -> Option<Vec<f64>> {
        None
    }

    /// Largest number of tasks for which the rates of all sets may be queried to sharpen a lower
    /// bound: as many as take about a tenth of a second.
    fn all_sets_of(&self) -> usize {
        12
    }
}

/// Each task at one rate, whatever else computes: FedMT Algorithm 1, `T_i = D_i / P_i`.
#[derive(Debug, Clone, PartialEq)]
pub struct FixedRates(
    /// Samples per second of each task.
    pub Vec<f64>,
);

impl Rates for FixedRates {
    fn rates(&self, active: Set, _: &[Batch], out: &mut [f64]) -> Result<(), OverlapError> {
        for i in members(active) {
            out[i] = self.0[i];
        }
        Ok(())
    }

    fn falls_with_corunners(&self) -> bool {
        true
    }

    fn is_independent(&self) -> bool {
        true
    }
}

/// Each task always at the rate that `inner` gives while all tasks compute: FedMT Algorithm 1 with
/// batch sizes that vary.
#[derive(Debug)]
pub struct AllActive<R> {
    /// Source of the rates.
    pub inner: R,
    /// The set of all tasks.
    pub everyone: Set,
}

impl<R: Rates> Rates for AllActive<R> {
    fn rates(&self, active: Set, batches: &[Batch], out: &mut [f64]) -> Result<(), OverlapError> {
        let mut all = vec![0.0; out.len()];
        self.inner.rates(self.everyone, batches, &mut all)?;
        for i in members(active) {
            out[i] = all[i];
        }
        Ok(())
    }

    fn depends_on(&self, _: Set) -> Set {
        self.everyone
    }

    fn falls_with_corunners(&self) -> bool {
        true
    }

    fn is_independent(&self) -> bool {
        true
    }
}

/// Rates given for each set of active tasks.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TableRates {
    rows: BTreeMap<Set, Vec<f64>>,
}

impl TableRates {
    /// An empty table.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the rates while `active` computes; `samples_per_s` has one entry per task, and those of other tasks are
    /// ignored. Returns whether the set had none before.
    pub fn insert(&mut self, active: Set, samples_per_s: Vec<f64>) -> bool {
        self.rows.insert(active, samples_per_s).is_none()
    }
}

impl Rates for TableRates {
    fn rates(&self, active: Set, _: &[Batch], out: &mut [f64]) -> Result<(), OverlapError> {
        let row = self
            .rows
            .get(&active)
            .ok_or_else(|| OverlapError::MissingRates {
                active: members(active).collect(),
            })?;
        for i in members(active) {
            out[i] = row[i];
        }
        Ok(())
    }

    /// Compares every set with those of one task fewer; a missing set proves nothing.
    fn falls_with_corunners(&self) -> bool {
        self.rows.iter().all(|(&set, row)| {
            let mut fewer = members(set)
                .map(|out| set & !(1 << out))
                .filter(|&s| s != 0)
                .map(|s| (s, self.rows.get(&s)));
            fewer.all(|(s, less)| less.is_some_and(|l| members(s).all(|i| l[i] >= row[i])))
        })
    }

    fn fastest(&self, n: usize) -> Option<Vec<f64>> {
        let mut fastest = vec![0.0_f64; n];
        for (&set, row) in &self.rows {
            for i in members(set).filter(|&i| i < n) {
                fastest[i] = fastest[i].max(row[i]);
            }
        }
        fastest.iter().all(|&r| r > 0.0).then_some(fastest)
    }
}

/// Rates that a fitted predictor gives at the shares of a plan.
///
/// Tasks on different GPUs of a client share its link but not each other's compute, so each GPU
/// is predicted for its own tasks.
#[derive(Debug)]
pub struct ModelRates<'p, C: Throughput + ?Sized> {
    predictor: &'p C,
    shares: Vec<Share>,
    gpus: Vec<Set>,
    /// Index of each task in the predictor's workload.
    tasks: Vec<usize>,
    divides: bool,
}

impl<'p, C: Throughput + ?Sized> ModelRates<'p, C> {
    /// Rates of the tasks `tasks` of the predictor's workload under `shares`; `gpu_of` gives the
    /// number of each task's GPU. The three have the same length.
    #[must_use]
    pub fn new(predictor: &'p C, tasks: Vec<usize>, shares: Vec<Share>, gpu_of: &[u32]) -> Self {
        let mut sets = BTreeMap::<u32, Set>::new();
        for (i, &gpu) in gpu_of.iter().enumerate() {
            *sets.entry(gpu).or_default() |= 1 << i;
        }
        Self {
            predictor,
            shares,
            gpus: sets.into_values().collect(),
            tasks,
            divides: false,
        }
    }

    /// Rates on a device that gives the shares of idle tasks to those that compute, as in [`divided`].
    #[must_use]
    pub fn that_divide(self) -> Self {
        Self {
            divides: true,
            ..self
        }
    }
}

impl<C: Throughput + ?Sized> ModelRates<'_, C> {
    /// The co-run of the tasks `here`, all on one GPU.
    fn corun(&self, here: Set, batches: &[Batch]) -> Vec<Setting> {
        let shares = if self.divides {
            let computes: Vec<bool> = (0..batches.len()).map(|i| here >> i & 1 == 1).collect();
            Cow::Owned(divided(&self.shares, &computes))
        } else {
            Cow::Borrowed(&self.shares)
        };
        let setting = |i: usize| Setting {
            task: self.tasks[i],
            batch: batches[i],
            share: shares[i],
        };
        members(here).map(setting).collect()
    }
}

impl<C: Throughput + ?Sized> Rates for ModelRates<'_, C> {
    fn rates(&self, active: Set, batches: &[Batch], out: &mut [f64]) -> Result<(), OverlapError> {
        for &gpu in &self.gpus {
            let here = active & gpu;
            if here == 0 {
                continue;
            }
            let set = self.corun(here, batches);
            let mut means = vec![0.0; set.len()];
            self.predictor.means(&set, &mut means);
            for (i, mean) in members(here).zip(means) {
                out[i] = mean;
            }
        }
        Ok(())
    }

    fn rate(&self, active: Set, batches: &[Batch], i: usize) -> Result<f64, OverlapError> {
        let gpu = self.gpus.iter().find(|gpu| *gpu >> i & 1 == 1);
        let here = active & gpu.copied().unwrap_or_default();
        let set = self.corun(here, batches);
        let at = members(here).take_while(|&k| k != i).count();
        let mut own = f64::NAN;
        let mut look = |_, rate: f64| {
            own = rate;
            false
        };
        self.predictor.means_until(&set, &[at], &mut look);
        Ok(own)
    }
}
