use units::corun::{SampleTime, Setting, Throughput};
use units::{Batch, Share};

/// Some of the tasks of a co-run, renumbered from 0.
pub struct Subset<'a, C: Throughput + ?Sized> {
    inner: &'a C,
    members: &'a [usize],
    coupling: Option<Vec<f64>>,
}

impl<'a, C: Throughput + ?Sized> Subset<'a, C> {
    /// The tasks `members`, indices of tasks of `inner`, in this order.
    pub fn new(inner: &'a C, members: &'a [usize]) -> Self {
        let n = inner.task_count();
        let coupling = inner.interference().map(|c| {
            let row = |&i: &usize| members.iter().map(|&j| (i, j)).collect::<Vec<_>>();
            let cell = |(i, j): (usize, usize)| c[i * n + j];
            members.iter().flat_map(row).map(cell).collect()
        });
        Self {
            inner,
            members,
            coupling,
        }
    }

    fn renamed(&self, active: &[Setting]) -> Vec<Setting> {
        let rename = |a: &Setting| Setting {
            task: self.members[a.task],
            ..*a
        };
        active.iter().map(rename).collect()
    }
}

impl<C: Throughput + ?Sized> Throughput for Subset<'_, C> {
    fn task_count(&self) -> usize {
        self.members.len()
    }

    fn solo(&self, task: usize, batch: Batch) -> f64 {
        self.inner.solo(self.members[task], batch)
    }

    fn means(&self, active: &[Setting], out: &mut [f64]) {
        self.inner.means(&self.renamed(active), out);
    }

    fn means_many(&self, n: usize, active: &[Setting], out: &mut [f64]) {
        self.inner.means_many(n, &self.renamed(active), out);
    }

    fn means_until(
        &self,
        active: &[Setting],
        places: &[usize],
        look: &mut dyn FnMut(usize, f64) -> bool,
    ) {
        let renamed = self.renamed(active);
        self.inner.means_until(&renamed, places, look);
    }

    fn std_errors(&self, active: &[Setting]) -> Vec<f64> {
        self.inner.std_errors(&self.renamed(active))
    }

    fn covers(&self, setting: Setting, running: usize) -> bool {
        let task = self.members[setting.task];
        self.inner.covers(Setting { task, ..setting }, running)
    }

    fn interference(&self) -> Option<Vec<f64>> {
        self.coupling.clone()
    }

    fn demand(&self, task: usize, batch: Batch, share: Share, running: usize) -> f64 {
        let task = self.members[task];
        self.inner.demand(task, batch, share, running)
    }

    fn sample_time(&self, task: usize, batch: Batch, share: Share, running: usize) -> SampleTime {
        let task = self.members[task];
        self.inner.sample_time(task, batch, share, running)
    }
}
