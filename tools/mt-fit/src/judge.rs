//! How well a model predicts measurements that it has not seen.

use cli::Failure;
use doc::Profile;
use math::stats::{mean, median};
use predict::{Dataset, Predictor};

/// Half the width of a 90 % interval, in standard errors.
const HALF_WIDTH: f64 = 1.645;

/// What another profile of the same tasks says of the model, for people.
pub fn text(model: &Predictor, own: &Profile, other: &Profile) -> Result<String, Failure> {
    let ids = |p: &Profile| -> Vec<String> {
        let tasks = p.header.workload.tasks.iter();
        tasks.map(|t| t.id.to_string()).collect()
    };
    if ids(own) != ids(other) {
        return Err(Failure::Input(format!(
            "--test: the profile is of the tasks {}, the model of {}; give one of the same tasks \
             in the same order",
            ids(other).join(", "),
            ids(own).join(", ")
        )));
    }
    let (mut each, mut totals, mut inside) = (Vec::new(), Vec::new(), 0);
    for s in Dataset::from_profile(other).samples {
        let predicted = model.predict(&s.active);
        let pairs = predicted.iter().zip(&s.throughput);
        for (p, m) in pairs.filter(|(_, m)| **m > 0.0) {
            each.push(100.0 * (p.samples_per_s / m - 1.0).abs());
            inside += usize::from((p.samples_per_s - m).abs() <= HALF_WIDTH * p.std_error);
        }
        if s.throughput.iter().all(|m| *m > 0.0) {
            let total: f64 = predicted.iter().map(|p| p.samples_per_s).sum();
            totals.push(100.0 * (total / s.throughput.iter().sum::<f64>() - 1.0).abs());
        }
    }
    let (Some(average), Some(middle)) = (mean(&each), median(&each)) else {
        return Err(Failure::Input(
            "--test: the profile has no throughput above 0; give one in which something ran"
                .to_owned(),
        ));
    };
    let total = mean(&totals).map_or_else(String::new, |t| format!(", {t:.2} % of the total"));
    Ok(format!(
        "test: {} throughputs, error {average:.2} % in the mean, {middle:.2} % in the median{total}; \
         90 % intervals hold {:.0} %",
        each.len(),
        100.0 * inside as f64 / each.len() as f64
    ))
}
