//! Rates derived from other rates.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::fast::FixedState;
use units::corun::{SampleTime, Setting, Throughput, look_at};
use units::{Batch, Share};

/// The rates of `inner`, `deviations` standard deviations above their means. They report no additive interference,
/// because that of `inner` need not hold for shifted rates.
pub(crate) struct Shifted<'a, C: ?Sized> {
    pub(crate) inner: &'a C,
    pub(crate) deviations: f64,
}

impl<C: Throughput + ?Sized> Throughput for Shifted<'_, C> {
    fn task_count(&self) -> usize {
        self.inner.task_count()
    }

    fn solo(&self, task: usize, batch: Batch) -> f64 {
        self.inner.solo(task, batch)
    }

    fn means(&self, active: &[Setting], out: &mut [f64]) {
        self.inner.means(active, out);
        for (rate, error) in out.iter_mut().zip(self.inner.std_errors(active)) {
            *rate += self.deviations * error;
        }
    }

    fn std_errors(&self, active: &[Setting]) -> Vec<f64> {
        self.inner.std_errors(active)
    }

    fn covers(&self, setting: Setting, running: usize) -> bool {
        self.inner.covers(setting, running)
    }
}

/// Capacity of [`Remembered`], in rates; a rate takes about 24 bytes with its setting, and each co-run counts as
/// [`CORUN`] additional rates. The largest enumeration, 216,000 choices of 3 tasks, counts as 1.5 million. Once it is
/// full, further co-runs are predicted again each time.
const MOST_KEPT: usize = 2_000_000;
/// Memory of a co-run in the table besides its rates: two vectors and the table entry, about 100 bytes.
const CORUN: usize = 4;

/// The rates of `inner`, with each co-run predicted only once. If choices are enumerated, the plan, its rivals and
/// both fronts evaluate the same ones: without the table this took 24 seconds for 3 tasks, where one sweep took 6.
/// Neighbouring choices of a round differ in one task, so most of their co-runs are the same.
pub(crate) struct Remembered<'a, C: ?Sized> {
    inner: &'a C,
    known: Option<Arc<KnownRates>>,
}

/// The rates of each co-run that was predicted.
pub(crate) type KnownRates = Mutex<RatesTable>;
/// Uses a fast hash: a lookup with the standard hash, which resists adversarial keys, takes three times as long.
type RatesTable = HashMap<Vec<Setting>, Vec<f64>, FixedState>;

impl<'a, C: Throughput + ?Sized> Remembered<'a, C> {
    /// Keeps nothing if no choice is evaluated twice (`again` is false), or if interference is additive: then rates
    /// are sums, which are faster to compute than to look up.
    pub(crate) fn new(inner: &'a C, again: bool) -> Self {
        let known = (again && inner.interference().is_none()).then(Arc::default);
        Self { inner, known }
    }

    /// Uses a table of rates of the same `inner` that outlives this value.
    pub(crate) fn with(inner: &'a C, known: Arc<KnownRates>) -> Self {
        let known = Some(known);
        Self { inner, known }
    }

    fn keep(known: &mut RatesTable, active: &[Setting], rates: &[f64]) {
        if known.len() * (rates.len() + CORUN) < MOST_KEPT {
            known.insert(active.to_vec(), rates.to_vec());
        }
    }
}

/// Even after a panic in another thread the table is consistent, because rows are inserted in one step.
fn lock(known: &KnownRates) -> MutexGuard<'_, RatesTable> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<C: Throughput + ?Sized> Throughput for Remembered<'_, C> {
    fn task_count(&self) -> usize {
        self.inner.task_count()
    }

    fn solo(&self, task: usize, batch: Batch) -> f64 {
        self.inner.solo(task, batch)
    }

    fn means(&self, active: &[Setting], out: &mut [f64]) {
        let Some(known) = &self.known else {
            return self.inner.means(active, out);
        };
        if let Some(rates) = lock(known).get(active) {
            return out.copy_from_slice(rates);
        }
        self.inner.means(active, out);
        Self::keep(&mut lock(known), active, out);
    }

    fn means_many(&self, n: usize, active: &[Setting], out: &mut [f64]) {
        let Some(known) = &self.known else {
            return self.inner.means_many(n, active, out);
        };
        let corun = |k: usize| k * n..(k + 1) * n;
        let mut missing: Vec<usize> = (0..active.len() / n).collect();
        {
            let known = lock(known);
            missing.retain(|&k| match known.get(&active[corun(k)]) {
                Some(rates) => {
                    out[corun(k)].copy_from_slice(rates);
                    false
                }
                None => true,
            });
        }
        let asked: Vec<Setting> = missing
            .iter()
            .flat_map(|&k| active[corun(k)].iter().copied())
            .collect();
        let mut rates = vec![0.0; asked.len()];
        self.inner.means_many(n, &asked, &mut rates);
        let mut known = lock(known);
        for (&k, rates) in missing.iter().zip(rates.chunks_exact(n)) {
            out[corun(k)].copy_from_slice(rates);
            Self::keep(&mut known, &active[corun(k)], rates);
        }
    }

    /// Does not keep the rates, since `inner` may predict only some of the tasks.
    fn means_until(
        &self,
        active: &[Setting],
        places: &[usize],
        look: &mut dyn FnMut(usize, f64) -> bool,
    ) {
        let known = self.known.as_ref();
        match known.and_then(|known| lock(known).get(active).cloned()) {
            Some(rates) => look_at(&rates, places, look),
            None => self.inner.means_until(active, places, look),
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Counts the predicted co-runs; a rate is the task's index plus its share.
    #[derive(Default)]
    struct Counting(AtomicUsize);

    impl Throughput for Counting {
        fn task_count(&self) -> usize {
            3
        }
        fn solo(&self, _: usize, _: Batch) -> f64 {
            1.0
        }
        fn means(&self, active: &[Setting], out: &mut [f64]) {
            self.0.fetch_add(1, Ordering::Relaxed);
            for (setting, rate) in active.iter().zip(out) {
                *rate = setting.task as f64 + setting.share.fraction() / active.len() as f64;
            }
        }
        fn covers(&self, _: Setting, _: usize) -> bool {
            true
        }
    }

    fn settings(each: &[(usize, f64)]) -> Vec<Setting> {
        let one = |&(task, percent)| Setting {
            task,
            batch: Batch::new(32).unwrap(),
            share: Share::from_percent(percent).unwrap(),
        };
        each.iter().map(one).collect()
    }

    #[test]
    fn a_co_run_is_predicted_once_alone_or_in_a_list() {
        let counting = Counting::default();
        let known = Remembered::new(&counting, true);
        let list = settings(&[(0, 10.0), (1, 20.0), (0, 30.0), (1, 20.0)]);
        let (mut once, mut again) = ([0.0; 4], [0.0; 4]);
        known.means(&list[2..], &mut once[2..]);
        known.means_many(2, &list, &mut again);
        assert_eq!(counting.0.load(Ordering::Relaxed), 2);
        assert_eq!(once[2..], again[2..]);
        known.means_many(2, &list, &mut once);
        assert_eq!(counting.0.load(Ordering::Relaxed), 2);
        assert_eq!(once, again);
        // Two solo runs are not one co-run of two tasks.
        let mut alone = [0.0; 2];
        known.means_many(1, &list[..2], &mut alone);
        assert!(alone != again[..2]);
    }
}
