//! Tells users how well a model predicts measurements that it has not seen.

use cli::Failure;
use doc::Profile;
use predict::{Dataset, Predictor};

/// The model's error on another profile of the same tasks.
pub fn text(model: &Predictor, own: &Profile, other: &Profile) -> Result<String, Failure> {
    let ids = |p: &Profile| -> Vec<String> {
        let tasks = p.header.workload.tasks.iter();
        tasks.map(|t| t.id.to_string()).collect()
    };
    if ids(own) != ids(other) {
        return Err(Failure::Input(format!(
            "--test: the profile has the tasks {}, the model {}; give one of the same tasks in the same order",
            ids(other).join(", "),
            ids(own).join(", ")
        )));
    }
    let Some(accuracy) = model.accuracy(&Dataset::from_profile(other)) else {
        return Err(Failure::Input(
            "--test: the profile has no throughput above 0; give one in which something ran"
                .to_owned(),
        ));
    };
    let of_total = |t: f64| format!(", {t:.2} % of the total");
    Ok(format!(
        "test: {} throughputs, mean error {:.2} %, median error {:.2} %{}; 90 % intervals hold {:.0} %",
        accuracy.throughputs,
        accuracy.mean_percent,
        accuracy.median_percent,
        accuracy.total_percent.map_or_else(String::new, of_total),
        100.0 * accuracy.coverage_90
    ))
}
