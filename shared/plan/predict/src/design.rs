//! Sequential design: chooses the configuration to measure next. It measures the solo runs, then a few co-runs
//! spread over the promising region, then alternately the co-run with the highest expected improvement of the
//! objective and the model's best, with a refit after every measurement.
//!
//! The model is the blend that profiles are also fitted with. A Gaussian process alone does not model the steps
//! caused by rounding shares to whole processors: it treats ridges as noise and searches in the wrong place. The
//! model's best is also measured, because the maximum of many predictions tends to be an overestimate.
//!
//! Expected improvement (Jones, Schonlau and Welch 1998, equation 15): `EI = s (z Phi(z) + phi(z))`,
//! `z = (m - best) / s`. `m` and `s` are the predicted objective and its standard deviation, and `best` is the
//! model's value of the best measured configuration. If there is a floor, `EI` is multiplied by the probability that
//! every task keeps it (Gardner et al. 2014, *Bayesian optimization with inequality constraints*, equation 2).

mod climb;
mod goal;
mod memory;
mod space;
mod spread;

pub use goal::{Goal, expected_above};
pub use space::{Design, coruns_per_fit, fit_so_far};

use std::collections::HashSet;

use math::in_parallel;
use rand::SeedableRng;
use rand::rngs::StdRng;
use units::Share;
use units::corun::Setting;

use crate::dataset::{Dataset, Sample};
use crate::error::PredictError;
use crate::predictor::Predictor;

/// Why a configuration is worth measuring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// The solo rate is missing.
    Solo,
    /// To explore the promising part of the space.
    Spread,
    /// It may be better than the best so far.
    Improve,
}

/// What to do next.
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub enum Step {
    /// Measure this.
    Measure {
        /// The configuration.
        active: Vec<Setting>,
        /// Further configurations that the same model suggests, best first: at most [`coruns_per_fit`] minus one.
        more: Vec<Vec<Setting>>,
        /// Why.
        why: Why,
        /// State of the design; absent before the first fit.
        state: Option<DesignState>,
    },
    /// No remaining configuration is worth measuring.
    Stop(DesignState),
}

/// State of a sequential design.
#[derive(Debug, Clone, PartialEq)]
pub struct DesignState {
    /// The best configuration according to the model.
    pub best: Vec<Setting>,
    /// Its predicted value. If it violates the floor, the value is minus the amount by which it does.
    pub value: f64,
    /// Expected improvement of the next measurement, as a fraction of the best measured value; 1 if no measured
    /// configuration keeps the floor.
    pub expected_gain: f64,
}

/// Number of spread co-runs before expected improvement.
pub const STARTS: usize = 6;

/// Number of candidates, best by mean, for which the uncertainty is computed.
const SHORTLIST: usize = 160;
impl Design<'_> {
    /// What to measure next, given all measurements so far, in any order. The result is deterministic.
    ///
    /// # Errors
    /// [`PredictError`] if nothing can be learnt from the data.
    pub fn next(&self, data: &Dataset) -> Result<Step, PredictError> {
        if let Some(active) = self.missing_solo(data) {
            return Ok(Step::Measure {
                active,
                more: Vec::new(),
                why: Why::Solo,
                state: None,
            });
        }
        let together: Vec<&Sample> = data.samples.iter().filter(|s| s.active.len() > 1).collect();
        let mut rng = StdRng::seed_from_u64(self.seed ^ (together.len() as u64) << 20);
        if together.len() < self.starts && self.earlier.is_none() {
            let mut spread = spread::spread(self, data, &together, &mut rng).into_iter();
            if let Some(active) = spread.next() {
                return Ok(Step::Measure {
                    active,
                    more: spread.collect(),
                    why: Why::Spread,
                    state: None,
                });
            }
        }
        self.improve(data, &mut rng)
    }

    /// The best configuration according to a model, among random candidates and their neighbours, with its value.
    #[must_use]
    pub fn best(&self, model: &Predictor) -> Option<(Vec<Setting>, f64)> {
        let mut rng = StdRng::seed_from_u64(self.seed);
        let all = self.ranked(model, &[], &mut rng);
        all.into_iter().next().map(|(v, a)| (a, v))
    }

    fn missing_solo(&self, data: &Dataset) -> Option<Vec<Setting>> {
        let measured: HashSet<Setting> = data
            .samples
            .iter()
            .filter(|s| s.active.len() == 1)
            .map(|s| s.active[0])
            .collect();
        for (task, batches) in self.batches.iter().enumerate() {
            for &batch in batches {
                let alone = Setting {
                    task,
                    batch,
                    share: Share::FULL,
                };
                if !measured.contains(&alone) {
                    return Some(vec![alone]);
                }
            }
        }
        None
    }

    fn improve(&self, data: &Dataset, rng: &mut StdRng) -> Result<Step, PredictError> {
        let new;
        let model = match (self.earlier, self.fitted) {
            (None, Some(fitted)) => fitted,
            (None, None) => {
                new = fit_so_far(data)?;
                &new
            }
            (Some(earlier), _) => {
                new = fit_so_far(&memory::with_memory(self, earlier, data))?;
                &new
            }
        };
        let measured: HashSet<&[Setting]> = data.samples.iter().map(|s| &s.active[..]).collect();
        let together: Vec<Vec<Setting>> = measured
            .iter()
            .filter(|a| a.len() == self.batches.len() && (self.admissible)(a))
            .map(|a| a.to_vec())
            .collect();
        let mut best_measured = together
            .iter()
            .map(|a| self.value(model, a))
            .fold(f64::NEG_INFINITY, f64::max);
        let mut ordered = together;
        ordered.sort();
        let ranked = self.ranked(model, &ordered, rng);
        let Some((value, best)) = ranked.first().cloned() else {
            return Ok(Step::Stop(DesignState {
                best: Vec::new(),
                value: 0.0,
                expected_gain: 0.0,
            }));
        };
        if best_measured < 0.0 {
            // Nothing is measured yet, or no measured configuration keeps the floor: assume a measured value a tenth
            // below the best prediction, so that expected improvement has a reference. The tenth was chosen by hand.
            best_measured = 0.9 * value.max(0.0);
        }
        let short: Vec<&Vec<Setting>> = ranked
            .iter()
            .take(SHORTLIST)
            .map(|(_, active)| active)
            .filter(|a| !measured.contains(&a[..]))
            .collect();
        let mut gains: Vec<(f64, &Vec<Setting>)> = in_parallel(&short, |active| {
            let gain = self.expected_improvement(model, active, best_measured);
            (gain, *active)
        });
        // The sort is stable, so the first of equal gains has the largest mean.
        gains.sort_by(|a, b| b.0.total_cmp(&a.0));
        let choice = gains.first().copied();
        let others = |than: &Vec<Setting>| -> Vec<Vec<Setting>> {
            let others = gains
                .iter()
                .map(|(_, active)| *active)
                .filter(|active| *active != than)
                .cloned();
            others
                .take(coruns_per_fit(self.batches.len()) - 1)
                .collect()
        };
        let progress = |gain: f64| DesignState {
            best: best.clone(),
            value,
            expected_gain: if best_measured > 0.0 {
                gain / best_measured
            } else {
                f64::from(u8::from(gain > 0.0))
            },
        };
        let unmeasured = !measured.contains(&best[..]);
        // Every second co-run is the model's best, whatever its expected improvement.
        let in_turn = data.samples.iter().filter(|s| s.active.len() > 1).count() % 2 == 0;
        Ok(match choice {
            Some((gain, active))
                if progress(gain).expected_gain >= self.tolerance && !(in_turn && unmeasured) =>
            {
                Step::Measure {
                    active: active.clone(),
                    more: others(active),
                    why: Why::Improve,
                    state: Some(progress(gain)),
                }
            }
            // Measure the model's best in its turn, and before the search ends, so that the result is measured and
            // not only predicted.
            Some((gain, _)) if unmeasured => Step::Measure {
                active: best.clone(),
                more: others(&best),
                why: Why::Improve,
                state: Some(progress(gain)),
            },
            Some((gain, _)) => Step::Stop(progress(gain)),
            None => Step::Stop(progress(0.0)),
        })
    }
}

#[cfg(test)]
mod tests;
