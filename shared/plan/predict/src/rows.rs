use crate::base::Base;
use crate::dataset::{Dataset, Sample};
use crate::features::MAX_FEATURES;

/// The co-run measurements of one task, row by row. Solo runs are not rows: they are in the anchors, which the
/// regressions are relative to.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rows {
    /// Position in [`Dataset::samples`] of each row.
    pub sample: Vec<usize>,
    /// Position of the task in that sample.
    pub place: Vec<usize>,
    /// Input of the regressions.
    pub features: Vec<Vec<f64>>,
    /// `ln(step seconds)`.
    pub ln_step: Vec<f64>,
    /// `ln(solo step seconds)` at its share by the anchor.
    pub ln_solo: Vec<f64>,
    /// `ln(step seconds)` by the law.
    pub ln_law: Vec<f64>,
    /// Relative standard error of the measurement, if known.
    pub error: Vec<Option<f64>>,
}

impl Rows {
    /// Rows of every task, in the order of the samples, without throughputs of zero.
    pub fn of_all(data: &Dataset, base: &Base) -> Vec<Rows> {
        let mut rows = vec![Rows::default(); data.tasks.len()];
        let mut x = [0.0; MAX_FEATURES];
        let several = |s: &&Sample| s.active.len() > 1;
        let samples = data.samples.iter().enumerate();
        for (k, s) in samples.filter(|(_, s)| several(s) || !base.anchored) {
            let inputs = base.inputs(&s.active);
            for (at, (a, &p)) in s.active.iter().zip(&s.throughput).enumerate() {
                if p <= 0.0 {
                    continue;
                }
                base.layout.fill(&inputs, at, &mut x);
                let row = &mut rows[a.task];
                row.sample.push(k);
                row.place.push(at);
                row.features.push(x[..base.layout.len()].to_vec());
                row.ln_step.push((a.batch.as_f64() / p).ln());
                row.ln_solo.push(inputs.ln_alone[at]);
                row.ln_law.push(inputs.by_law(at, &base.laws[a.task]).ln());
                row.error.push(s.stderr.as_ref().map(|e| e[at] / p));
            }
        }
        rows
    }

    pub fn len(&self) -> usize {
        self.sample.len()
    }
}
