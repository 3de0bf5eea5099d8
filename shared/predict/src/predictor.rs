use units::Batch;

use crate::anchor::Anchor;
use crate::dataset::Active;
use crate::features;
use crate::poly::Poly;

/// Throughput of one task of a co-run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prediction {
    /// Samples per second.
    pub samples_per_s: f64,
    /// One standard deviation of it, samples per second.
    pub std_error: f64,
}

/// A fitted model of the co-runs of one workload.
#[derive(Debug, Clone, PartialEq)]
pub struct Predictor {
    pub(crate) anchors: Vec<Anchor>,
    /// `ln(P_i / S_i)` of each task; `None`: never seen together with others.
    pub(crate) slowdown: Vec<Option<Poly>>,
}

impl Predictor {
    /// Tasks of the workload.
    #[must_use]
    pub fn task_count(&self) -> usize {
        self.anchors.len()
    }

    /// Samples per second of a task alone on the whole device.
    #[must_use]
    pub fn solo(&self, task: usize, batch: Batch) -> f64 {
        self.anchors[task].rate(batch)
    }

    /// Predicted samples per second of every active task, in the order of `active`; `out` is at
    /// least as long. Allocates nothing.
    pub fn means(&self, active: &[Active], out: &mut [f64]) {
        let tau = features::steps(&self.anchors, active);
        for (at, a) in active.iter().enumerate() {
            let x = features::row(active, &tau, at);
            let y = self.slowdown[a.task].as_ref().map_or(x[1], |m| m.mean(&x));
            out[at] = a.batch.as_f64() / tau[at] * y.exp();
        }
    }

    /// Predictions with their uncertainty, in the order of `active`.
    #[must_use]
    pub fn predict(&self, active: &[Active]) -> Vec<Prediction> {
        let mut mean = vec![0.0; active.len()];
        self.means(active, &mut mean);
        mean.iter()
            .zip(active)
            .map(|(&samples_per_s, a)| Prediction {
                samples_per_s,
                std_error: samples_per_s * self.slowdown[a.task].as_ref().map_or(0.3, |m| m.sigma),
            })
            .collect()
    }
}
