//! Chooses between the best measured co-run and the model's best choice.
//!
//! The one with the larger expected value becomes the plan. A measured co-run is worth its mean. The maximum of many
//! predictions is an overestimate (the optimizer's curse: Smith and Winkler 2006, *The optimizer's curse: skepticism
//! and postdecision surprise in decision analysis*), so the value of the model's best is reduced by the average
//! overestimate ([`CURSE`]) and by the noise of the measurements that the model was fitted to. A round counts as
//! measured if every set of tasks that computes together in it for a significant time was measured ([`LEAST_PART`]).
//! Without such a round, one that was measured in part may be the plan ([`partly_measured`]).

mod config;
mod partly;

use doc::{BatchPolicy, Candidate, Candidates, Choice, Chosen, ObjectiveKind, Proof, Workload};
use units::corun::{Setting, Throughput};
use units::{Share, TotalShare};

use crate::problem::Problem;
use crate::problem::compute::{finish, together};
use crate::problem::progress::active;
use crate::problem::round::Round;
use crate::search::answer::{Report, Solution};
use crate::tolerance::{INTERVAL, TOLERANCE};
use config::MeasuredOver;
use overlap::SolvedRound;

pub use config::MeasuredConfig;
pub(crate) use partly::partly_measured;

/// Minimum fraction of a round's compute for which a set of tasks must compute together to matter: an error of a tenth
/// in such a set changes the round by half a percent.
const LEAST_PART: f64 = 0.05;
/// Minimum fraction of a round's compute that measured sets must be able to cover, in addition to every set that
/// matters. It is needed because with 16 tasks, a round may consist of 30 sets that are each too short to matter.
const MEASURED_PART: f64 = 0.5;
/// The lower end of a round's interval assumes that all its rates are this many standard errors low: two rates that
/// are both one standard error low are as rare (2.5 %) as one that is 1.96 low.
const JOINT_SIGMA: f64 = 1.0;
/// Average relative overestimate of the model's best choice when it is predicted to be better than the best measured
/// co-run: 3.3 % over 68 adaptive and 2.9 % over 121 random profiles of 10 simulated mixes; 2.3 % over 24 and 4.3 %
/// over 72 profiles of other mixes. A margin in proportion to the prediction's standard error, which spans 0.1 to
/// 70 %, would reject the large gains over random profiles, which prove real. Any value from 2 to 5 % gives equally
/// good plans.
const CURSE: f64 = 0.03;

/// The plan, and the candidates that it was chosen from.
pub(crate) struct Choose {
    pub(crate) candidates: Candidates,
    /// The measured co-run, if it is the plan.
    pub(crate) measured: Option<Solution>,
}

/// The value of a choice, with measured rates for measured co-runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Standing {
    /// Batch size and share of each task.
    pub settings: Vec<Setting>,
    /// The objective; larger is better.
    pub value: f64,
    /// Its standard error.
    pub error: f64,
    /// The co-runs that the round passes through as tasks start and end, longest first.
    pub sets: Vec<Vec<Setting>>,
    /// The co-runs that were never measured: those of `sets`, and that of all tasks.
    pub missing: Vec<Vec<Setting>>,
}

/// Chooses between the best measured co-run that keeps the constraints and `predicted`, the best by the model; `None`
/// if no measured co-run keeps them.
pub(crate) fn choose<C: Throughput + ?Sized>(
    rates: &C,
    workload: &Workload,
    problem: &Problem,
    known: &[MeasuredConfig],
    predicted: Option<&Solution>,
) -> Option<Choose> {
    let (measured, objective, low) = best(rates, problem, known)?;
    let predicted = predicted.map(|s| {
        let low = valued(rates, problem, &s.settings).1;
        (s, low.min(s.objective))
    });
    let least = expected(problem, objective, low) + (objective - low);
    let chosen = match predicted.map(|(s, low)| expected(problem, s.objective, low)) {
        Some(value) if value - CURSE * value.abs() > least => Chosen::Predicted,
        _ => Chosen::Measured,
    };
    let choices = |settings: &[Setting]| -> Vec<Choice> {
        let choice = |s: &Setting| Choice {
            id: workload.tasks[s.task].id.clone(),
            batch: s.batch,
            share: s.share,
        };
        settings.iter().map(choice).collect()
    };
    let candidates = Candidates {
        chosen,
        measured: Candidate {
            config: Some(measured.config),
            objective,
            low: Some(low),
            tasks: choices(&measured.settings),
        },
        predicted: predicted.map(|(s, low)| Candidate {
            config: None,
            objective: s.objective,
            low: low.is_finite().then_some(low),
            tasks: choices(&s.settings),
        }),
    };
    Some(Choose {
        candidates,
        measured: (chosen == Chosen::Measured).then(|| predict(rates, problem, &measured.settings)),
    })
}

/// Expected value of an objective with lower end `low`, given that its rates are uncertain. For a sum of rates, the
/// expectation is the value itself. Seconds are proportional to `1/rate`: their expectation is `(1 + e^2)` times as
/// large for a relative error `e` of all rates (the second-order delta method: Oehlert 1992, *A note on the delta
/// method*). `low` is the value with all rates at `1 - e`, hence with `1/(1 - e)` times the seconds, which gives `e`.
fn expected(problem: &Problem, value: f64, low: f64) -> f64 {
    if !problem.is_timed() {
        return value;
    }
    let error = 1.0 - value / low;
    value * (1.0 + error * error)
}

/// The measured co-run of the largest expected value, with its objective and lower end.
fn best<'k, C: Throughput + ?Sized>(
    rates: &C,
    problem: &Problem,
    known: &'k [MeasuredConfig],
) -> Option<(&'k MeasuredConfig, f64, f64)> {
    let measured = MeasuredOver {
        inner: rates,
        known,
    };
    let kept = known
        .iter()
        .filter(|k| keeps(rates, problem, k) && may_be_measured(rates, problem, known, k));
    let each = kept.filter_map(|one| {
        let (value, low) = match (problem.objective, &problem.round) {
            (_, None) if problem.is_timed() => return None,
            (_, Some(_)) if problem.is_timed() => played_as_measured(&measured, problem, one)?,
            _ => valued(&measured, problem, &one.settings),
        };
        Some((one, value, low))
    });
    // Among equals, take the first in the order of the profile.
    let worth = |one: &(_, f64, f64)| expected(problem, one.1, one.2);
    each.filter(|(_, _, low)| low.is_finite())
        .reduce(|a, b| if worth(&b) > worth(&a) { b } else { a })
}

/// Value of a measured co-run's round or time to target, and the lower end of that value; `None` if a set of tasks
/// that matters in a round was never measured.
fn played_as_measured<C: Throughput + ?Sized>(
    rates: &MeasuredOver<'_, C>,
    problem: &Problem,
    whole: &MeasuredConfig,
) -> Option<(f64, f64)> {
    let round = problem.round.as_ref()?;
    let settings = &whole.settings;
    let known = |round: &Round, settings: &[Setting]| -> Option<SolvedRound> {
        let played = round.played(rates, settings).ok()?;
        let met = of_length(round.met(&played, settings));
        let known = met.iter().all(|set| rates.known(set).is_some());
        known.then_some(played)
    };
    if !problem.is_progress() {
        return Some(ends(rates, round, settings, &known(round, settings)?));
    }
    for phase in problem.phases(settings) {
        let part = round.restricted(&phase.active)?;
        known(&part, &active(settings, &phase))?;
    }
    timed(rates, problem, settings)
}

impl Problem {
    /// Values of the measured co-runs of all tasks that keep the constraints and of the `others`, best first. Only for
    /// objectives that are times and include transfers; otherwise empty.
    #[must_use]
    pub fn standings<C: Throughput + ?Sized>(
        &self,
        rates: &C,
        known: &[MeasuredConfig],
        others: &[Vec<Setting>],
    ) -> Vec<Standing> {
        let measured = MeasuredOver {
            inner: rates,
            known,
        };
        let kept = known.iter().filter(|k| keeps(rates, self, k));
        let mut choices: Vec<&Vec<Setting>> = kept.map(|k| &k.settings).chain(others).collect();
        choices.sort_unstable();
        choices.dedup();
        let standing = |settings: &Vec<Setting>| {
            let round = self.round.as_ref().filter(|_| self.is_timed())?;
            let played = round.played(&measured, settings).ok()?;
            let (value, low) = match self.is_progress() {
                true => timed(&measured, self, settings)?,
                false => ends(&measured, round, settings, &played),
            };
            let sets = of_length(round.met(&played, settings));
            // The co-run of all tasks is part of the plan even if it is too short to be in `sets`.
            let whole = Some(settings).filter(|whole| !sets.contains(whole));
            let missing = sets
                .iter()
                .chain(whole)
                .filter(|set| measured.known(set).is_none());
            Some(Standing {
                settings: settings.clone(),
                value,
                error: (value - low) / JOINT_SIGMA,
                missing: missing.cloned().collect(),
                sets,
            })
        };
        let mut all: Vec<Standing> = choices.into_iter().filter_map(standing).collect();
        all.sort_by(|a, b| b.value.total_cmp(&a.value));
        all
    }
}

/// The co-runs that are long enough to matter ([`LEAST_PART`]).
fn of_length(met: Vec<(Vec<Setting>, f64)>) -> Vec<Vec<Setting>> {
    let long = met.into_iter().filter(|(_, part)| *part >= LEAST_PART);
    long.map(|(set, _)| set).collect()
}

/// Whether the measured sets that can occur in the round of `whole` may cover [`MEASURED_PART`] of its compute; `true`
/// if the objective has no round. This check rejects most unmeasured rounds before their transfers are ordered,
/// without predicting a co-run.
///
/// A set computes at most until the first of its tasks has trained on all its samples, and all sets together compute
/// at least as long as the longest task takes alone.
fn may_be_measured<C: Throughput + ?Sized>(
    rates: &C,
    problem: &Problem,
    known: &[MeasuredConfig],
    whole: &MeasuredConfig,
) -> bool {
    let Some(round) = problem.round.as_ref().filter(|_| problem.is_timed()) else {
        return true;
    };
    let everyone: Vec<usize> = (0..problem.tasks.len()).collect();
    let work = problem.work(&everyone);
    let longest = |k: &MeasuredConfig| {
        let each = k.settings.iter().zip(&k.rates);
        let seconds = each.map(|(s, rate)| work[s.task] / rate);
        seconds.fold(f64::INFINITY, f64::min)
    };
    let meets = |k: &&MeasuredConfig| {
        let mut computes = vec![false; whole.settings.len()];
        for s in &k.settings {
            computes[s.task] = true;
        }
        round.corun(&whole.settings, &computes) == k.settings
    };
    let measured: f64 = known.iter().filter(meets).map(longest).sum();
    let alone = whole
        .settings
        .iter()
        .map(|s| work[s.task] / rates.solo(s.task, s.batch));
    measured >= MEASURED_PART * alone.fold(0.0, f64::max)
}

/// Whether a measured co-run keeps the constraints at its measured rates. Its shares need not be multiples of the
/// step, which only limits the search.
fn keeps<C: Throughput + ?Sized>(rates: &C, problem: &Problem, known: &MeasuredConfig) -> bool {
    let limits = &problem.limits;
    let settings = &known.settings;
    if settings.len() != problem.tasks.len() {
        return false;
    }
    let tasks = || problem.tasks.iter().zip(settings);
    let sizes = tasks().all(|(t, s)| match limits.policy {
        BatchPolicy::Fixed => t.batches.iter().max() == Some(&s.batch),
        BatchPolicy::Free => t.batches.contains(&s.batch),
        BatchPolicy::Reference => t.reference() == s.batch,
        BatchPolicy::Same => t.batches.contains(&s.batch) && s.batch == settings[0].batch,
    });
    let total: TotalShare = settings.iter().map(|s| s.share).sum();
    let need: f64 = tasks()
        .map(|(t, s)| t.memory.map_or(0.0, |m| m.at(s.batch)))
        .sum();
    let fed = settings.iter().zip(&known.rates).all(|(s, rate)| {
        let solo = problem.solo(rates, s.task, s.batch);
        *rate >= limits.floor * solo * (1.0 - TOLERANCE) && s.share > Share::ZERO
    });
    sizes
        && fed
        && limits.rv.is_none_or(|rv| rv == total)
        && limits.memory.is_none_or(|most| need <= most.get() as f64)
        && limits
            .mismatch
            .is_none_or(|most| problem.mismatch(settings, &known.rates) <= most + TOLERANCE)
}

impl Problem {
    /// The objective of a choice, without checking constraints. Shares need not be multiples of the step. A round has
    /// the best order that a thorough search finds.
    #[must_use]
    pub fn worth<C: Throughput + ?Sized>(&self, rates: &C, settings: &[Setting]) -> f64 {
        valued(rates, self, settings).0
    }

    /// The co-runs of a choice, longest first. For a round these are the sets of tasks that compute together, without
    /// those that do so for less than 5 % of the time in which any task computes. Otherwise, or if a task makes no
    /// progress, it is the co-run of all tasks.
    #[must_use]
    pub fn met<C: Throughput + ?Sized>(
        &self,
        rates: &C,
        settings: &[Setting],
    ) -> Vec<Vec<Setting>> {
        let round = self.round.as_ref().filter(|_| self.is_timed());
        let met = round.and_then(|round| {
            let played = round.played(rates, settings).ok()?;
            Some(of_length(round.met(&played, settings)))
        });
        met.unwrap_or_else(|| vec![settings.to_vec()])
    }
}

/// Objective of settings, and the lower end of its 95 % interval. Rates are treated as independent, except for times,
/// whose lower end assumes that all rates are low at once.
fn valued<C: Throughput + ?Sized>(
    rates: &C,
    problem: &Problem,
    settings: &[Setting],
) -> (f64, f64) {
    if problem.is_progress() && problem.is_timed() {
        let late = f64::NEG_INFINITY;
        return timed(rates, problem, settings).unwrap_or((late, late));
    }
    if problem.objective == ObjectiveKind::Round {
        return round_valued(rates, problem, settings);
    }
    let mean = together(rates, settings);
    let solo: Vec<f64> = settings
        .iter()
        .map(|s| problem.solo(rates, s.task, s.batch))
        .collect();
    let value = problem.value(rates, settings, &mean, &solo);
    let errors = rates.std_errors(settings);
    let change = |i: usize| {
        let mut less = mean.clone();
        less[i] -= errors[i];
        value - problem.value(rates, settings, &less, &solo)
    };
    let square: f64 = (0..mean.len()).map(|i| change(i).powi(2)).sum();
    (value, value - INTERVAL * square.sqrt())
}

/// Minus the time to target, and its lower end; `None` if a task makes no progress.
fn timed<C: Throughput + ?Sized>(
    rates: &C,
    problem: &Problem,
    settings: &[Setting],
) -> Option<(f64, f64)> {
    let at = |deviations: f64| {
        let length =
            |places: &[usize], s: &[Setting]| problem.round_of(rates, places, s, deviations);
        problem.seconds_to_target(settings, length)
    };
    let value = -at(0.0)?;
    let low = at(-JOINT_SIGMA).map_or(f64::NEG_INFINITY, |s| value.min(-s));
    Some((value, low))
}

fn round_valued<C: Throughput + ?Sized>(
    rates: &C,
    problem: &Problem,
    settings: &[Setting],
) -> (f64, f64) {
    let late = f64::NEG_INFINITY;
    let Some(round) = &problem.round else {
        let work: Vec<f64> = problem
            .tasks
            .iter()
            .map(|t| t.samples.map_or(1.0, units::Samples::as_f64))
            .collect();
        let at = |deviations| finish(rates, settings, &work, deviations).map_or(late, |s| -s);
        return (at(0.0), at(-JOINT_SIGMA));
    };
    played(rates, round, settings).unwrap_or((late, late))
}

/// Minus the length of a round, and its lower end; `None` if a task makes no progress.
fn played<C: Throughput + ?Sized>(
    rates: &C,
    round: &Round,
    settings: &[Setting],
) -> Option<(f64, f64)> {
    let order = round.played(rates, settings).ok()?;
    Some(ends(rates, round, settings, &order))
}

/// Minus the length of a round, and its lower end: the same order with all rates low ([`JOINT_SIGMA`]).
fn ends<C: Throughput + ?Sized>(
    rates: &C,
    round: &Round,
    settings: &[Setting],
    order: &SolvedRound,
) -> (f64, f64) {
    let value = -order.schedule.makespan_s;
    let low = round.shifted(rates, settings, order, -JOINT_SIGMA);
    (value, low.map_or(f64::NEG_INFINITY, |s| value.min(-s)))
}

/// The model's prediction for a measured co-run.
fn predict<C: Throughput + ?Sized>(rates: &C, problem: &Problem, settings: &[Setting]) -> Solution {
    let means = together(rates, settings);
    let solo = |s: &Setting| problem.solo(rates, s.task, s.batch);
    let relative: Vec<f64> = settings
        .iter()
        .zip(&means)
        .map(|(s, p)| p / solo(s))
        .collect();
    Solution {
        settings: settings.to_vec(),
        objective: valued(rates, problem, settings).0,
        mismatch: problem.mismatch(settings, &means),
        raw: means.iter().sum(),
        fairness: relative.iter().sum(),
        least: relative.iter().copied().fold(f64::INFINITY, f64::min),
        rates: means,
    }
}

/// The certificate of a measured plan, given the best by the model. Unless they are the same, the search proves only a
/// bound for the plan. If that bound does not exceed the 95 % interval of the plan (`measured`, symmetric around its
/// objective; absent if it was measured in part), the measurements do not tell whether the best by the model is better.
pub(crate) fn certified(
    report: Report,
    best: Option<&Solution>,
    plan: &Solution,
    measured: Option<&Candidate>,
) -> Report {
    let same = best.is_some_and(|b| b.settings == plan.settings);
    if same {
        return report;
    }
    let proven = best.filter(|_| report.proof.is_proven());
    let bound = report.bound.or_else(|| proven.map(|b| b.objective));
    // A measured co-run's shares need not be multiples of the step, so it may exceed the bound of the search.
    let bound = bound.map(|b| b.max(plan.objective));
    let high = measured.and_then(|m| Some(2.0 * m.objective - m.low?));
    let within = proven.is_some() && high.zip(bound).is_some_and(|(high, bound)| bound <= high);
    Report {
        proof: match within {
            true => Proof::WithinNoise,
            false => Proof::NotProven,
        },
        bound,
        ..report
    }
}

#[cfg(test)]
mod tests;
