//! Accuracy per sample, and the quality of the configuration that a model chooses.

use predict::{FitOptions, Method, Predictor, fit, fit_by_merit};

use crate::mixes::{Failure, Mix, SEEDS};
use testkit::bench::Row;

#[derive(Default, Clone, Copy)]
pub struct Score {
    /// Mean absolute error of the total, percent.
    pub mape: f64,
    /// True total of the chosen held-out configuration relative to the best.
    pub completion: f64,
}

pub fn score(mix: &Mix, model: &Predictor) -> Score {
    let (mut sum, mut best, mut chosen, mut top) = (0.0, 0.0_f64, 0.0, 0.0);
    let mut out = vec![0.0; mix.tasks.len()];
    for m in &mix.held_out {
        model.means(&m.active, &mut out);
        let (p, t): (f64, f64) = (out.iter().sum(), m.truth.iter().sum());
        sum += (p / t - 1.0).abs();
        best = best.max(t);
        if p > top {
            (top, chosen) = (p, t);
        }
    }
    Score {
        mape: 100.0 * sum / mix.held_out.len() as f64,
        completion: chosen / best,
    }
}

/// Mean over mixes and seeds; `None`: by merit.
fn mean(mixes: &[Mix], n: usize, method: Option<Method>) -> Result<Score, Failure> {
    let mut all = Score::default();
    let runs = (mixes.len() * SEEDS as usize) as f64;
    for mix in mixes {
        for seed in 0..SEEDS as usize {
            let data = mix.dataset(seed, n);
            let fitted = match method {
                Some(method) => {
                    let options = FitOptions {
                        validate: false,
                        ..FitOptions::default()
                    };
                    fit(&data, method, &options)?
                }
                None => fit_by_merit(&data, &FitOptions::default())?,
            };
            let s = score(mix, &fitted.predictor);
            all.mape += s.mape / runs;
            all.completion += s.completion / runs;
        }
    }
    Ok(all)
}

pub fn rows(mixes: &[Mix]) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for n in [20, 40, 125] {
        let ours = mean(mixes, n, None)?;
        let others = [
            ("gp", mean(mixes, n, Some(Method::Gp))?),
            ("blend", mean(mixes, n, Some(Method::Blend))?),
        ];
        let law = mean(mixes, n, Some(Method::Structured))?;
        let what = |text: &str| {
            format!(
                "{text} with {n} samples and the solos; mean of 4 simulated mixes x {SEEDS} seeds, \
                 {} held-out configurations",
                mixes.first().map_or(0, |m| m.held_out.len())
            )
        };
        let mut push = |name: String, value: f64, unit, baseline_value: f64, text: &str| {
            let baseline = ("the law alone", baseline_value);
            rows.push(Row::new(name, (value, unit), baseline, what(text)));
        };
        let error = "mean absolute error of the total throughput";
        let choice = "true total of the configuration chosen, of the best";
        push(
            format!("predict_mape_{n}"),
            ours.mape,
            "percent",
            law.mape,
            error,
        );
        push(
            format!("predict_completion_{n}"),
            ours.completion,
            "of best",
            law.completion,
            choice,
        );
        for (name, s) in others {
            push(
                format!("predict_mape_{n}_{name}"),
                s.mape,
                "percent",
                law.mape,
                error,
            );
            let name = format!("predict_completion_{n}_{name}");
            push(name, s.completion, "of best", law.completion, choice);
        }
    }
    Ok(rows)
}
