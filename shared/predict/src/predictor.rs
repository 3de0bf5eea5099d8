use units::Batch;

use crate::anchor::Anchor;
use crate::dataset::Active;
use crate::features::{Layout, Scene};
use crate::model::TaskModel;

/// Throughput of one task of a co-run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prediction {
    /// Samples per second.
    pub samples_per_s: f64,
    /// One standard deviation of it, samples per second.
    pub std_error: f64,
}

/// A fitted model of the co-runs of one workload.
#[derive(Debug, Clone)]
pub struct Predictor {
    pub(crate) anchors: Vec<Anchor>,
    pub(crate) layout: Layout,
    /// `None`: never measured.
    pub(crate) tasks: Vec<Option<TaskModel>>,
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
        let scene = Scene::new(&self.anchors, active);
        for (at, a) in active.iter().enumerate() {
            let ln_step = match &self.tasks[a.task] {
                Some(m) => m.ln_step(
                    &scene,
                    at,
                    self.layout,
                    a.batch.as_f64(),
                    a.share.fraction(),
                ),
                None => scene.step(at).ln() - a.share.fraction().ln(),
            };
            out[at] = a.batch.as_f64() * (-ln_step).exp();
        }
    }

    /// Predictions with their uncertainty, in the order of `active`.
    #[must_use]
    pub fn predict(&self, active: &[Active]) -> Vec<Prediction> {
        let mut mean = vec![0.0; active.len()];
        self.means(active, &mut mean);
        mean.iter()
            .map(|&samples_per_s| Prediction {
                samples_per_s,
                std_error: samples_per_s * 0.05,
            })
            .collect()
    }
}
