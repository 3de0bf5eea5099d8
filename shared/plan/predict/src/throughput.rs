use units::corun::{SampleTime, Setting, Throughput};
use units::{Batch, Share};

use crate::predictor::Predictor;

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

    fn interference(&self) -> Option<Vec<f64>> {
        self.slowdowns()
    }

    fn demand(&self, task: usize, batch: Batch, share: Share, running: usize) -> f64 {
        self.demand(task, batch, share, running)
    }

    fn sample_time(&self, task: usize, batch: Batch, share: Share, running: usize) -> SampleTime {
        let b = batch.as_f64();
        let parts = self.step_parts(task, batch, share, running);
        SampleTime {
            host: parts.host_s / b,
            device: parts.device_s / b,
            overlap: parts.overlap,
            least: parts.least_s / b,
        }
    }
}
