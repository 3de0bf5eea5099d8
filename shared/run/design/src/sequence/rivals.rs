//! Of a round, or of a time to target: what decides between the plan that would be chosen now and its rivals.

use std::collections::BTreeMap;

use allocation::{MeasuredConfig, Standing};
use predict::design::{Progress, expected_above};
use units::corun::Setting;

use super::adaptive::{Adaptive, STARTS, schemes};
use super::space::Configuration;

/// Part of the objective that another measurement of a co-run must be expected to gain. A plan that is half a
/// percent worse than equal shares counts as worse, and a tenth of that is not worth a co-run. Devices whose
/// rates repeat to a tenth of a percent, as the simulator does without noise, are never asked twice.
const LEAST_GAIN: f64 = 5e-4;
/// Choices, best first, of which what is missing is measured beside the best and the best of equal shares. The next
/// ones differ from the best in the share of one short task as a rule: what runs after that has ended they have in
/// common.
const NEXT: usize = 3;

/// Throughputs of a configuration, the means of all times that it was measured, and their standard errors.
struct Mean {
    rates: Vec<f64>,
    errors: Vec<f64>,
    times: u32,
}

/// All that was measured, by configuration.
type Means = BTreeMap<Configuration, Mean>;

impl Adaptive {
    /// What runs at once in the best rounds and was not measured, and where all was, in every second turn, a co-run
    /// whose noise hides which round is the shortest. `None` for other objectives, of which a choice is one co-run.
    ///
    /// A round lasts as long as the sets of tasks take that are left as others end. Predictions of those are off by
    /// some percent either way, so that the shortest of many predicted rounds is one of those that are too short:
    /// of 10 simulated mixes one such plan was 5 % longer than equal shares, and of 6 no part had been measured.
    pub(super) fn of_rivals(&mut self) -> Option<Configuration> {
        // A recording says the same each time, and a model of a similar workload says where to begin.
        let other = self.only.is_some() || self.earlier.is_some() || !self.wanted.plan.is_timed();
        if other || self.coruns < STARTS as u64 {
            return None;
        }
        let means = self.means();
        let standings = self.of_rounds(&means);
        if let Some(next) = self.of_missing(&standings) {
            return Some(next);
        }
        let (gain, runs) = worth_again(&standings, &means)?;
        self.stands(&standings, gain);
        self.coruns.is_multiple_of(2).then_some(runs)
    }

    /// Tells how a design for rounds stands, of which one more co-run is expected to gain so much.
    fn stands(&mut self, standings: &[Standing], gain: f64) {
        self.progress = standings.first().map(|best| Progress {
            best: best.settings.clone(),
            // Rounds per second, as the goal has them.
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

    /// How rounds stand, or times to target: of the measured co-runs, of equal shares and of the best by the model.
    fn of_rounds(&self, means: &Means) -> Vec<Standing> {
        let known = means.iter().map(|(runs, mean)| {
            MeasuredConfig::new(runs.clone(), mean.rates.clone(), mean.errors.clone())
        });
        let known: Vec<MeasuredConfig> = known.collect();
        let everyone: Vec<usize> = (0..self.space.task_count()).collect();
        let equal = schemes(&self.space, &everyone, &self.scheme_sizes());
        let plan = &self.wanted.plan;
        plan.standings(&self.data, &known, equal, self.wanted.seed)
    }

    /// What runs at once in the best round, and then in the best of equal shares, and was not measured yet: what
    /// several tasks do now, and what one does alone in its turn among solo runs ([`Adaptive::left_alone`]).
    fn of_missing(&mut self, standings: &[Standing]) -> Option<Configuration> {
        let best = standings.first();
        let equal = standings.iter().find(|s| is_equal(&s.settings));
        let next = standings.iter().take(NEXT);
        let each = best.into_iter().chain(equal).chain(next);
        let missing = each.flat_map(|standing| &standing.missing);
        let new = missing.filter(|runs| self.may(runs) && !self.tried.contains(*runs));
        let (alone, together): (Vec<_>, Vec<_>) = new.cloned().partition(|runs| runs.len() == 1);
        self.alone = alone;
        let next = together.into_iter().next();
        // As long as no round is known whole there is nothing to gain on.
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

/// A co-run of the best choice or of a rival that is worth measuring again, if there is one, and by how much the best
/// of all means is expected to be better after it: the one of the largest knowledge gradient (Frazier, Powell and
/// Dayanik 2008, *A knowledge-gradient policy for sequential information collection*).
fn worth_again(standings: &[Standing], means: &Means) -> Option<(f64, Configuration)> {
    let complete: Vec<&Standing> = standings.iter().filter(|s| s.missing.is_empty()).collect();
    let (best, second) = (complete.first()?, complete.get(1)?);
    let times = |runs: &Configuration| means.get(runs).map_or(0, |mean| mean.times);
    let gain = |place: usize, standing: &Standing| -> Option<(f64, Configuration)> {
        let gap = match place {
            0 => best.value - second.value,
            _ => best.value - standing.value,
        };
        // Of what runs at once in a round what was measured least often, of these the longest.
        let together = standing.sets.iter().filter(|set| set.len() > 1);
        let set = together.min_by_key(|set| times(set))?;
        let gain = knowledge_gradient(gap, standing.error, times(set));
        Some((gain, set.clone()))
    };
    let gains = complete.iter().enumerate();
    let gains = gains.filter_map(|(place, standing)| gain(place, standing));
    let most = gains.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (most.0 > LEAST_GAIN * best.value.abs()).then_some(most)
}

/// What one more measurement of a choice is expected to gain where it lies `gap` below the best, or the best above the
/// second, and `error` is the standard error of its mean of so many times. The mean will change by a normal
/// number with the variance by which that of its error falls, `error^2 / (times + 1)`; of a round as if all of its
/// error came from what is measured again.
fn knowledge_gradient(gap: f64, error: f64, times: u32) -> f64 {
    expected_above(-gap, error / (f64::from(times) + 1.0).sqrt())
}

#[cfg(test)]
mod tests;
