//! A Gaussian process that has learnt a case from few samples.

use doc::Method;
use predict::{Dataset, FitOptions, Predictor, Sample, TaskSpec, fit};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use units::Share;
use units::corun::{Setting, Throughput};

use crate::problems::Case;
use crate::rows::BenchError;

/// Co-runs measured, as many as in the paper.
const CO_RUNS: usize = 125;

/// Learns from every task alone at each batch size, and from random co-runs of all tasks.
pub fn learn(case: &Case) -> Result<Predictor, BenchError> {
    let tasks = &case.problem.tasks;
    let mut rng = StdRng::seed_from_u64(125);
    let mut samples = Vec::new();
    let mut add = |active: Vec<Setting>| {
        let mut throughput = vec![0.0; active.len()];
        if let [a] = active[..] {
            throughput[0] = case.law.solo(a.task, a.batch);
        } else {
            case.law.means(&active, &mut throughput);
        }
        samples.push(Sample {
            throughput,
            active,
            stderr: None,
        });
    };
    for (task, t) in tasks.iter().enumerate() {
        for &batch in &t.batches {
            add(vec![Setting {
                task,
                batch,
                share: Share::FULL,
            }]);
        }
    }
    for _ in 0..CO_RUNS {
        let each = tasks.iter().enumerate().map(|(task, t)| {
            Ok(Setting {
                task,
                batch: t.batches[rng.random_range(0..t.batches.len())],
                share: Share::from_percent(10.0 * f64::from(rng.random_range(1..=10)))?,
            })
        });
        add(each.collect::<Result<_, units::UnitError>>()?);
    }
    let tasks = tasks
        .iter()
        .map(|t| TaskSpec {
            flops_per_sample: None,
            bytes_per_sample: None,
            batches: t.batches.clone(),
            copy_of: None,
        })
        .collect();
    let options = FitOptions {
        validate: false,
        ..FitOptions::default()
    };
    Ok(fit(&Dataset { tasks, samples }, Method::Gp, &options)?.predictor)
}
