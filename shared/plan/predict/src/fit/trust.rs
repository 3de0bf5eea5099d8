//! Learns the uncertainty of a model's predictions.

use super::account::task_error;
use super::checks::Checks;
use crate::dataset::Dataset;
use crate::domain::Ranges;
use crate::model::{Regressors, overconfidence};
use crate::trust::{PartSpread, Trust};
use crate::validation::{self, Calibration, HeldOut};

/// Standard deviation of the logarithm if nothing was validated.
const UNVALIDATED: f64 = 0.1;

/// The uncertainty of the predictions of every task.
pub(super) fn trust_of_all(
    data: &Dataset,
    tasks: &[Regressors],
    checks: &Checks,
    calibrations: &[Option<Calibration>],
) -> Vec<Trust> {
    let each = tasks.iter().zip(calibrations).enumerate();
    let mut trust: Vec<Trust> = each
        .map(|(i, (parts, calibration))| Trust {
            error_percent: task_error(&checks.left, i, checks.method),
            ..trust_of(data, i, parts, *calibration, checks.few)
        })
        .collect();
    let spreads: Vec<f64> = trust.iter().map(|t| t.spread).collect();
    let scale = |left: &[HeldOut]| validation::scale_of(left, &spreads, checks.method);
    let far = [scale(&checks.levels), scale(&checks.crowd)]
        .into_iter()
        .flatten()
        .reduce(f64::max);
    for t in &mut trust {
        t.far_scale = far;
    }
    trust
}

/// The uncertainty of the predictions of task `i`, without its cross-validated error.
fn trust_of(
    data: &Dataset,
    i: usize,
    parts: &Regressors,
    calibration: Option<Calibration>,
    few: f64,
) -> Trust {
    let gp = parts.gp.as_ref();
    let noise = gp.map_or(UNVALIDATED, |g| g.gp.hyper.noise.sqrt());
    let Ranges { batches, shares } = Ranges::of(data, i);
    Trust {
        spread: calibration.map_or(noise, |c| c.spread),
        interval_scale: calibration
            .map_or_else(|| few * gp.map_or(1.0, overconfidence), |c| c.scale),
        far_scale: None,
        part_spread: PartSpread::default(),
        error_percent: None,
        batches,
        shares,
    }
}
