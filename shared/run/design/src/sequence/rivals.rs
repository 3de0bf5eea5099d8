//! For a round or a time to target: chooses co-runs that decide between the plan that would be chosen now and its
//! rivals.

use std::collections::BTreeMap;

use allocation::{MeasuredConfig, Standing};
use predict::design::{DesignState, coruns_per_fit, expected_above};
use units::corun::Setting;

use super::adaptive::{Adaptive, STARTS, schemes};
use super::space::Configuration;

/// Minimum expected gain of measuring a co-run again, as a fraction of the objective. A plan that is half a percent
/// worse than equal shares counts as worse, and a tenth of that is not worth a co-run. If rates repeat to a tenth of a
/// percent, as in the simulator without noise, nothing is measured twice.
const LEAST_GAIN: f64 = 5e-4;
/// Number of choices, best first, whose missing co-runs are measured, in addition to those of the best equal shares.
/// These choices usually differ only in the share of one short task, and have the rest of the round after its end in
/// common.
const NEXT: usize = 3;

/// Mean throughputs of a configuration over its measurements, and their standard errors.
struct Mean {
    rates: Vec<f64>,
    errors: Vec<f64>,
    times: u32,
}

/// Means of all measured configurations.
type Means = BTreeMap<Configuration, Mean>;

impl Adaptive {
    /// The next co-run of the best rounds that was not measured yet. If there is none, in every second turn, a co-run
    /// to measure again, because its noise hides which round is the shortest. `None` for other objectives, whose
    /// choices are single co-runs.
    ///
    /// The length of a round depends on the sets of tasks that remain as others end. Predictions for these sets are off
    /// by some percent in either direction, so the shortest of many predicted rounds is mostly one that is predicted
    /// too short. For one of 10 simulated mixes, such a plan was 5 % longer than equal shares, and for 6 of them no
    /// part of the plan had been measured.
    pub(super) fn of_rivals(&mut self) -> Option<Configuration> {
        // Not for recordings, which give the same result each time, and not with a model of a similar workload, which
        // replaces the start.
        let other = self.only.is_some() || self.earlier.is_some() || !self.wanted.plan.is_timed();
        if other || self.coruns < STARTS as u64 {
            return None;
        }
        let means = self.means();
        self.fit();
        let standings = self.of_rounds(&means);
        if let Some(next) = self.of_missing(&standings) {
            return Some(next);
        }
        let (gain, runs) = worth_again(&standings, &means)?;
        self.stands(&standings, gain);
        self.coruns.is_multiple_of(2).then_some(runs)
    }

    /// Sets the progress of a design for rounds, with the expected gain of another co-run.
    fn stands(&mut self, standings: &[Standing], gain: f64) {
        self.progress = standings.first().map(|best| DesignState {
            best: best.settings.clone(),
            // In rounds per second, the unit of the goal.
            value: -1.0 / best.value,
            expected_gain: gain / best.value.abs(),
        });
    }

    fn means(&self) -> Means {
        let mut all = Means::new();
        for sample in &self.data.samples {
            let n = sample.active.len();
            let mean = all.entry(sample.active.clone()).or_insert_with(|| Mean {
                rates: vec![0.0; n],
                errors: vec![0.0; n],
                times: 0,
            });
            mean.times += 1;
            let times = f64::from(mean.times);
            for i in 0..n {
                let error = sample.stderr.as_ref().map_or(0.0, |e| e[i]);
                mean.rates[i] += (sample.throughput[i] - mean.rates[i]) / times;
                mean.errors[i] = (mean.errors[i] * (times - 1.0)).hypot(error) / times;
            }
        }
        all
    }

    /// Rounds or times to target of the measured co-runs, of equal shares, and of the best choices by the model, best
    /// first.
    fn of_rounds(&self, means: &Means) -> Vec<Standing> {
        let known: Vec<MeasuredConfig> = means
            .iter()
            .map(|(runs, mean)| {
                MeasuredConfig::new(runs.clone(), mean.rates.clone(), mean.errors.clone())
            })
            .collect();
        let everyone: Vec<usize> = (0..self.space.task_count()).collect();
        let equal = schemes(&self.space, &everyone, &self.scheme_sizes());
        let plan = &self.wanted.plan;
        let standings = |model| plan.standings(model, &known, equal, self.wanted.seed);
        self.fitted.as_ref().map_or_else(Vec::new, standings)
    }

    /// The next co-run that was not measured yet. Co-runs of the best round come first, then the co-runs of the best
    /// round with equal shares. Only co-runs of several tasks are returned; runs of one task are measured with the solo
    /// runs ([`Adaptive::left_alone`]).
    fn of_missing(&mut self, standings: &[Standing]) -> Option<Configuration> {
        let best = standings.first();
        let equal = standings.iter().find(|s| is_equal(&s.settings));
        let next = standings.iter().take(NEXT);
        let each = best.into_iter().chain(equal).chain(next);
        let missing = each.flat_map(|standing| &standing.missing);
        let new = missing.filter(|runs| self.may(runs) && !self.tried.contains(*runs));
        let (alone, together): (Vec<_>, Vec<_>) = new.cloned().partition(|runs| runs.len() == 1);
        self.alone = alone;
        // With many tasks, one model chooses several co-runs. They are spread over all of these rounds, because the
        // first ones differ in a single task only. On four mixes of 16 tasks, two for each model gave the same errors
        // of held-out co-runs as one, and plans whose rounds are 2 % shorter on fresh seeds, in half the time.
        let per_fit = coruns_per_fit(self.space.task_count());
        let mut chosen = together
            .iter()
            .step_by(together.len().div_ceil(per_fit).max(1));
        let next = chosen.next().cloned();
        self.pending_batch.extend(chosen.cloned());
        // A gain needs a completely measured round as reference.
        let known = standings.iter().find(|s| s.missing.is_empty());
        if let (Some(_), Some(best), Some(known)) = (&next, standings.first(), known) {
            self.stands(
                standings,
                expected_above(best.value - known.value, best.error),
            );
        }
        next
    }
}

fn is_equal(settings: &[Setting]) -> bool {
    settings.windows(2).all(|w| w[0].share == w[1].share)
}

/// A co-run of the best choice or of a rival that is worth measuring again, if there is one, and the expected gain of
/// the best mean by it: the co-run with the largest knowledge gradient (Frazier, Powell and Dayanik 2008, *A
/// knowledge-gradient policy for sequential information collection*).
fn worth_again(standings: &[Standing], means: &Means) -> Option<(f64, Configuration)> {
    let complete: Vec<&Standing> = standings.iter().filter(|s| s.missing.is_empty()).collect();
    let (best, second) = (complete.first()?, complete.get(1)?);
    let times = |runs: &Configuration| means.get(runs).map_or(0, |mean| mean.times);
    let gain = |place: usize, standing: &Standing| -> Option<(f64, Configuration)> {
        let gap = match place {
            0 => best.value - second.value,
            _ => best.value - standing.value,
        };
        // The co-run of the round that was measured least often; ties go to the longest.
        let together = standing.sets.iter().filter(|set| set.len() > 1);
        let set = together.min_by_key(|set| times(set))?;
        let gain = knowledge_gradient(gap, standing.error, times(set));
        Some((gain, set.clone()))
    };
    let gains = complete
        .iter()
        .enumerate()
        .filter_map(|(place, standing)| gain(place, standing));
    let most = gains.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (most.0 > LEAST_GAIN * best.value.abs()).then_some(most)
}

/// Expected gain from one more measurement of a choice that is `gap` below the best (for the best itself, above the
/// second). `error` is the standard error of its mean over `times` measurements. The mean will change by a normal
/// number whose variance is the decrease of its error's variance, `error^2 / (times + 1)`; for a round, its whole error
/// is attributed to the repeated co-run.
fn knowledge_gradient(gap: f64, error: f64, times: u32) -> f64 {
    expected_above(-gap, error / (f64::from(times) + 1.0).sqrt())
}

#[cfg(test)]
mod tests;
