use math::stats;

use crate::features::{Layout, MAX_FEATURES, Scene};
use crate::gp::{Gp, Hyper, Observations, Prior, Priors};
use crate::poly::Poly;
use crate::structured::Law;
use crate::training::Rows;

/// Most points that a Gaussian process keeps.
pub(crate) const MOST_POINTS: usize = 256;

/// `ln(step seconds)` of one task by the parts of its model.
#[derive(Debug, Clone)]
pub(crate) struct TaskModel {
    pub law: Law,
    pub poly: Option<Poly>,
    pub gp: Option<Gp>,
}

/// Learns what the law leaves of `ln step`.
pub(crate) fn fit_gp(rows: &Rows, law: &Law, evaluations: usize) -> Option<Gp> {
    let y: Vec<f64> = rows.meetings.iter().map(|m| law.error(m)).collect();
    let spread = stats::mad_sigma(&y, 0.0)?.max(0.01);
    let priors = Priors {
        inverse_length: Prior {
            mean: -1.0,
            sd: 1.0,
        },
        signal: Prior {
            mean: 2.0 * spread.max(0.03).ln(),
            sd: 1.5,
        },
        noise: Prior {
            mean: 2.0 * 0.015_f64.ln(),
            sd: 1.0,
        },
    };
    let obs = Observations::new(&rows.features, y);
    let hyper = Hyper::most_probable(&obs, &priors, None, evaluations);
    Gp::new(hyper, &obs).ok()
}

impl TaskModel {
    /// `ln(step seconds)` of the task at position `at`.
    pub fn ln_step(&self, scene: &Scene, at: usize, layout: Layout, batch: f64, share: f64) -> f64 {
        let law = self.law.step(batch, share, scene.others(at)).ln();
        let mut x = [0.0; MAX_FEATURES];
        let mut scratch = [0.0; MOST_POINTS];
        let mut y = law;
        if let Some(gp) = &self.gp {
            layout.fill(scene, at, &mut x);
            y += gp.mean(&x[..layout.len()], &mut scratch);
        }
        if let Some(poly) = &self.poly {
            layout.fill(scene, at, &mut x);
            y = scene.step(at).ln() + poly.mean(&x[..layout.len()]);
        }
        y
    }
}
