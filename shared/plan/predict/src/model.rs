use doc::Method;
use math::stats;

use crate::base::Base;
use crate::features::{CorunInputs, Layout, MAX_FEATURES, OTHERS};
use crate::gp::{Gp, Groups, Hyper, MOST_POINTS, Observations, Prior, Priors, sparse};
use crate::rows::Rows;
use crate::trees::Trees;

/// Maximum number of measurements for learning hyper-parameters.
pub(crate) const MOST_FOR_HYPER: usize = 160;

/// A measurement whose residual exceeds this many robust standard deviations is treated as wrong.
const WRONG: f64 = 5.0;

/// Regressions of one task in addition to its law.
#[derive(Debug, Clone, Default)]
pub(crate) struct Regressors {
    pub gp: Option<GpPart>,
    /// On the residual of the law.
    pub trees: Option<Trees>,
    /// On the slow-down relative to the solo run, which does not depend on the law and its errors. Used only for
    /// co-runs of the largest measured number of tasks, because trees do not generalise to smaller co-runs.
    pub solo_trees: Option<Trees>,
}

/// A Gaussian process with the origin of its points.
#[derive(Debug, Clone)]
pub(crate) struct GpPart {
    pub gp: Gp,
    /// Index of each point: among the task's rows during the fit, among the points of the model afterwards.
    pub points: Vec<usize>,
    /// Position of the task in the configuration of each point, after the fit.
    pub places: Vec<usize>,
    pub noise_factor: Vec<f64>,
}

/// `ln(step seconds)` of one task by each part of its model.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LnSteps {
    pub law: f64,
    pub gp: Option<f64>,
    pub trees: Option<f64>,
    pub solo_trees: Option<f64>,
    /// Variance of the Gaussian process, if requested.
    pub variance: f64,
}

impl LnSteps {
    /// The prediction of a family; the law replaces missing parts.
    pub(crate) fn of(&self, method: Method) -> f64 {
        let gp = self.gp.unwrap_or(self.law);
        match method {
            Method::Structured => self.law,
            Method::Gp => gp,
            Method::Blend => match (self.trees, self.solo_trees) {
                (Some(trees), Some(more)) => (gp + trees + more) / 3.0,
                (Some(trees), None) => 0.5 * (gp + trees),
                (None, _) => gp,
            },
        }
    }
}

impl Regressors {
    /// Predictions of every part for the task at position `at` of a co-run.
    pub fn answer(
        &self,
        base: &Base,
        inputs: &CorunInputs,
        at: usize,
        task: usize,
        with_variance: bool,
    ) -> LnSteps {
        let law = inputs.by_law(at, &base.laws[task]).ln();
        let mut x = [0.0; MAX_FEATURES];
        if self.gp.is_some() || self.trees.is_some() || self.solo_trees.is_some() {
            base.layout.fill(inputs, at, &mut x);
        }
        let mut variance = 0.0;
        let gp = self.gp.as_ref().map(|g| {
            let mut scaled = x;
            g.gp.scale(&mut scaled);
            if with_variance {
                let (mean, v) = g.gp.mean_variance(&scaled);
                variance = v;
                law + mean
            } else {
                law + g.gp.mean(&scaled)
            }
        });
        let x = &x[..base.layout.len()];
        let trees = self.trees.as_ref().filter(|_| inputs.has_levels);
        let all = inputs.has_levels && inputs.len == base.most_together;
        let solo_trees = self.solo_trees.as_ref().filter(|_| all);
        LnSteps {
            solo_trees: solo_trees.map(|t| inputs.ln_alone[at] + t.mean(x)),
            trees: trees.map(|t| law + t.mean(x)),
            law,
            gp,
            variance,
        }
    }
}

/// Trees on the residual of `ln step` from the law, and on the slow-down, without the measurements that `wrong`
/// marks.
pub(crate) fn fit_trees(
    rows: &Rows,
    layout: Layout,
    wrong: Option<&[f64]>,
) -> Option<(Trees, Trees)> {
    let y = residual(rows);
    let mut weight: Vec<f64> = match wrong.filter(|w| w.len() == y.len()) {
        Some(w) => w.iter().map(|f| f64::from(u8::from(*f <= 1.0))).collect(),
        None => {
            let spread = stats::mad_sigma(&y, 0.0)?.max(0.01);
            let sound = |y: &f64| f64::from(u8::from(factor(*y, spread) <= 1.0));
            y.iter().map(sound).collect()
        }
    };
    // The slow-down of a solo run is 0, so trees would only learn to split solo runs off.
    for (w, x) in weight.iter_mut().zip(&rows.features) {
        *w *= x[OTHERS].min(1.0);
    }
    let targets = [y.as_slice(), &slow_down(rows)];
    Trees::fit(&rows.features, &layout.plain(), targets, &weight).map(Into::into)
}

/// Slow-down of each row: `ln step` minus `ln` of the solo step.
fn slow_down(rows: &Rows) -> Vec<f64> {
    let pairs = rows.ln_step.iter().zip(&rows.ln_solo);
    pairs.map(|(a, b)| a - b).collect()
}

/// Residual of each row: `ln step` minus that of the law.
fn residual(rows: &Rows) -> Vec<f64> {
    let pairs = rows.ln_step.iter().zip(&rows.ln_law);
    pairs.map(|(a, b)| a - b).collect()
}

/// Noise factor of a residual: 1 within [`WRONG`] deviations; beyond, 100 times the square of the excess
/// `|residual| / (WRONG * sigma)`.
pub(crate) fn factor(residual: f64, sigma: f64) -> f64 {
    let z = residual.abs() / (WRONG * sigma);
    if z > 1.0 { 100.0 * z * z } else { 1.0 }
}

/// Learns the residuals of the law, including hyper-parameters.
///
/// Wrong measurements are found by their leave-one-out residuals and get little weight; then the search runs again
/// without them.
pub(crate) fn learn_gp(rows: &Rows, evaluations: usize) -> Option<GpPart> {
    let y = residual(rows);
    let spread = stats::mad_sigma(&y, 0.0)?.max(0.01);
    let mut obs = Observations::new(&rows.features, y);
    // Before anything is learnt, reject only absurd values: others may merely be unexpected.
    for (f, y) in obs.noise_factor.iter_mut().zip(&obs.y) {
        *f = factor(*y, (2.0 * spread).max(0.08));
    }
    let priors = priors(rows, spread);
    let some = stats::evenly(obs.len(), MOST_FOR_HYPER);
    let mut part = obs.subset(&some);
    let mut hyper = Hyper::most_probable(&part, &priors, None, evaluations);
    for _ in 0..2 {
        let Some(changed) = mark_wrong(&mut part, &hyper) else {
            break;
        };
        if !changed {
            break;
        }
        hyper = Hyper::most_probable(&part, &priors, Some(&hyper), evaluations / 2);
    }
    condition(rows, hyper, None)
}

/// Like [`learn_gp`], for the process of all tasks, with the kernel of two groups of features.
pub(crate) fn learn_groups(rows: &Rows, layout: Layout) -> Option<GpPart> {
    let y = residual(rows);
    let spread = stats::mad_sigma(&y, 0.0)?.max(0.01);
    let identity = layout.identity();
    let groups = Groups {
        own: layout.groups().0,
        identity: &identity,
    };
    let mut obs = Observations::new(&rows.features, y);
    for (f, y) in obs.noise_factor.iter_mut().zip(&obs.y) {
        *f = factor(*y, (2.0 * spread).max(0.08));
    }
    let mut part = obs.subset(&stats::evenly(obs.len(), MOST_FOR_HYPER));
    let mut hyper = Hyper::of_groups(&part, groups);
    if mark_wrong(&mut part, &hyper)? {
        hyper = Hyper::of_groups(&part, groups);
    }
    condition(rows, hyper, None)
}

fn priors(rows: &Rows, spread: f64) -> Priors {
    let known: Vec<f64> = rows.error.iter().flatten().copied().collect();
    let noise = stats::median(&known).unwrap_or(0.015).clamp(0.003, 0.1);
    Priors {
        inverse_length: Prior {
            mean: -1.0,
            sd: 2.0,
        },
        signal: Prior {
            mean: 2.0 * spread.max(0.03).ln(),
            sd: 1.5,
        },
        noise: Prior {
            mean: 2.0 * noise.ln(),
            sd: 1.0,
        },
    }
}

/// Sets the noise factors by leave-one-out residuals; returns whether any changed.
fn mark_wrong(obs: &mut Observations, hyper: &Hyper) -> Option<bool> {
    let left_out = Gp::new(hyper.clone(), obs).ok()?.leave_one_out();
    mark(&mut obs.noise_factor, &left_out, hyper.noise)
}

/// Like [`mark_wrong`], from given leave-one-out residuals and variances.
pub(crate) fn mark(factors: &mut [f64], left_out: &[(f64, f64)], noise: f64) -> Option<bool> {
    let residuals: Vec<f64> = left_out.iter().map(|(r, _)| *r).collect();
    let sigma = stats::mad_sigma(&residuals, 0.0)?.max(noise.sqrt().min(0.05));
    let mut changed = false;
    for (f, (r, v)) in factors.iter_mut().zip(left_out) {
        // If the process itself is uncertain, a large residual is no evidence of a wrong measurement.
        let unsure = (v - noise * *f).max(0.0).sqrt();
        let next = factor(*r, sigma.max(unsure));
        changed |= (next > 1.0) != (*f > 1.0);
        *f = next;
    }
    Some(changed)
}

/// The process conditioned on all rows, with known hyper-parameters; `None` without rows. `wrong` are the noise
/// factors, if known.
pub(crate) fn condition(rows: &Rows, hyper: Hyper, wrong: Option<&[f64]>) -> Option<GpPart> {
    // Without rows, all co-runs of this task were left out.
    if rows.len() == 0 {
        return None;
    }
    let mut obs = Observations::new(&rows.features, residual(rows));
    match wrong {
        Some(w) => obs.noise_factor.copy_from_slice(w),
        None if obs.len() <= 2 * MOST_POINTS => {
            mark_wrong(&mut obs, &hyper)?;
        }
        None => {
            let spread = stats::mad_sigma(&obs.y, 0.0)?.max(0.01);
            for (f, y) in obs.noise_factor.iter_mut().zip(&obs.y) {
                *f = factor(*y, spread);
            }
        }
    }
    if obs.len() <= MOST_POINTS {
        return Some(GpPart {
            gp: Gp::new(hyper, &obs).ok()?,
            points: (0..obs.len()).collect(),
            places: Vec::new(),
            noise_factor: obs.noise_factor,
        });
    }
    let (gp, points, noise_factor) = sparse(hyper, &obs, MOST_POINTS)?;
    Some(GpPart {
        gp,
        points,
        places: Vec::new(),
        noise_factor,
    })
}

/// Root mean square of leave-one-out residuals over their standard deviations, without wrong points; at least 1.
pub(crate) fn overconfidence(part: &GpPart) -> f64 {
    let left_out = part.gp.leave_one_out();
    let sound = left_out
        .iter()
        .zip(&part.noise_factor)
        .filter(|(_, f)| **f <= 1.0);
    let z: Vec<f64> = sound.map(|((r, v), _)| r * r / v).collect();
    stats::mean(&z).map_or(1.0, |m| m.sqrt().max(1.0))
}
