//! Rates made from other rates.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use corun::{Setting, Throughput};
use units::Batch;

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
