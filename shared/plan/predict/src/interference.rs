use units::{Batch, Share};

use crate::Method;
use crate::predictor::Predictor;
use crate::structured::{host_load, power};

/// Parts of a step by the structured law: `(host^q + (device (1 + sum_j c_ij w_j))^q)^(1/q)`, and at least the time
/// alone on the whole device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepParts {
    /// Seconds on the host.
    pub host_s: f64,
    /// Seconds on the device, undisturbed.
    pub device_s: f64,
    /// `q`: how far both overlap; 1 means that they add up.
    pub overlap: f64,
    /// Seconds alone on the whole device.
    pub least_s: f64,
}

impl Predictor {
    /// `c_ij` of the structured law, row by row, 0 or more and 0 on the diagonal, if the model predicts by that law
    /// alone. Tasks then affect each other only through `x_i = sum_j c_ij w_j` with [`Predictor::demand`], which a
    /// search can bound.
    #[must_use]
    pub fn slowdowns(&self) -> Option<Vec<f64>> {
        if self.method != Method::Structured {
            return None;
        }
        let n = self.base.laws.len();
        let row = |i: usize| (0..n).map(move |j| (i, j));
        let cell = |(i, j): (usize, usize)| {
            if i == j {
                0.0
            } else {
                self.base.laws[i].slowdown[j]
            }
        };
        Some((0..n).flat_map(row).map(cell).collect())
    }

    /// `w_j = u_j R_j^e`: how much a task interferes with others if `running` tasks run.
    #[must_use]
    pub fn demand(&self, task: usize, batch: Batch, share: Share, running: usize) -> f64 {
        let pace = &self.base.laws[task].pace;
        let r = share.fraction();
        pace.busy(batch.as_f64(), r, host_load(running)) * power(r, pace.exponent)
    }

    /// Parts of the step of a task by the structured law if `running` tasks run.
    #[must_use]
    pub fn step_parts(&self, task: usize, batch: Batch, share: Share, running: usize) -> StepParts {
        let pace = &self.base.laws[task].pace;
        let (b, r) = (batch.as_f64(), share.fraction());
        let (ln_step, _, scale) = self.base.solo_steps(task, b, r);
        StepParts {
            host_s: scale * pace.host(host_load(running)),
            device_s: scale * pace.device(b, r),
            overlap: pace.overlap,
            least_s: ln_step.exp(),
        }
    }
}
