use predict::{Active, Predictor};
use units::{Batch, Share};

/// Throughput of tasks that share a GPU, as the search needs it.
pub trait CoRun: Sync {
    /// Number of tasks.
    fn task_count(&self) -> usize;

    /// Samples per second of a task alone on the whole GPU: `S_i(B_i)`.
    fn solo(&self, task: usize, batch: Batch) -> f64;

    /// Samples per second of every active task, in the order of `active`: `P_i`.
    fn means(&self, active: &[Active], out: &mut [f64]);

    /// `means` of many co-runs of `n` tasks each, one after another in `active` and `out`.
    fn means_many(&self, n: usize, active: &[Active], out: &mut [f64]) {
        for (a, o) in active.chunks_exact(n).zip(out.chunks_exact_mut(n)) {
            self.means(a, o);
        }
    }

    /// One standard deviation of each throughput, samples per second; 0 where it is certain.
    fn std_errors(&self, active: &[Active]) -> Vec<f64> {
        vec![0.0; active.len()]
    }

    /// Coefficients `c_ij` (row `i`, column `j`, all 0 or more, diagonal 0) if the tasks act on
    /// each other only through the interference `x_i = sum_j c_ij w_j`, where the pressure `w_j`
    /// is a function of the setting of task `j` alone ([`CoRun::pressure`]): then
    /// `P_i = 1 / (alone + interfered * x_i)` with [`CoRun::sample_time`], when all tasks run.
    /// This is what lets bounds be proven.
    fn interference(&self) -> Option<&[f64]> {
        None
    }

    /// Pressure `w_j` of a task on the others when `running` tasks run, 0 or more; only asked
    /// where [`CoRun::interference`] is given.
    fn pressure(&self, _task: usize, _batch: Batch, share: Share, _running: usize) -> f64 {
        share.fraction()
    }

    /// Seconds per sample without interference, and what each unit of interference adds, when
    /// `running` tasks run; only asked where [`CoRun::interference`] is given.
    fn sample_time(&self, task: usize, batch: Batch, share: Share, _running: usize) -> SampleTime {
        let active = [Active { task, batch, share }];
        let mut rate = [0.0];
        self.means(&active, &mut rate);
        SampleTime {
            alone: 1.0 / rate[0],
            interfered: 0.0,
        }
    }
}

/// Seconds per sample as a function of interference `x`: `alone + interfered * x`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SampleTime {
    /// Without interference.
    pub alone: f64,
    /// For each unit of interference; 0 or more.
    pub interfered: f64,
}

/// The rates that a fitted predictor gives.
#[derive(Debug)]
pub struct Predicted<'a> {
    predictor: &'a Predictor,
    coupling: Option<Vec<f64>>,
}

impl<'a> Predicted<'a> {
    /// Looks at what kind of predictor it is.
    #[must_use]
    pub fn new(predictor: &'a Predictor) -> Self {
        Self {
            coupling: predictor.slowdowns(),
            predictor,
        }
    }
}

impl CoRun for Predicted<'_> {
    fn task_count(&self) -> usize {
        self.predictor.task_count()
    }

    fn solo(&self, task: usize, batch: Batch) -> f64 {
        self.predictor.solo(task, batch)
    }

    fn means(&self, active: &[Active], out: &mut [f64]) {
        self.predictor.means(active, out);
    }

    fn means_many(&self, n: usize, active: &[Active], out: &mut [f64]) {
        self.predictor.means_many(n, active, out);
    }

    fn std_errors(&self, active: &[Active]) -> Vec<f64> {
        let predicted = self.predictor.predict(active);
        predicted.iter().map(|p| p.std_error).collect()
    }

    fn interference(&self) -> Option<&[f64]> {
        self.coupling.as_deref()
    }

    fn pressure(&self, task: usize, batch: Batch, share: Share, running: usize) -> f64 {
        self.predictor.pressure(task, batch, share, running)
    }

    fn sample_time(&self, task: usize, batch: Batch, share: Share, running: usize) -> SampleTime {
        if running == 1 && share == Share::FULL {
            // Read from the solo runs rather than predicted, as `means` does.
            return SampleTime {
                alone: 1.0 / self.predictor.solo(task, batch),
                interfered: 0.0,
            };
        }
        let parts = self.predictor.step_parts(task, batch, share, running);
        let b = batch.as_f64();
        SampleTime {
            alone: (parts.host_s + parts.device_s) / b,
            interfered: parts.device_s / b,
        }
    }
}

/// The tasks `members` of another co-run, renumbered from 0.
pub(crate) struct Subset<'a, C: CoRun + ?Sized> {
    inner: &'a C,
    members: &'a [usize],
    coupling: Option<Vec<f64>>,
}

impl<'a, C: CoRun + ?Sized> Subset<'a, C> {
    pub(crate) fn new(inner: &'a C, members: &'a [usize]) -> Self {
        let n = inner.task_count();
        let coupling = inner.interference().map(|c| {
            let row = |&i: &usize| members.iter().map(move |&j| c[i * n + j]);
            members.iter().flat_map(row).collect()
        });
        Self {
            inner,
            members,
            coupling,
        }
    }

    fn renamed(&self, active: &[Active]) -> Vec<Active> {
        let rename = |a: &Active| Active {
            task: self.members[a.task],
            ..*a
        };
        active.iter().map(rename).collect()
    }
}

impl<C: CoRun + ?Sized> CoRun for Subset<'_, C> {
    fn task_count(&self) -> usize {
        self.members.len()
    }

    fn solo(&self, task: usize, batch: Batch) -> f64 {
        self.inner.solo(self.members[task], batch)
    }

    fn means(&self, active: &[Active], out: &mut [f64]) {
        self.inner.means(&self.renamed(active), out);
    }

    fn std_errors(&self, active: &[Active]) -> Vec<f64> {
        self.inner.std_errors(&self.renamed(active))
    }

    fn interference(&self) -> Option<&[f64]> {
        self.coupling.as_deref()
    }

    fn pressure(&self, task: usize, batch: Batch, share: Share, running: usize) -> f64 {
        let task = self.members[task];
        self.inner.pressure(task, batch, share, running)
    }

    fn sample_time(&self, task: usize, batch: Batch, share: Share, running: usize) -> SampleTime {
        let task = self.members[task];
        self.inner.sample_time(task, batch, share, running)
    }
}
