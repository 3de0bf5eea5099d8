use crate::anchor::Anchor;
use crate::dataset::Dataset;
use crate::error::PredictError;
use crate::features;
use crate::poly::Poly;
use crate::predictor::Predictor;

/// Family of models.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Method {
    /// Second-order polynomial of the features, ridge regression.
    #[default]
    Poly,
}

/// Settings of a fit.
#[derive(Debug, Clone, PartialEq)]
pub struct FitOptions {
    /// Weight of the penalty on large coefficients.
    pub ridge: f64,
}

impl Default for FitOptions {
    fn default() -> Self {
        Self { ridge: 1e-3 }
    }
}

/// A fitted model and how it was reached.
#[derive(Debug, Clone)]
pub struct Fitted {
    /// The model.
    pub predictor: Predictor,
    /// Its family.
    pub method: Method,
}

/// Learns the co-run throughput of the tasks from measurements.
///
/// Throughputs of zero are left out. The same data gives the same model, to the byte.
pub fn fit(data: &Dataset, method: Method, options: &FitOptions) -> Result<Fitted, PredictError> {
    data.check()?;
    let anchors = Anchor::of_all(data)?;
    let mut rows = vec![Vec::new(); data.tasks.len()];
    for s in &data.samples {
        let tau = features::steps(&anchors, &s.active);
        for (at, (a, &p)) in s.active.iter().zip(&s.throughput).enumerate() {
            if p > 0.0 {
                let y = (p / anchors[a.task].rate(a.batch)).ln();
                rows[a.task].push((features::row(&s.active, &tau, at), y));
            }
        }
    }
    let slowdown = rows.iter().map(|r| Poly::fit(r, options.ridge)).collect();
    Ok(Fitted {
        predictor: Predictor { anchors, slowdown },
        method,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Active, Sample, TaskSpec};
    use units::{Batch, Share};

    fn law(r: f64, other: f64) -> f64 {
        1000.0 * r.powf(0.7) / (1.0 + 0.4 * other)
    }

    fn pair(r0: f64, r1: f64) -> Sample {
        let one = |task, r: f64| Active {
            task,
            batch: Batch::new(64).unwrap(),
            share: Share::from_percent((r * 100.0).round()).unwrap(),
        };
        Sample {
            active: vec![one(0, r0), one(1, r1)],
            throughput: vec![law(r0, r1), 2.0 * law(r1, r0)],
            stderr: None,
        }
    }

    #[test]
    fn learns_a_smooth_law_of_shares() {
        let mut data = Dataset {
            tasks: vec![
                TaskSpec {
                    flops_per_sample: None,
                    bytes_per_sample: None,
                    batches: vec![Batch::new(64).unwrap()],
                };
                2
            ],
            samples: Vec::new(),
        };
        for task in 0..2 {
            data.samples.push(Sample {
                active: vec![Active {
                    task,
                    batch: Batch::new(64).unwrap(),
                    share: Share::FULL,
                }],
                throughput: vec![1000.0 * (task + 1) as f64],
                stderr: None,
            });
        }
        for i in 1..=5 {
            for j in 1..=5 {
                data.samples
                    .push(pair(0.2 * f64::from(i), 0.2 * f64::from(j)));
            }
        }
        let fitted = fit(&data, Method::Poly, &FitOptions::default()).unwrap();
        let s = pair(0.5, 0.7);
        let mut out = [0.0; 2];
        fitted.predictor.means(&s.active, &mut out);
        for (p, t) in out.iter().zip(&s.throughput) {
            assert!((p / t - 1.0).abs() < 0.05, "{p} {t}");
        }
        let solo = fitted.predictor.solo(1, Batch::new(64).unwrap());
        assert!((solo - 2000.0).abs() < 1e-9);
    }
}
