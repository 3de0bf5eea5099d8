use units::{Batch, Share};

use crate::Setting;

/// Knows how fast tasks run that share a device: a fitted predictor, a law, a table.
///
/// All rates are samples per second. Nothing but the type of the answer is promised: a co-run
/// need not be slower than a solo run.
pub trait Throughput: Sync {
    /// Number of tasks; settings name tasks below it.
    fn task_count(&self) -> usize;

    /// Rate of a task alone on the whole device, `S_i(B_i)`.
    fn solo(&self, task: usize, batch: Batch) -> f64;

    /// Rate of every task of a co-run, `P_i`, in the order of `active`; `out` is as long, and
    /// each task stands once.
    fn means(&self, active: &[Setting], out: &mut [f64]);

    /// [`Throughput::means`] of many co-runs of `n` tasks each, one after another in `active`
    /// and `out`.
    fn means_many(&self, n: usize, active: &[Setting], out: &mut [f64]) {
        for (a, o) in active.chunks_exact(n).zip(out.chunks_exact_mut(n)) {
            self.means(a, o);
        }
    }

    /// One standard deviation of each rate, samples per second; 0 where it is certain.
    fn std_errors(&self, active: &[Setting]) -> Vec<f64> {
        vec![0.0; active.len()]
    }

    /// Coefficients `c_ij` (row `i`, column `j`, all 0 or more, diagonal 0) if the tasks act on
    /// each other only through the interference `x_i = sum_j c_ij w_j`, where the demand `w_j`
    /// is a function of the setting of task `j` alone ([`Throughput::demand`]): then
    /// `P_i = 1 / (alone + interfered * x_i)` with [`Throughput::sample_time`], when all tasks
    /// run. This is what lets a search prove bounds.
    fn interference(&self) -> Option<Vec<f64>> {
        None
    }

    /// Demand `w_j` of a task on the others when `running` tasks run, 0 or more; only asked
    /// where [`Throughput::interference`] is given.
    fn demand(&self, _task: usize, _batch: Batch, share: Share, _running: usize) -> f64 {
        share.fraction()
    }

    /// Seconds per sample without interference, and what each unit of interference adds, when
    /// `running` tasks run; only asked where [`Throughput::interference`] is given.
    fn sample_time(&self, task: usize, batch: Batch, share: Share, _running: usize) -> SampleTime {
        let active = [Setting { task, batch, share }];
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
