//! Measured plans: the best of them competes with the model's best.
//!
//! The one of the larger expected value is the plan. What was measured is worth its mean. The maximum of many
//! predictions is an overestimate (the optimizer's curse: Smith and Winkler 2006, *The optimizer's curse: skepticism
//! and postdecision surprise in decision analysis*), so the model's best is worth less than predicted by what it has
//! been too good by on average ([`CURSE`]), and by the noise of what it was fitted to. A round counts as measured if
//! every set of tasks was measured that computes together in it for more than a moment.

use doc::{BatchPolicy, Candidate, Candidates, Choice, Chosen, Corun, DeviceKind, ObjectiveKind};
use doc::{Proof, Workload};
use units::corun::{Setting, Throughput};
use units::{Batch, Share, TotalShare};

use crate::answer::{Report, Solution};
use crate::compute::{finish, together};
use crate::problem::Problem;
use crate::progress::active;
use crate::round::Round;
use crate::tolerance::{INTERVAL, TOLERANCE};
use overlap::Outcome;

/// Standard error of a measured throughput that comes without one, as a part of it, but for the
/// simulator, which is exact unless it says otherwise: windows on real devices end at 1 %.
const UNKNOWN_ERROR: f64 = 0.01;
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

/// A measured co-run of some tasks of a problem.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasuredConfig {
    config: u64,
    settings: Vec<Setting>,
    /// Throughput of each task, and its standard error.
    rates: Vec<f64>,
    errors: Vec<f64>,
}

/// The plan, and the candidates that it was chosen from.
pub(crate) struct Choose {
    pub(crate) candidates: Candidates,
    /// The measured co-run, where it is the plan.
    pub(crate) measured: Option<Solution>,
}

impl MeasuredConfig {
    /// The measured co-runs of a model. Measurements of the same configuration are merged into
    /// their mean. Tasks that the workload does not have are left out.
    #[must_use]
    pub fn of_model(coruns: &[Corun], workload: &Workload) -> Vec<Self> {
        let exact = workload.device.kind == DeviceKind::Sim;
        let unknown = if exact { 0.0 } else { UNKNOWN_ERROR };
        let each = coruns.iter().map(|corun| {
            let rate = |t: &doc::Measured| t.throughput.get();
            let error = |t: &doc::Measured| {
                t.stderr
                    .map_or(unknown * rate(t), units::SamplesPerSec::get)
            };
            let setting = |t: &doc::Measured| {
                let task = workload.tasks.iter().position(|of| of.id == t.id);
                task.map(|task| Setting {
                    task,
                    batch: t.batch,
                    share: t.share,
                })
            };
            Self {
                config: corun.config,
                settings: corun.tasks.iter().filter_map(setting).collect(),
                rates: corun.tasks.iter().map(rate).collect(),
                errors: corun.tasks.iter().map(error).collect(),
            }
        });
        Self::merged(each)
    }

    /// Of throughputs and their standard errors as they were measured.
    #[must_use]
    pub fn new(settings: Vec<Setting>, rates: Vec<f64>, errors: Vec<f64>) -> Self {
        let config = 0;
        Self {
            config,
            settings,
            rates,
            errors,
        }
    }

    /// With one for each configuration: the mean of its measurements.
    #[must_use]
    pub fn merged(each: impl Iterator<Item = Self>) -> Vec<Self> {
        let mut groups: Vec<(Self, f64)> = Vec::new();
        for one in each {
            match groups.iter_mut().find(|(g, _)| g.settings == one.settings) {
                Some((group, count)) => {
                    group.join(&one, *count);
                    *count += 1.0;
                }
                None => groups.push((one, 1.0)),
            }
        }
        groups.into_iter().map(|(group, _)| group).collect()
    }

    /// The mean with one more measurement, after `count`.
    fn join(&mut self, one: &Self, count: f64) {
        let mean = |all: f64, one: f64| (all * count + one) / (count + 1.0);
        for i in 0..self.rates.len() {
            self.rates[i] = mean(self.rates[i], one.rates[i]);
            let squares = (self.errors[i] * count).powi(2) + one.errors[i].powi(2);
            self.errors[i] = squares.sqrt() / (count + 1.0);
        }
    }

    /// Settings of each task.
    #[must_use]
    pub fn settings(&self) -> &[Setting] {
        &self.settings
    }
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

/// The rates of a predictor, except that measured co-runs have their measured rates.
struct MeasuredOver<'a, C: ?Sized> {
    inner: &'a C,
    known: &'a [MeasuredConfig],
}

impl<C: ?Sized> MeasuredOver<'_, C> {
    fn known(&self, active: &[Setting]) -> Option<&MeasuredConfig> {
        self.known.iter().find(|known| known.settings == active)
    }
}

impl<C: Throughput + ?Sized> Throughput for MeasuredOver<'_, C> {
    fn task_count(&self) -> usize {
        self.inner.task_count()
    }

    fn solo(&self, task: usize, batch: Batch) -> f64 {
        self.inner.solo(task, batch)
    }

    fn means(&self, active: &[Setting], out: &mut [f64]) {
        if let Some(known) = self.known(active) {
            return out.copy_from_slice(&known.rates);
        }
        self.inner.means(active, out);
    }

    fn std_errors(&self, active: &[Setting]) -> Vec<f64> {
        let known = self.known(active).map(|known| known.errors.clone());
        known.unwrap_or_else(|| self.inner.std_errors(active))
    }

    fn covers(&self, setting: Setting, running: usize) -> bool {
        self.inner.covers(setting, running)
    }
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
    let predicted_low = predicted.map(|s| valued(rates, problem, &s.settings).1);
    let least = expected(problem, objective, low) + (objective - low);
    let hoped = predicted
        .zip(predicted_low)
        .map(|(s, low)| expected(problem, s.objective, low.min(s.objective)));
    let chosen = match hoped {
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
            low,
            tasks: choices(&measured.settings),
        },
        predicted: predicted.zip(predicted_low).map(|(s, low)| Candidate {
            config: None,
            objective: s.objective,
            low: low.min(s.objective),
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
mod tests {
    use doc::Measured;
    use units::{SamplesPerSec, Weight};

    use super::*;
    use crate::{Limits, Task};

    /// Predicts `1 + share` for every task, with an error of a tenth.
    struct Line;

    impl Throughput for Line {
        fn task_count(&self) -> usize {
            2
        }
        fn solo(&self, _: usize, _: Batch) -> f64 {
            2.0
        }
        fn covers(&self, _: Setting, _: usize) -> bool {
            true
        }
        fn means(&self, active: &[Setting], out: &mut [f64]) {
            for (rate, s) in out.iter_mut().zip(active) {
                *rate = 1.0 + s.share.fraction();
            }
        }
        fn std_errors(&self, active: &[Setting]) -> Vec<f64> {
            vec![0.1; active.len()]
        }
    }

    fn workload() -> Workload {
        let text = r#"{"schema":"mt.workload/1","device":{"kind":"sim"},"tasks":[
            {"id":"a","model":"vgg16","batch_sizes":[8,16],"samples":100},
            {"id":"b","model":"vgg16","batch_sizes":[8,16],"samples":100}]}"#;
        let frames = doc::Frames::new(text.as_bytes(), "test");
        doc::Documents::new(frames).next().unwrap().unwrap()
    }

    fn corun(config: u64, share: f64, rate: f64, error: Option<f64>) -> Corun {
        let task = |id: &str| Measured {
            id: units::TaskId::new(id).unwrap(),
            batch: Batch::new(16).unwrap(),
            share: Share::from_percent(share).unwrap(),
            throughput: SamplesPerSec::new(rate).unwrap(),
            stderr: error.map(|e| SamplesPerSec::new(e).unwrap()),
            gradient: None,
            launch: doc::Launch::default(),
        };
        Corun {
            config,
            tasks: vec![task("a"), task("b")],
        }
    }

    fn problem(objective: ObjectiveKind, limits: Limits) -> Problem {
        let mut problem = Problem::of_workload(&Line, &workload(), objective, limits);
        for Task { weight, .. } in &mut problem.tasks {
            *weight = Weight::new(1.0).unwrap();
        }
        problem
    }

    fn chosen(problem: &Problem, coruns: &[Corun]) -> Option<(Chosen, Option<u64>)> {
        let known = MeasuredConfig::of_model(coruns, &workload());
        let setting = |task| Setting {
            task,
            batch: Batch::new(16).unwrap(),
            share: Share::FULL,
        };
        // By the model 4.0, of which 0.12 is the optimizer's curse.
        let predicted = predict(&Line, problem, &[setting(0), setting(1)]);
        let made = choose(&Line, &workload(), problem, &known, Some(&predicted))?;
        assert_eq!(
            made.measured.is_some(),
            made.candidates.chosen == Chosen::Measured
        );
        let config = made.candidates.measured.config;
        Some((made.candidates.chosen, config))
    }

    #[test]
    fn a_prediction_is_the_plan_where_it_is_better_by_more_than_it_is_too_good() {
        let raw = problem(ObjectiveKind::Raw, Limits::default());
        let one = |rate, error| chosen(&raw, &[corun(3, 33.33, rate, error)]).unwrap().0;
        assert_eq!(one(1.945, None), Chosen::Measured);
        assert_eq!(one(1.935, None), Chosen::Predicted);
        // The model was fitted to this noise: 3.87 + 1.96 sqrt(2) 0.1.
        assert_eq!(one(1.935, Some(0.1)), Chosen::Measured);
        assert_eq!(one(1.79, Some(0.1)), Chosen::Predicted);
    }

    #[test]
    fn measured_again_it_is_the_mean_that_counts() {
        let raw = problem(ObjectiveKind::Raw, Limits::default());
        let twice = [corun(3, 50.0, 2.3, None), corun(5, 50.0, 1.7, None)];
        let other = corun(4, 60.0, 2.01, None);
        let all = [twice[0].clone(), other, twice[1].clone()];
        assert_eq!(chosen(&raw, &all), Some((Chosen::Measured, Some(4))));
        assert_eq!(chosen(&raw, &twice), Some((Chosen::Measured, Some(3))));
    }

    #[test]
    fn constraints_hold_for_what_was_measured() {
        let floor = Limits {
            floor: 0.9,
            ..Limits::default()
        };
        let fed = problem(ObjectiveKind::Raw, floor);
        assert_eq!(chosen(&fed, &[corun(3, 50.0, 1.7, None)]), None);
        let kept = chosen(&fed, &[corun(3, 50.0, 1.95, None)]);
        assert_eq!(kept, Some((Chosen::Measured, Some(3))));
        let total = Limits {
            rv: Some(TotalShare::from_percent(120.0).unwrap()),
            ..Limits::default()
        };
        let given = problem(ObjectiveKind::Raw, total);
        assert_eq!(chosen(&given, &[corun(3, 50.0, 3.0, None)]), None);
        let small = Limits {
            policy: BatchPolicy::Same,
            ..Limits::default()
        };
        let mut same = problem(ObjectiveKind::Raw, small);
        same.tasks[0].batches.truncate(1);
        assert_eq!(chosen(&same, &[corun(3, 50.0, 3.0, None)]), None);
    }

    /// A plan at half each: 100 samples of a at 2.0/s and of b at 1.0/s, b alone at 1.5/s for the rest.
    #[test]
    fn a_round_is_measured_where_all_that_runs_at_once_in_it_was() {
        let round = problem(ObjectiveKind::Round, Limits::default());
        let mut whole = corun(1, 50.0, 2.0, None);
        whole.tasks[1].throughput = SamplesPerSec::new(1.0).unwrap();
        assert_eq!(chosen(&round, &[whole.clone()]), None);
        let mut rest = corun(2, 50.0, 1.5, None);
        rest.tasks.remove(0);
        let known = MeasuredConfig::of_model(&[whole.clone(), rest.clone()], &workload());
        let found = best(&Line, &round, &known).unwrap();
        assert_eq!(found.0.config, 1);
        // 50 s together and 50 samples at 1.5/s.
        assert!((found.1 + 50.0 + 50.0 / 1.5).abs() < 1e-6, "{}", found.1);
        assert_eq!(found.1, found.2);
        // By the model 50 s at 2.0/s each, and at 1.9/s 52.6 s: a measured round of 83 s is not the plan.
        let made = chosen(&round, &[whole, rest]);
        assert_eq!(made, Some((Chosen::Predicted, Some(1))));
        // A choice that ends at once needs no other.
        let even = chosen(&round, &[corun(3, 50.0, 2.0, None)]);
        assert_eq!(even, Some((Chosen::Measured, Some(3))));
    }

    #[test]
    fn a_model_without_measurements_is_as_before() {
        let raw = problem(ObjectiveKind::Raw, Limits::default());
        assert_eq!(chosen(&raw, &[]), None);
    }
}
