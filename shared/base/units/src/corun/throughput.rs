use crate::{Batch, Share};

use crate::corun::Setting;

/// Gives the rates of tasks that share a device: a fitted predictor, a law, a table.
///
/// All rates are samples per second. Only the type of the answer is guaranteed: a co-run need not be slower than a
/// solo run.
pub trait Throughput: Sync {
    /// Number of tasks; settings name tasks below it.
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

    /// The rates of the tasks at these positions of a co-run, one after another until `look` returns `false`: the
    /// rate of one task may already settle the question.
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

    /// One standard deviation of each rate, samples per second; 0 if it is certain.
    fn std_errors(&self, active: &[Setting]) -> Vec<f64> {
        vec![0.0; active.len()]
    }

    /// Whether a setting lies within the measured domain if this many tasks run: share and batch size in range, and
    /// both the task and the number of tasks seen in a co-run. True if nothing had to be measured. A wrapper must
    /// return the result of the wrapped one, so there is no default.
    fn covers(&self, setting: Setting, running: usize) -> bool;

    /// Coefficients `c_ij` (row `i`, column `j`, all 0 or more, diagonal 0) if the tasks affect each other only
    /// through the interference `x_i = sum_j c_ij w_j`, where the demand `w_j` depends only on the setting of task
    /// `j` ([`Throughput::demand`]). Then `P_i = 1 / t_i(x_i)` with the seconds per sample of
    /// [`Throughput::sample_time`], when all tasks run. This allows a search to prove bounds.
    fn interference(&self) -> Option<Vec<f64>> {
        None
    }

    /// Demand `w_j` of a task on the others if `running` tasks run, 0 or more; only called if
    /// [`Throughput::interference`] is given.
    fn demand(&self, _task: usize, _batch: Batch, share: Share, _running: usize) -> f64 {
        share.fraction()
    }

    /// Seconds per sample without interference, and the addition by each unit of interference, if `running` tasks
    /// run; only called if [`Throughput::interference`] is given.
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
    /// On the host, which interference does not change.
    pub host: f64,
    /// On the device, without interference.
    pub device: f64,
    /// Overlap of both, 1 or more: 1 means that they add up, and a large value that the longer one counts.
    pub overlap: f64,
    /// Alone on the whole device: no co-run is faster.
    pub least: f64,
}

impl SampleTime {
    /// Host and device one after another, without a minimum time.
    #[must_use]
    pub const fn added(host: f64, device: f64) -> Self {
        Self {
            host,
            device,
            overlap: 1.0,
            least: 0.0,
        }
    }

    /// Under interference `x`, 0 or more.
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
