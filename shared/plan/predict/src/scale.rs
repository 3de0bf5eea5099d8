//! Corrects a fitted model by later measurements.

use doc::Model;

use crate::Predictor;

impl Predictor {
    /// Multiplies the time of every step of a task alone by `factor` in a model: the solo table,
    /// its slope between batch sizes, and the law `g0 + g1 B` that serves where there is no table.
    /// What other tasks do to it is a factor on that time and stays as it is, so its throughput in
    /// a co-run changes by about `1 / factor`; not exactly, because the solo time is a feature of
    /// the regression as well. `factor` is finite and above 0, `task` one of the model.
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
