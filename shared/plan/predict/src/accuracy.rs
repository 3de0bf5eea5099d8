//! Accuracy of a predictor on measurements that it was not fitted to.

use math::stats::{mean, median};

use crate::{Dataset, Predictor};

/// Half the width of a 90 % interval in standard errors, for normal errors.
const HALF_WIDTH_90: f64 = 1.645;

/// Errors of predictions, in percent of the measured values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Accuracy {
    /// Number of compared throughputs: one for each task of each configuration, if above 0.
    pub throughputs: usize,
    /// Mean absolute error of a throughput.
    pub mean_percent: f64,
    /// Median absolute error of a throughput.
    pub median_percent: f64,
    /// Mean absolute error of the total throughput of a configuration, over configurations without a zero.
    pub total_percent: Option<f64>,
    /// Fraction of the throughputs that lie in the 90 % intervals of their predictions.
    pub coverage_90: f64,
}

impl Predictor {
    /// Compares predictions with measurements; `None` if no measurement is above 0.
    #[must_use]
    pub fn accuracy(&self, measured: &Dataset) -> Option<Accuracy> {
        let mut each = Vec::new();
        let mut totals = Vec::new();
        let mut inside = 0;
        for s in &measured.samples {
            let predicted = self.predict(&s.active);
            let pairs = predicted.iter().zip(&s.throughput);
            for (p, m) in pairs.filter(|(_, m)| **m > 0.0) {
                each.push(100.0 * (p.samples_per_s / m - 1.0).abs());
                inside += usize::from((p.samples_per_s - m).abs() <= HALF_WIDTH_90 * p.std_error);
            }
            if s.throughput.iter().all(|m| *m > 0.0) {
                let total: f64 = predicted.iter().map(|p| p.samples_per_s).sum();
                totals.push(100.0 * (total / s.throughput.iter().sum::<f64>() - 1.0).abs());
            }
        }
        Some(Accuracy {
            throughputs: each.len(),
            mean_percent: mean(&each)?,
            median_percent: median(&each)?,
            total_percent: mean(&totals),
            coverage_90: inside as f64 / each.len() as f64,
        })
    }
}
