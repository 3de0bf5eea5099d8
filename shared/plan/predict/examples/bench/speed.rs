//! Seconds of a fit, microseconds of a prediction.

use std::hint::black_box;
use std::time::Instant;

use predict::{FitOptions, Method, Predictor, fit, fit_by_merit};
use units::corun::Setting;

use crate::mixes::{Failure, MOST_SAMPLES, Mix};
use testkit::bench::Row;

fn median(mut v: Vec<f64>) -> f64 {
    v.sort_by(f64::total_cmp);
    v[v.len() / 2]
}

pub fn rows(mixes: &[Mix]) -> Result<Vec<Row>, Failure> {
    let mix = &mixes[0];
    let data = mix.dataset(0, MOST_SAMPLES);
    let plain = FitOptions {
        validate: false,
        ..FitOptions::default()
    };
    let (mut law, mut gp, mut merit) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..5 {
        for (method, seconds) in [(Method::Structured, &mut law), (Method::Gp, &mut gp)] {
            let t = Instant::now();
            drop(black_box(fit(&data, method, &plain)?));
            seconds.push(t.elapsed().as_secs_f64());
        }
        let t = Instant::now();
        drop(black_box(fit_by_merit(&data, &FitOptions::default())?));
        merit.push(t.elapsed().as_secs_f64());
    }
    let gp = median(gp);
    let asked = |method| fit(&data, method, &plain).map(|f| predictions(mix, &f.predictor));
    let (one_by_law, _) = asked(Method::Structured)?;
    let (one_gp, batched_gp) = asked(Method::Gp)?;
    let (one, batched) = asked(Method::Blend)?;
    let by_law = "the law alone";
    Ok(vec![
        Row::new(
            "predict_fit_gp",
            (gp, "s"),
            (by_law, median(law)),
            "fit of the Gaussian process family, 125 samples x 3 tasks",
        ),
        Row::new(
            "predict_fit_by_merit",
            (median(merit), "s"),
            ("the Gaussian process family alone", gp),
            "fit of all families with cross-validation, intervals and learning curve",
        ),
        Row::new(
            "predict_one",
            (one, "us"),
            (by_law, one_by_law),
            "one co-run of 3 tasks by a blend, the default, of 125 samples",
        ),
        Row::new(
            "predict_batched",
            (batched, "us"),
            ("one by one", one),
            "the same, for each of 100 at once",
        ),
        Row::new(
            "predict_one_gp",
            (one_gp, "us"),
            (by_law, one_by_law),
            "one co-run of 3 tasks by a Gaussian process alone",
        ),
        Row::new(
            "predict_batched_gp",
            (batched_gp, "us"),
            ("one by one", one_gp),
            "the same, for each of 100 at once",
        ),
    ])
}

/// Median microseconds of a co-run, predicted one by one and in runs of 100, which are so short that most are not
/// interrupted.
fn predictions(mix: &Mix, model: &Predictor) -> (f64, f64) {
    let mut out = vec![0.0; mix.tasks.len()];
    let single = (0..300).map(|k| {
        let t = Instant::now();
        model.means(black_box(&mix.held_out[k].active), &mut out);
        black_box(&out);
        t.elapsed().as_secs_f64() * 1e6
    });
    let single = median(single.collect());
    let flat: Vec<Setting> = mix.held_out.iter().flat_map(|m| m.active.clone()).collect();
    let mut all = vec![0.0; flat.len()];
    let width = 100 * mix.tasks.len();
    let mut batched = Vec::new();
    for _ in 0..7 {
        for (a, o) in flat.chunks_exact(width).zip(all.chunks_exact_mut(width)) {
            let t = Instant::now();
            model.means_many(mix.tasks.len(), black_box(a), o);
            black_box(&o);
            batched.push(t.elapsed().as_secs_f64() * 1e6 / 100.0);
        }
    }
    (single, median(batched))
}
