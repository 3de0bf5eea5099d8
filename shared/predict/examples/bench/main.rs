//! Measures the predictor on simulated profiles.
#![expect(clippy::print_stdout, reason = "its output is the figures")]

mod mixes;

use std::path::Path;

use mixes::{Failure, Mix};
use predict::{FitOptions, Method, Predictor, fit};

struct Score {
    mape: f64,
    completion: f64,
    task_mape: f64,
}

fn score(mix: &Mix, model: &Predictor) -> Score {
    let (mut sum, mut task_sum) = (0.0, 0.0);
    let (mut best, mut chosen, mut top) = (0.0_f64, 0.0, 0.0);
    let mut out = vec![0.0; mix.tasks.len()];
    for m in &mix.held_out {
        model.means(&m.active, &mut out);
        let (p, t): (f64, f64) = (out.iter().sum(), m.truth.iter().sum());
        sum += (p / t - 1.0).abs();
        task_sum += out
            .iter()
            .zip(&m.truth)
            .map(|(p, t)| (p / t - 1.0).abs())
            .sum::<f64>()
            / out.len() as f64;
        best = best.max(t);
        if p > top {
            (top, chosen) = (p, t);
        }
    }
    let n = mix.held_out.len() as f64;
    Score {
        mape: 100.0 * sum / n,
        task_mape: 100.0 * task_sum / n,
        completion: chosen / best,
    }
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().collect();
    let folder = arguments.get(1).map(Path::new);
    let t = std::time::Instant::now();
    let mixes = mixes::all(folder)?;
    println!("data {:.1} s", t.elapsed().as_secs_f64());
    for n in [20, 40, 125] {
        for method in [Method::Structured, Method::Poly, Method::Gp] {
            let mut line = String::new();
            let (mut all, mut completion, mut task) = (0.0, 0.0, 0.0);
            let mut seconds = 0.0;
            for mix in &mixes {
                let mut sum = 0.0;
                for seed in 0..mixes::SEEDS as usize {
                    let data = mix.dataset(seed, n);
                    let t = std::time::Instant::now();
                    let fitted = fit(&data, method, &FitOptions::default())?;
                    seconds += t.elapsed().as_secs_f64();
                    let s = score(mix, &fitted.predictor);
                    sum += s.mape / mixes::SEEDS as f64;
                    completion += s.completion;
                    task += s.task_mape;
                }
                all += sum;
                line += &format!(" {:.2}", sum);
            }
            let k = mixes.len() as f64;
            println!(
                "{n:4} {method:?}: {:.2} task {:.2} completion {:.4} fit {:.1} ms [{line} ]",
                all / k,
                task / k / mixes::SEEDS as f64,
                completion / k / mixes::SEEDS as f64,
                1e3 * seconds / k / mixes::SEEDS as f64,
            );
        }
    }
    Ok(())
}
