//! The choice of the family, by cross-validation.

use doc::Method;
use doc::params::Kind;

use super::account::{learning_curve, worst};
use crate::dataset::Dataset;
use crate::error::PredictError;
use crate::pool::Weights;
use crate::report::FitReport;
use crate::validation::{
    self, Calibration, FromFullFit, HeldOut, VERY_SURE, cross_validate, pool_weights, sure_gain,
};

/// A later family is chosen only if its error is smaller by this factor, or if it is significantly better: errors of
/// few configurations differ by chance, and the blend, as a mean of models, has the smaller risk.
const WORTH: f64 = 0.7;
/// Result of cross-validation: the family, and its predictions of held-out data.
pub(crate) struct Checks {
    pub(crate) method: Method,
    /// Weights of the process of all tasks; 0 is the family's own prediction.
    pub(crate) weights: Weights,
    /// Weight of the process of sums.
    pub(crate) sum_weight: f64,
    /// Weight of the extrapolation to more tasks than were measured together.
    pub(crate) line_weight: f64,
    folds: usize,
    /// Error of each family in percent.
    merits: Vec<(Method, f64)>,
    /// Predictions of held-out configurations.
    pub(crate) left: Vec<HeldOut>,
    /// Predictions of held-out share levels.
    pub(super) levels: Vec<HeldOut>,
    /// Predictions of the held-out co-runs with the most tasks.
    pub(super) crowd: Vec<HeldOut>,
    learning: Vec<(usize, f64)>,
    /// Factor on standard deviations if there were too few co-runs to leave any out.
    pub(super) few: f64,
}

impl Checks {
    /// Without validation: the preferred family.
    pub(super) fn none(families: &[Method]) -> Self {
        Self {
            method: choose(families, &[]),
            weights: Weights::default(),
            sum_weight: 0.0,
            line_weight: 0.0,
            folds: 0,
            merits: Vec::new(),
            left: Vec::new(),
            levels: Vec::new(),
            crowd: Vec::new(),
            learning: Vec::new(),
            few: 1.0,
        }
    }

    /// Chooses among `families` by their predictions of held-out configurations.
    pub(super) fn of(
        checked: &Dataset,
        known: &FromFullFit<'_>,
        families: &[Method],
    ) -> Result<Self, PredictError> {
        let (folds, left) = cross_validate(checked, known)?;
        let levels = validation::leave_levels_out(checked, known)?;
        // A spread that is estimated from so few co-runs is itself unreliable.
        let co_runs = checked.samples.iter().filter(|s| s.active.len() > 1);
        let few = match co_runs.count() {
            n @ 1.. if left.is_empty() => validation::few(n),
            _ => 1.0,
        };
        let weights_of = |method: Method| match validation::beside_law(method) {
            true => pool_weights(&left, &levels, method),
            false => Weights::default(),
        };
        let moved_as = |left: &[HeldOut], method: Method, (weights, of_sums): (Weights, f64)| {
            let moved: Vec<HeldOut> = left.iter().map(|l| l.moved(weights)).collect();
            validation::moved_to_sums(&moved, of_sums, method)
        };
        let both_of = |method: Method| {
            let weights = weights_of(method);
            let moved = moved_as(&left, method, (weights, 0.0));
            (weights, validation::sum_weight(&moved, method))
        };
        // Compare the families as they will be used: with the process of all tasks, if the family has one.
        let tried = families.iter().map(|m| {
            let moved = moved_as(&left, *m, both_of(*m));
            let errors = validation::total_errors(checked, &moved, *m);
            (
                *m,
                errors.iter().map(|(_, e)| e.abs()).collect::<Vec<f64>>(),
            )
        });
        let tried: Vec<(Method, Vec<f64>)> = tried.collect();
        let merit = |(m, e): &(Method, Vec<f64>)| Some((*m, validation::trimmed(e.clone())?));
        let merits: Vec<(Method, f64)> = tried.iter().filter_map(merit).collect();
        let method = choose(families, &tried);
        let (weights, sum_weight) = both_of(method);
        let moved = |left: &[HeldOut]| moved_as(left, method, (weights, sum_weight));
        let halves = moved(&validation::leave_out(checked, known, 2)?);
        let left = moved(&left);
        let crowd = validation::leave_crowd_out(checked, known, method, weights, sum_weight)?;
        let line_weight = match validation::beside_law(method) {
            true => validation::line_weight(&crowd, method),
            false => 0.0,
        };
        Ok(Self {
            learning: learning_curve(checked, folds, [&halves, &left], method),
            levels: moved(&levels),
            crowd: crowd.iter().map(|l| l.shifted(line_weight)).collect(),
            line_weight,
            method,
            weights,
            sum_weight,
            folds,
            merits,
            left,
            few,
        })
    }

    /// Interval scale of the process of all tasks from held-out configurations, for when no task or batch size could
    /// be held out.
    pub(super) fn scale_of_pool(&self) -> f64 {
        self.few * validation::scale_of_pool(&self.left, self.method)
    }

    /// The report without the entries for single tasks and for unmeasured configurations.
    pub(super) fn report(
        &self,
        data: &Dataset,
        checked: &Dataset,
        calibrations: &[Option<Calibration>],
    ) -> FitReport {
        let throughputs = data.samples.iter().flat_map(|s| &s.throughput);
        let known = calibrations.iter().flatten();
        let kinds = [
            (Kind::Within, &self.left),
            (Kind::Share, &self.levels),
            (Kind::Crowd, &self.crowd),
        ]
        .map(|(kind, left)| validation::kind_error(kind, left, self.method));
        let (inside, all) = known.fold((0, 0), |(a, b), c| (a + c.inside.0, b + c.inside.1));
        FitReport {
            folds: self.folds,
            families: self.merits.clone(),
            zeros: throughputs.filter(|p| **p <= 0.0).count(),
            learning: self.learning.clone(),
            kinds: kinds.into_iter().flatten().collect(),
            worst: worst(checked, data, &self.left, self.method),
            coverage_90: (all > 0).then(|| inside as f64 / all as f64),
            ..FitReport::default()
        }
    }
}

/// The best family by the errors of held-out co-runs; a later one only if it is clearly better.
fn choose(families: &[Method], tried: &[(Method, Vec<f64>)]) -> Method {
    let fallback = if families.contains(&Method::Gp) {
        Method::Gp
    } else {
        families[0]
    };
    let mut best: Option<(Method, f64, &[f64])> = None;
    for (method, errors) in tried {
        let Some(error) = validation::trimmed(errors.clone()) else {
            continue;
        };
        let better = |(_, least, by_best): (Method, f64, &[f64])| {
            error < WORTH * least || sure_gain(errors, by_best, VERY_SURE).is_some()
        };
        if best.is_none_or(better) {
            best = Some((*method, error, errors));
        }
    }
    best.map_or(fallback, |(method, ..)| method)
}
