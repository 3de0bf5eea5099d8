//! The report of a fit.

use doc::Method;

use crate::base::Base;
use crate::dataset::Dataset;
use crate::gp::Observations;
use crate::model::Regressors;
use crate::report::{TaskReport, Worst};
use crate::rows::Rows;
use crate::validation::{self, HeldOut, total_error_percent, trimmed};

/// Number of worst configurations in the report.
const MOST_WORST: usize = 5;

/// Learning curve: error with half of the configurations, and with all but one fold; `left` are the
/// held-out predictions of both.
pub(super) fn learning_curve(
    data: &Dataset,
    folds: usize,
    left: [&[HeldOut]; 2],
    method: Method,
) -> Vec<(usize, f64)> {
    let n = data.samples.iter().filter(|s| s.active.len() > 1).count();
    let counts = [n / 2, n - n / folds.max(1)];
    let error = |left: &[HeldOut]| total_error_percent(data, left, method);
    let point = |(count, left): (usize, &[HeldOut])| Some((count, error(left)?));
    counts.into_iter().zip(left).filter_map(point).collect()
}

pub(super) fn worst(
    checked: &Dataset,
    data: &Dataset,
    left: &[HeldOut],
    method: Method,
) -> Vec<Worst> {
    let mut errors = validation::total_errors(checked, left, method);
    errors.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()));
    errors
        .iter()
        .take(MOST_WORST)
        .filter_map(|(k, e)| {
            let s = &checked.samples[*k];
            Some(Worst {
                sample: data.samples.iter().position(|d| d == s)?,
                error_percent: 100.0 * e,
            })
        })
        .collect()
}

pub(super) fn task_error(left: &[HeldOut], task: usize, method: Method) -> Option<f64> {
    let own = left.iter().filter(|l| l.task == task);
    trimmed(
        own.map(|l| ((l.ln_step - l.predicted(method)).exp() - 1.0).abs())
            .collect(),
    )
}

pub(super) fn task_report(
    base: &Base,
    rows: &Rows,
    parts: &Regressors,
    task: usize,
    throughputs: usize,
    error_percent: Option<f64>,
) -> TaskReport {
    let law = &base.laws[task];
    let copies = base.layout.copies;
    let others = (0..law.slowdown.len()).filter(|j| copies || *j != task);
    let most = others
        .map(|j| (j, law.slowdown[j]))
        .max_by(|a, b| a.1.total_cmp(&b.1));
    let mut drivers = Vec::new();
    let mut rejected = Vec::new();
    if let Some(g) = &parts.gp {
        let spread = Observations::new(&rows.features, vec![0.0; rows.len()]).spreads();
        for (k, driver) in base.layout.drivers(task).into_iter().enumerate() {
            drivers.push((driver, spread[k] * g.gp.hyper.inverse_length[k]));
        }
        drivers.sort_by(|a, b| b.1.total_cmp(&a.1));
        if g.points.len() == rows.len() {
            let wrong = g
                .noise_factor
                .iter()
                .zip(&rows.sample)
                .filter(|(f, _)| **f > 1.0);
            rejected = wrong.map(|(_, s)| *s).collect();
        }
    }
    TaskReport {
        rows: throughputs,
        error_percent,
        host_ms: 1e3 * law.pace.fixed,
        device_us_per_sample: 1e6 * law.pace.per_sample,
        bend_percent: (100.0 * law.pace.bend).min(100.0),
        slowed_most_by: most,
        drivers,
        rejected,
    }
}

/// Number of throughputs above 0 of each task.
pub(super) fn throughputs(data: &Dataset) -> Vec<usize> {
    let mut used = vec![0; data.tasks.len()];
    for s in &data.samples {
        for (a, p) in s.active.iter().zip(&s.throughput) {
            used[a.task] += usize::from(*p > 0.0);
        }
    }
    used
}
