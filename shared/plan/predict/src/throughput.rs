use units::corun::{SampleTime, Setting, Throughput};
use units::{Batch, Share};

use crate::Method;
use crate::predictor::Predictor;
use crate::structured::{Law, host_load, power};

impl Throughput for Predictor {
    fn task_count(&self) -> usize {
        self.task_count()
    }

    fn solo(&self, task: usize, batch: Batch) -> f64 {
        self.solo(task, batch)
    }

    fn means(&self, active: &[Setting], out: &mut [f64]) {
        self.means(active, out);
    }

    fn means_many(&self, n: usize, active: &[Setting], out: &mut [f64]) {
        self.means_many(n, active, out);
    }

    fn means_until(
        &self,
        active: &[Setting],
        places: &[usize],
        look: &mut dyn FnMut(usize, f64) -> bool,
    ) {
        self.means_until(active, places, look);
    }

    fn std_errors(&self, active: &[Setting]) -> Vec<f64> {
        self.predict(active).iter().map(|p| p.std_error).collect()
    }

    fn covers(&self, setting: Setting, running: usize) -> bool {
        self.covers_setting(&setting, running)
    }

    /// `c_ij` of the structured law, row by row, if the model predicts by that law alone: tasks then affect each other
    /// only through `x_i = sum_j c_ij w_j`, which a search can bound.
    fn interference(&self) -> Option<Vec<f64>> {
        if self.method != Method::Structured {
            return None;
        }
        let rows = self.base.laws.iter().enumerate();
        let row = |(i, law): (usize, &Law)| {
            let mut row = law.slowdown.clone();
            row[i] = 0.0;
            row
        };
        Some(rows.flat_map(row).collect())
    }

    /// `w_j = u_j R_j^e`.
    fn demand(&self, task: usize, batch: Batch, share: Share, running: usize) -> f64 {
        let pace = &self.base.laws[task].pace;
        let r = share.fraction();
        pace.busy(batch.as_f64(), r, host_load(running)) * power(r, pace.exponent)
    }

    /// The structured law `(host^q + (device (1 + sum_j c_ij w_j))^q)^(1/q)`, but at least the time alone on the whole
    /// device.
    fn sample_time(&self, task: usize, batch: Batch, share: Share, running: usize) -> SampleTime {
        let pace = &self.base.laws[task].pace;
        let (b, r) = (batch.as_f64(), share.fraction());
        let (ln_step, _, scale) = self.base.solo_steps(task, b, r);
        SampleTime {
            host: scale * pace.host(host_load(running)) / b,
            device: scale * pace.device(b, r) / b,
            overlap: pace.overlap,
            least: ln_step.exp() / b,
        }
    }
}
