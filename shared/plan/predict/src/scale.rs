//! Corrects a fitted model by later measurements.

use doc::Model;

use crate::Predictor;

impl Predictor {
    /// Multiplies the solo step times of a task by `factor`: the solo table, its slope between batch sizes, and the
    /// law `g0 + g1 B` that is used without a table. The slow-down by other tasks is a factor on that time and does
    /// not change, so the throughput in a co-run changes by about `1 / factor`. It is not exact, because the solo
    /// time is also a feature of the regression. `factor` is finite and above 0, and `task` is one of the model.
    pub fn scale_steps(model: &mut Model, task: usize, factor: f64) {
        let task = &mut model.predictor.tasks[task];
        for solo in &mut task.solo {
            solo.step_s *= factor;
        }
        task.solo_slope_s *= factor;
        task.law.fixed_s *= factor;
        task.law.per_sample_s *= factor;
    }
}
