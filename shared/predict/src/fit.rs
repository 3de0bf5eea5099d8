use crate::anchor::Anchor;
use crate::dataset::Dataset;
use crate::error::PredictError;
use crate::features::Layout;
use crate::model::{TaskModel, fit_gp};
use crate::poly::Poly;
use crate::predictor::Predictor;
use crate::structured::Law;
use crate::training::Rows;

/// Family of models.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Method {
    /// The structured law alone.
    Structured,
    /// Second-order polynomial of the features, ridge regression.
    Poly,
    /// The structured law and a Gaussian process on what it leaves.
    #[default]
    Gp,
}

/// Settings of a fit.
#[derive(Debug, Clone, PartialEq)]
pub struct FitOptions {
    /// Penalty on the coefficients of the polynomial.
    pub ridge: f64,
    /// Most evaluations of the marginal likelihood of one task.
    pub evaluations: usize,
}

impl Default for FitOptions {
    fn default() -> Self {
        Self {
            ridge: 0.1,
            evaluations: 30,
        }
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
    let layout = Layout {
        tasks: data.tasks.len(),
    };
    let rows = Rows::of_all(data, &anchors, layout);
    let tasks = rows
        .iter()
        .map(|r| task_model(r, method, options, data.tasks.len()))
        .collect();
    Ok(Fitted {
        predictor: Predictor {
            anchors,
            layout,
            tasks,
        },
        method,
    })
}

fn task_model(
    rows: &Rows,
    method: Method,
    options: &FitOptions,
    tasks: usize,
) -> Option<TaskModel> {
    if rows.len() == 0 {
        return None;
    }
    let law = Law::fit(&rows.meetings, tasks);
    let gp = match method {
        Method::Gp => fit_gp(rows, &law, options.evaluations),
        _ => None,
    };
    let poly = match method {
        Method::Poly => {
            let y: Vec<f64> = rows
                .ln_step
                .iter()
                .zip(&rows.ln_solo)
                .map(|(a, b)| a - b)
                .collect();
            Poly::fit(&rows.features, &y, &vec![1.0; y.len()], options.ridge)
        }
        _ => None,
    };
    Some(TaskModel { law, poly, gp })
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
        let fitted = fit(&data, Method::Gp, &FitOptions::default()).unwrap();
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
