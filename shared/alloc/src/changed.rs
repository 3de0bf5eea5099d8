//! Rates made from other rates.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use corun::{SampleTime, Setting, Throughput};
use units::{Batch, Share};

/// The rates of `inner`, but for what `means` makes of a co-run. There is no law of interference: that
/// of `inner` need not hold for what is made.
struct Changed<'a, C: ?Sized, F> {
    inner: &'a C,
    means: F,
}

impl<C, F> Throughput for Changed<'_, C, F>
where
    C: Throughput + ?Sized,
    F: Fn(&C, &[Setting], &mut [f64]) + Sync,
{
    fn task_count(&self) -> usize {
        self.inner.task_count()
    }

    fn solo(&self, task: usize, batch: Batch) -> f64 {
        self.inner.solo(task, batch)
    }

    fn means(&self, active: &[Setting], out: &mut [f64]) {
        (self.means)(self.inner, active, out);
    }

    fn std_errors(&self, active: &[Setting]) -> Vec<f64> {
        self.inner.std_errors(active)
    }

    fn covers(&self, setting: Setting, running: usize) -> bool {
        self.inner.covers(setting, running)
    }
}

/// Rates `deviations` standard deviations above their means.
pub(crate) fn shifted<C: Throughput + ?Sized>(rates: &C, deviations: f64) -> impl Throughput {
    Changed {
        inner: rates,
        means: move |inner: &C, active: &[Setting], out: &mut [f64]| {
            inner.means(active, out);
            for (rate, error) in out.iter_mut().zip(inner.std_errors(active)) {
                *rate += deviations * error;
            }
        },
    }
}

/// Rates that [`Swept`] keeps, about and at most: the most choices that are enumerated, 216,000 of 3
/// tasks, have 648,000, in 20 MB with what they are the rates of.
const MOST_SWEPT: usize = 1_000_000;

/// The rates of `inner`; lists of co-runs are predicted once. The plan, what it is compared with and
/// both fronts look at the same choices where these are enumerated, in the same lists: of 3 tasks that
/// took 24 seconds where one sweep took 6.
pub(crate) struct Swept<'a, C: ?Sized> {
    inner: &'a C,
    known: Option<Mutex<HashMap<Vec<Setting>, Vec<f64>>>>,
}

impl<'a, C: Throughput + ?Sized> Swept<'a, C> {
    /// Where nothing is looked at twice (`again`), nothing is kept.
    pub(crate) fn new(inner: &'a C, again: bool) -> Self {
        let known = (again && inner.interference().is_none()).then(Mutex::default);
        Self { inner, known }
    }
}

impl<C: Throughput + ?Sized> Throughput for Swept<'_, C> {
    fn task_count(&self) -> usize {
        self.inner.task_count()
    }

    fn solo(&self, task: usize, batch: Batch) -> f64 {
        self.inner.solo(task, batch)
    }

    fn means(&self, active: &[Setting], out: &mut [f64]) {
        self.inner.means(active, out);
    }

    fn means_many(&self, n: usize, active: &[Setting], out: &mut [f64]) {
        let Some(known) = &self.known else {
            return self.inner.means_many(n, active, out);
        };
        // A thread that panicked left the table whole: rows are inserted at once.
        let lock = || known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(rates) = lock().get(active) {
            return out.copy_from_slice(rates);
        }
        self.inner.means_many(n, active, out);
        let mut known = lock();
        if known.len() * out.len() < MOST_SWEPT {
            known.insert(active.to_vec(), out.to_vec());
        }
    }

    fn std_errors(&self, active: &[Setting]) -> Vec<f64> {
        self.inner.std_errors(active)
    }

    fn covers(&self, setting: Setting, running: usize) -> bool {
        self.inner.covers(setting, running)
    }

    fn interference(&self) -> Option<Vec<f64>> {
        self.inner.interference()
    }

    fn demand(&self, task: usize, batch: Batch, share: Share, running: usize) -> f64 {
        self.inner.demand(task, batch, share, running)
    }

    fn sample_time(&self, task: usize, batch: Batch, share: Share, running: usize) -> SampleTime {
        self.inner.sample_time(task, batch, share, running)
    }
}

/// Co-runs that [`memoised`] keeps at most; bounds the memory (10 tasks: some 200 bytes each).
const MOST_KNOWN: usize = 200_000;

/// Rates that are asked for once per co-run. Neighbouring choices differ in one task, so that most of
/// the sets of tasks that a round passes through are the same.
pub(crate) fn memoised<C: Throughput + ?Sized>(rates: &C) -> impl Throughput {
    let known: Mutex<HashMap<Vec<Setting>, Vec<f64>>> = Mutex::default();
    Changed {
        inner: rates,
        means: move |inner: &C, active: &[Setting], out: &mut [f64]| {
            // A thread that panicked left the table whole: rows are inserted at once.
            let lock = || known.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(rates) = lock().get(active) {
                return out.copy_from_slice(rates);
            }
            inner.means(active, out);
            let mut known = lock();
            if known.len() < MOST_KNOWN {
                known.insert(active.to_vec(), out.to_vec());
            }
        },
    }
}
