//! Rates whose interference is additive.

use units::{Batch, Share};

use units::corun::{SampleTime, Setting, Throughput};

/// Constants of one task of an [`InterferenceLaw`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct TaskLaw {
    /// Seconds of each step that do not depend on the share.
    pub(crate) step_s: f64,
    /// Seconds of a sample on the whole GPU.
    pub(crate) sample_s: f64,
    /// Exponent of the share: the work takes `1 / R^exponent` times as long.
    pub(crate) exponent: f64,
}

/// Co-run throughput by a law with a few constants: `t_i = step_i + sample_i B_i / R_i^p_i (1 + sum_j c_ij w_j)`,
/// `P_i = B_i / t_i` (the paper's `gamma_0 + gamma_1 O_i` with a share and an interference term). The demand `w_j` is
/// `R_j`; with `busy` it is multiplied by the fraction of its undisturbed step in which task j computes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct InterferenceLaw {
    /// Constants of each task.
    pub(crate) tasks: Vec<TaskLaw>,
    /// `c_ij`, row by row; 0 or more, the diagonal 0.
    pub(crate) coupling: Vec<f64>,
    /// Whether a task affects others only while it computes.
    pub(crate) busy: bool,
}

impl InterferenceLaw {
    fn time(&self, task: usize, batch: Batch, share: Share) -> SampleTime {
        let t = &self.tasks[task];
        let work = t.sample_s / share.fraction().powf(t.exponent);
        SampleTime::added(t.step_s / batch.as_f64(), work)
    }
}

impl Throughput for InterferenceLaw {
    fn task_count(&self) -> usize {
        self.tasks.len()
    }

    fn solo(&self, task: usize, batch: Batch) -> f64 {
        1.0 / self.time(task, batch, Share::FULL).seconds(0.0)
    }

    fn covers(&self, _: Setting, _: usize) -> bool {
        true
    }

    fn means(&self, active: &[Setting], out: &mut [f64]) {
        let n = self.tasks.len();
        for (o, a) in out.iter_mut().zip(active) {
            let press = |b: &Setting| self.demand(b.task, b.batch, b.share, active.len());
            let x: f64 = active
                .iter()
                .map(|b| self.coupling[a.task * n + b.task] * press(b))
                .sum();
            let t = self.time(a.task, a.batch, a.share);
            *o = 1.0 / t.seconds(x);
        }
    }

    fn interference(&self) -> Option<Vec<f64>> {
        Some(self.coupling.clone())
    }

    fn demand(&self, task: usize, batch: Batch, share: Share, _running: usize) -> f64 {
        if !self.busy {
            return share.fraction();
        }
        let t = self.time(task, batch, share);
        t.device / t.seconds(0.0) * share.fraction()
    }

    fn sample_time(&self, task: usize, batch: Batch, share: Share, _running: usize) -> SampleTime {
        self.time(task, batch, share)
    }
}
