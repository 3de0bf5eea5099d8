use crate::{Batch, Share};

use crate::corun::Setting;

/// Gives the rates of tasks that share a device: a fitted predictor, a law, a table.
///
/// All rates are samples per second. Nothing else is guaranteed: for example, a co-run may be faster than a solo
/// run.
pub trait Throughput: Sync {
    /// Number of tasks; the task index of a setting is below it.
    fn task_count(&self) -> usize;

    /// Rate of a task alone on the whole device, `S_i(B_i)`.
    fn solo(&self, task: usize, batch: Batch) -> f64;

    /// Rate of every task of a co-run, `P_i`, in the order of `active`; `out` has the same length, and each task
    /// occurs once.
    fn means(&self, active: &[Setting], out: &mut [f64]);

    /// [`Throughput::means`] of many co-runs of `n` tasks each, one after another in `active`
    /// and `out`.
    fn means_many(&self, n: usize, active: &[Setting], out: &mut [f64]) {
        for (a, o) in active.chunks_exact(n).zip(out.chunks_exact_mut(n)) {
            self.means(a, o);
        }
    }

    /// Passes the rates of the tasks at the given positions of a co-run to `look`, one after another until it
    /// returns `false`. This saves predictions if the rate of one task already decides the question.
    fn means_until(
        &self,
        active: &[Setting],
        places: &[usize],
        look: &mut dyn FnMut(usize, f64) -> bool,
    ) {
        let mut all = vec![0.0; active.len()];
        self.means(active, &mut all);
        look_at(&all, places, look);
    }

    /// Standard deviation of each rate in samples per second; 0 if the rate is certain.
    fn std_errors(&self, active: &[Setting]) -> Vec<f64> {
        vec![0.0; active.len()]
    }

    /// Whether a setting lies within the measured domain if this many tasks run: share and batch size in range, and
    /// both the task and the number of tasks seen in a co-run. Always true if the rates do not come from
    /// measurements. There is no default, because a wrapper must return the result of the wrapped value.
    fn covers(&self, setting: Setting, running: usize) -> bool;

    /// Coefficients `c_ij` (row `i`, column `j`, all 0 or more, diagonal 0) if the tasks affect each other only
    /// through the interference `x_i = sum_j c_ij w_j`, where the demand `w_j` depends only on the setting of task
    /// `j` ([`Throughput::demand`]). Then, if all tasks run, `P_i = 1 / t_i(x_i)` with the seconds per sample `t_i`
    /// of [`Throughput::sample_time`]. This allows a search to prove bounds.
    fn interference(&self) -> Option<Vec<f64>> {
        None
    }

    /// Demand `w_j` of a task on the others if `running` tasks run, 0 or more; only called if
    /// [`Throughput::interference`] is given.
    fn demand(&self, _task: usize, _batch: Batch, share: Share, _running: usize) -> f64 {
        share.fraction()
    }

    /// Seconds per sample as a function of the interference, if `running` tasks run; only called if
    /// [`Throughput::interference`] is given.
    fn sample_time(&self, task: usize, batch: Batch, share: Share, _running: usize) -> SampleTime {
        let active = [Setting { task, batch, share }];
        let mut rate = [0.0];
        self.means(&active, &mut rate);
        SampleTime::added(1.0 / rate[0], 0.0)
    }
}

/// Passes the rates at these positions to `look` until it returns `false`.
pub fn look_at(rates: &[f64], places: &[usize], look: &mut dyn FnMut(usize, f64) -> bool) {
    for &at in places {
        if !look(at, rates[at]) {
            return;
        }
    }
}

/// Seconds per sample as a function of interference `x`, non-decreasing: `max(least, (host^q + (device (1 +
/// x))^q)^(1/q))` with `q` the overlap.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SampleTime {
    /// Host seconds per sample, which do not depend on interference.
    pub host: f64,
    /// Device seconds per sample without interference.
    pub device: f64,
    /// Overlap of both, 1 or more: 1 adds them up, and a large value approaches the longer one.
    pub overlap: f64,
    /// Seconds per sample alone on the whole device, a lower limit for every co-run.
    pub least: f64,
}

impl SampleTime {
    /// The sum of host and device time (overlap 1), without a lower limit.
    #[must_use]
    pub const fn added(host: f64, device: f64) -> Self {
        Self {
            host,
            device,
            overlap: 1.0,
            least: 0.0,
        }
    }

    /// Seconds per sample under interference `x`, which is 0 or more.
    #[must_use]
    pub fn seconds(&self, x: f64) -> f64 {
        let device = self.device * (1.0 + x);
        if self.overlap == 1.0 {
            return (self.host + device).max(self.least);
        }
        let (less, more) = if self.host < device {
            (self.host, device)
        } else {
            (device, self.host)
        };
        let ratio = (less / more).powf(self.overlap);
        (more * (1.0 + ratio).powf(1.0 / self.overlap)).max(self.least)
    }
}
