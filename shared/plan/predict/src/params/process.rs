//! Reads and writes a Gaussian process in a document.

use doc::params as written;
use units::corun::Setting;

use super::{bad, length, numbers};
use crate::base::Base;
use crate::error::PredictError;
use crate::features::CorunInputs;
use crate::gp::{Gp, Hyper, MOST_POINTS, Observations, TwoGroups};
use crate::model::GpPart;

/// Task of each point of a process, by its position in the workload.
pub(super) fn tasks_of(g: &GpPart, points: &[Vec<Setting>]) -> Vec<u32> {
    let places = g.points.iter().zip(&g.places);
    places.map(|(k, at)| points[*k][*at].task as u32).collect()
}

pub(super) fn write_process(g: &GpPart) -> written::GpParams {
    written::GpParams {
        inverse_length: g.gp.hyper.inverse_length.clone(),
        signal: g.gp.hyper.signal,
        noise: g.gp.hyper.noise,
        own_features: g.gp.hyper.groups.map(|g| g.own as u32),
        matern: g.gp.hyper.groups.map(|g| g.matern).unwrap_or_default(),
        points: g.points.iter().map(|k| *k as u32).collect(),
        tasks: Vec::new(),
        weights: g.gp.alpha.clone(),
        noise_factor: g.noise_factor.clone(),
    }
}

/// Reads a process. Each point is a task of `tasks` in a configuration; `row` returns its features.
pub(super) fn process(
    g: &written::GpParams,
    tasks: &[usize],
    base: &Base,
    points: &[Vec<Setting>],
    path: &str,
    row: impl Fn(&CorunInputs, usize) -> Vec<f64>,
) -> Result<GpPart, PredictError> {
    let n = g.points.len();
    length(path, tasks.len(), n)?;
    length(path, g.weights.len(), n)?;
    length(path, g.noise_factor.len(), n)?;
    if n == 0 || n > MOST_POINTS {
        return Err(bad(
            path,
            format!("{n} points, 1 to {MOST_POINTS} are possible"),
        ));
    }
    numbers(path, &g.inverse_length, true)?;
    numbers(path, &[g.signal, g.noise], true)?;
    numbers(path, &g.weights, false)?;
    numbers(path, &g.noise_factor, true)?;
    if g.matern != written::Matern::default() && g.own_features.is_none() {
        let problem = "3/2 without own_features";
        return Err(bad(format!("{path}.matern"), problem));
    }
    let mut rows = Vec::with_capacity(n);
    let mut places = Vec::with_capacity(n);
    for (k, task) in g.points.iter().zip(tasks) {
        let Some(active) = points.get(*k as usize) else {
            return Err(bad(path, format!("point {k} of {}", points.len())));
        };
        let Some(at) = active.iter().position(|a| a.task == *task) else {
            return Err(bad(path, format!("the task is not part of point {k}")));
        };
        let inputs = base.inputs(active);
        rows.push(row(&inputs, at));
        places.push(at);
    }
    length(path, g.inverse_length.len(), rows[0].len())?;
    if let Some(own) = g.own_features.filter(|own| *own as usize > rows[0].len()) {
        let problem = format!("{own} features of the task itself among {}", rows[0].len());
        return Err(bad(format!("{path}.own_features"), problem));
    }
    let mut obs = Observations::new(&rows, vec![0.0; n]);
    obs.noise_factor.copy_from_slice(&g.noise_factor);
    let hyper = Hyper {
        inverse_length: g.inverse_length.clone(),
        signal: g.signal,
        noise: g.noise,
        groups: g.own_features.map(|own| TwoGroups {
            own: own as usize,
            matern: g.matern,
        }),
    };
    let gp =
        Gp::with_weights(hyper, &obs, g.weights.clone()).map_err(|e| bad(path, e.to_string()))?;
    Ok(GpPart {
        gp,
        points: g.points.iter().map(|k| *k as usize).collect(),
        places,
        noise_factor: g.noise_factor.clone(),
    })
}
