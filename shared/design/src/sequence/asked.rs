//! The plan that the measurements are for, as the solver would choose it by what is known so far.

use allocation::{Effort, Limits, Options, Problem, solve};
use doc::{Method, ObjectiveKind, Workload};
use predict::{Dataset, FitOptions, fit};

use super::Configuration;

/// Evaluations of the marginal likelihood of a fit, as between two co-runs of the design.
const EVALUATIONS: usize = 15;
/// Choices that the local search looks at between two measurements. Not tuned: few enough that
/// the fit takes the longer.
const POINTS: u64 = 4_000;
/// The same for a round, whose every choice is ordered; not tuned either.
const ROUND_POINTS: u64 = 500;

/// What a plan of a workload is asked to be.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// Tasks, volumes, link and memory.
    pub workload: Workload,
    /// What the plan maximises.
    pub objective: ObjectiveKind,
    /// What it keeps.
    pub limits: Limits,
}

impl Asked {
    /// The best plan of one GPU by a model of the data, anywhere; `None` where nothing can be
    /// learnt yet, or is feasible.
    pub fn best(&self, data: &Dataset, seed: u64) -> Option<Configuration> {
        let options = FitOptions {
            evaluations: EVALUATIONS,
            validate: false,
            trees_everywhere: true,
            start: None,
        };
        // What cannot be fitted or solved yet is left to the design, which says why.
        let model = fit(data, Method::Blend, &options).ok()?.predictor;
        let limits = self.limits.clone();
        let problem = Problem::of_workload(&model, &self.workload, self.objective, limits);
        let points = match self.objective {
            ObjectiveKind::Round => ROUND_POINTS,
            _ => POINTS,
        };
        let options = Options {
            effort: Effort::Local,
            max_points: points,
            starts: 4,
            seed,
            reasons: false,
            ..Options::default()
        };
        let found = solve(&model, &problem, &options).ok()?;
        Some(found.solutions.into_iter().next()?.settings)
    }
}
