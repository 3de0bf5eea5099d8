//! Measured plans: the best of them competes with the model's best.
//!
//! The one of the larger expected value is the plan. What was measured is worth its mean. The maximum of many
//! predictions is an overestimate (the optimizer's curse: Smith and Winkler 2006, *The optimizer's curse: skepticism
//! and postdecision surprise in decision analysis*), so the model's best is worth less than predicted by what it has
//! been too good by on average ([`CURSE`]), and by the noise of what it was fitted to. A round counts as measured if
//! every set of tasks was measured that computes together in it for more than a moment.

mod config;

use doc::{BatchPolicy, Candidate, Candidates, Choice, Chosen, ObjectiveKind, Proof, Workload};
use units::corun::{Setting, Throughput};
use units::{Share, TotalShare};

use crate::answer::{Report, Solution};
use crate::compute::{finish, together};
use crate::problem::Problem;
use crate::progress::active;
use crate::round::Round;
use crate::tolerance::{INTERVAL, TOLERANCE};
use config::MeasuredOver;
use overlap::Outcome;

pub use config::MeasuredConfig;

/// Part of a round that a set of tasks must compute together for to matter: a tenth off there is
/// half a percent of the round.
const LEAST_PART: f64 = 0.05;
/// Part of the compute of a round that measured sets must make up, beside each that matters: with 16 tasks, 30 sets
/// may follow one another in a round, each for a moment only.
const MEASURED_PART: f64 = 0.5;
/// Standard errors by which all rates of a round are low at its lower end: two rates that are both one
/// standard error low are as rare (2.5 %) as one that is 1.96 low.
const JOINT_SIGMA: f64 = 1.0;
/// Part of its value by which the model's best is predicted too good where it promises more than the best measured
/// co-run: 3.3 % in the mean of 68 adaptive profiles and 2.9 % of 121 random ones of 10 simulated mixes, 2.3 and 4.3 %
/// of 24 and 72 on others. A margin in proportion to the standard error of the prediction, which spans 0.1 to 70 %,
/// refuses the large gains over random profiles, which come true. From 2 to 5 % the plans are as good.
const CURSE: f64 = 0.03;

/// The plan, and the candidates that it was chosen from.
pub(crate) struct Choose {
    pub(crate) candidates: Candidates,
    /// The measured co-run, where it is the plan.
    pub(crate) measured: Option<Solution>,
}

/// How a choice ranks if measured co-runs count with their measured rates.
#[derive(Debug, Clone, PartialEq)]
pub struct Standing {
    /// What each task runs with.
    pub settings: Vec<Setting>,
    /// The objective; larger is better.
    pub value: f64,
    /// Its standard error.
    pub error: f64,
    /// The co-runs that follow each other as tasks end, longest first.
    pub sets: Vec<Vec<Setting>>,
    /// Those of the co-runs that were never measured.
    pub missing: Vec<Vec<Setting>>,
}

/// Chooses between the best measured co-run that keeps the constraints and `predicted`, the best
/// by the model; `None` where no measured one does.
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

/// Expected value of an objective with this lower end, given that its rates are uncertain. A sum of rates has itself
/// as its expectation. Seconds are proportional to `1/rate`: their expectation is `(1 + e^2)` times as large for a
/// relative error `e` of all rates (the second-order delta method: Oehlert 1992, *A note on the delta method*). The
/// lower end has the seconds at `1/(1 - e)`.
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
    // The first of equals, as the profile has it.
    let worth = |one: &(_, f64, f64)| expected(problem, one.1, one.2);
    each.filter(|(_, _, low)| low.is_finite())
        .reduce(|a, b| if worth(&b) > worth(&a) { b } else { a })
}

/// The round of a measured co-run or its time to target, and the lower end of that objective; `None`
/// where a set of tasks that matters in it was never measured.
fn played_as_measured<C: Throughput + ?Sized>(
    rates: &MeasuredOver<'_, C>,
    problem: &Problem,
    whole: &MeasuredConfig,
) -> Option<(f64, f64)> {
    let round = problem.round.as_ref()?;
    let settings = &whole.settings;
    let known = |round: &Round, settings: &[Setting]| -> Option<Outcome> {
        let played = round.played(rates, settings).ok()?;
        let met = round.met(&played, settings, LEAST_PART);
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
    /// How the measured co-runs of all tasks that keep the constraints stand, and other choices, best first. Only of
    /// times that count transfers; empty elsewhere.
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
            let sets = round.met(&played, settings, LEAST_PART);
            // All tasks may run together for a moment only: what they do then is part of the plan all the same.
            let whole = Some(settings).filter(|whole| !sets.contains(whole));
            let missing = sets.iter().chain(whole);
            let missing = missing.filter(|set| measured.known(set).is_none());
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

/// Whether the sets of tasks that were measured as they meet in the round of `whole` can make up [`MEASURED_PART`]
/// of its compute; `true` where no round is ordered. It takes no prediction, and most rounds that were not
/// measured are refused so before their transfers are ordered.
///
/// A set computes for no longer than the soonest of its tasks takes for its samples, and all sets together for no
/// less than the longest task takes alone.
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

/// Whether a measured co-run keeps the constraints by what was measured. Its shares need not be
/// multiples of the step: that is how finely the search looks.
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
    /// The objective of a choice, whose shares need not be multiples of the step; a round in the
    /// best order that is found. Whether constraints hold is not asked.
    #[must_use]
    pub fn worth<C: Throughput + ?Sized>(&self, rates: &C, settings: &[Setting]) -> f64 {
        valued(rates, self, settings).0
    }

    /// What runs at once while a choice is carried out, longest first: all tasks, and for a round
    /// the sets of tasks that compute together while others transfer or have ended, except those
    /// that do so only briefly. All tasks also if one does not advance.
    #[must_use]
    pub fn met<C: Throughput + ?Sized>(
        &self,
        rates: &C,
        settings: &[Setting],
    ) -> Vec<Vec<Setting>> {
        let round = self.round.as_ref();
        let round = round.filter(|_| self.is_timed());
        let met = round.and_then(|round| {
            let played = round.played(rates, settings).ok()?;
            Some(round.met(&played, settings, LEAST_PART))
        });
        met.unwrap_or_else(|| vec![settings.to_vec()])
    }
}

/// Objective of settings, and the lower end of its 95 % interval. The rates are treated as
/// independent; those of a round as all low at once.
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

/// Minus the time to target, and its lower end; `None` where a task does not advance.
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

/// `None` where a task does not advance.
fn played<C: Throughput + ?Sized>(
    rates: &C,
    round: &Round,
    settings: &[Setting],
) -> Option<(f64, f64)> {
    let order = round.played(rates, settings).ok()?;
    Some(ends(rates, round, settings, &order))
}

/// The objective of a round, and its lower end: the same order where all rates are low.
fn ends<C: Throughput + ?Sized>(
    rates: &C,
    round: &Round,
    settings: &[Setting],
    order: &Outcome,
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

/// The certificate of a measured plan: unless it is also the model's best, only a bound remains of
/// what the search proved.
pub(crate) fn certified(report: Report, best: Option<&Solution>, plan: &Solution) -> Report {
    let same = best.is_some_and(|b| b.settings == plan.settings);
    if same {
        return report;
    }
    let bound = report.bound.or_else(|| {
        let proven = report.proof != Proof::NotProven;
        best.filter(|_| proven).map(|b| b.objective)
    });
    Report {
        proof: Proof::NotProven,
        // Shares off the step may be better by the model than all on it.
        bound: bound.map(|b| b.max(plan.objective)),
        ..report
    }
}

#[cfg(test)]
mod tests;
