//! The chain on one mix: profile, fit, solve; and what its plan is worth.

use std::collections::HashMap;

use allocation::{Effort, Limits, Problem, Request, Scheme, SearchOptions, plan_workload, solve};
use design::DesignSettings;
use design::sequence::{Conditions, Sequence, lesson};
use device::{Device, Sim};
use doc::{BatchPolicy, Corun, Feasible, Measured, ObjectiveKind, Workload};
use predict::{Dataset, FitOptions, Predictor, TaskSpec, fit_by_merit};
use units::corun::{Setting, Throughput};
use units::{Batch, TotalShare};

use super::mixes::Mix;
use super::rival::Rival;
use super::truth::{Truth, window};
use super::{Failure, Study};

/// One chain.
pub(crate) struct Row {
    pub objective: ObjectiveKind,
    pub budget: u64,
    pub noise_percent: f64,
    /// By how much the plan stays below the best that is known, percent.
    pub plan: f64,
    /// The same of the plan by the model alone.
    pub by_model: f64,
    /// The same of the best scheme of equal shares.
    pub scheme: f64,
    /// The same of full sharing.
    pub sharing: f64,
    /// The same of one task after another.
    pub serial: f64,
    /// The same of the best co-run that each rival has tried.
    pub rivals: Vec<f64>,
    /// Whether the plan is a measured configuration.
    pub measured: bool,
    /// Tasks of the plan, and how many have their true throughput in the plan's 95 % interval.
    pub tasks: usize,
    pub held: usize,
    /// Points of percent by which the verdict promises more of one after another's time to be saved than is.
    pub promised: f64,
}

/// What one profile is made for.
pub(crate) struct Chain<'a> {
    pub mix: &'a Mix,
    pub objective: ObjectiveKind,
    pub noise_percent: f64,
    /// Of the device and of the design; what judges has others.
    pub seed: u64,
    pub budgets: &'a [u64],
}

/// All chains of a mix.
pub(crate) fn of_mix(mix: &Mix, study: &Study, rivals: &mut [Rival]) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for &objective in &study.objectives {
        let judge = Judge::new(mix, objective)?;
        for &noise_percent in &study.noise_percent {
            let chain = Chain {
                mix,
                objective,
                noise_percent,
                seed: 0,
                budgets: &study.budgets,
            };
            rows.extend(chain.rows(&judge, study, rivals)?);
        }
    }
    Ok(rows)
}

/// Seeds of the windows that judge: the profiler sees seed 0 and what follows from it.
const FRESH: [u64; 3] = [1_000_001, 1_000_002, 1_000_003];
/// Their length, seconds. Tasks that start together may fall into step with one another only after some
/// seconds, and a round lasts tens of them.
const LONG: f64 = 10.0;

/// What choices are worth in long windows of fresh seeds.
pub(crate) struct Judge {
    truths: Vec<(Truth, Problem)>,
    /// The same tasks, judged by the time of a round, which a verdict is about.
    rounds: Vec<Problem>,
    /// Best choice by a search on short windows: one that is known, not the best there is.
    searched: Vec<Setting>,
}

impl Judge {
    pub fn new(mix: &Mix, objective: ObjectiveKind) -> Result<Self, Failure> {
        let truths = FRESH.iter().map(|&seed| {
            let truth = Truth::new(&mix.workload, seed, window(LONG, 1)?)?;
            let problem = Problem::of_workload(&truth, &mix.workload, objective, limits(mix));
            Ok((truth, problem))
        });
        let short = Truth::new(&mix.workload, FRESH[0], window(0.0, 1)?)?;
        let problem = Problem::of_workload(&short, &mix.workload, objective, limits(mix));
        // A proof for a round of 4 tasks would simulate a hundred thousand co-runs.
        let options = SearchOptions {
            effort: match objective {
                ObjectiveKind::Round => Effort::Local,
                _ => Effort::Auto,
            },
            ..SearchOptions::default()
        };
        let found = solve(&short, &problem, &options)?;
        let best = found.solutions.first().ok_or("nothing is feasible")?;
        let truths: Vec<(Truth, Problem)> = truths.collect::<Result<_, Failure>>()?;
        let round = |(truth, _): &(Truth, Problem)| {
            Problem::of_workload(truth, &mix.workload, ObjectiveKind::Round, limits(mix))
        };
        Ok(Self {
            rounds: truths.iter().map(round).collect(),
            truths,
            searched: best.settings.clone(),
        })
    }

    /// Mean of the objective over the fresh seeds; larger is better.
    fn worth(&self, settings: &[Setting]) -> f64 {
        let each = self.truths.iter();
        let sum: f64 = each
            .map(|(truth, problem)| problem.worth(truth, settings))
            .sum();
        sum / self.truths.len() as f64
    }

    /// Of a scheme, at the largest batch sizes or at those given, whichever are better.
    fn scheme(&self, scheme: Scheme, batches: &[Batch]) -> Result<f64, Failure> {
        let tasks = self
            .truths
            .iter()
            .flat_map(|(_, problem)| &problem.tasks)
            .take(batches.len());
        let largest: Vec<Batch> = tasks.filter_map(|t| t.batches.last().copied()).collect();
        let mut most = f64::NEG_INFINITY;
        for sizes in [&largest[..], batches] {
            let mut sum = 0.0;
            for (truth, problem) in &self.truths {
                sum += scheme.predict(truth, problem, sizes)?.objective;
            }
            most = most.max(sum / self.truths.len() as f64);
        }
        Ok(most)
    }

    /// Tasks whose true throughput lies in the interval of the plan.
    fn held(&self, found: &Feasible) -> usize {
        let settings = settings_of(found);
        let mut truth = vec![0.0; settings.len()];
        for (rates, _) in &self.truths {
            let mut one = vec![0.0; settings.len()];
            rates.means(&settings, &mut one);
            for (all, one) in truth.iter_mut().zip(&one) {
                *all += one / self.truths.len() as f64;
            }
        }
        let each = found.decisions.iter().zip(truth);
        each.filter(|(d, t)| (d.throughput.low.get()..=d.throughput.high.get()).contains(t))
            .count()
    }

    /// How much of one after another's time the plan saves, percent, less what is really saved.
    fn promised(&self, found: &Feasible) -> Result<f64, Failure> {
        let verdict = found.verdict.as_ref().ok_or("no verdict")?;
        let saved = |together: f64, serial: f64| 100.0 * (1.0 - together / serial);
        let told = saved(verdict.together.get(), verdict.one_after_another.get());
        let settings = settings_of(found);
        let batches: Vec<Batch> = verdict.tasks.iter().map(|t| t.batch).collect();
        let (mut together, mut serial) = (0.0, 0.0);
        for ((truth, _), round) in self.truths.iter().zip(&self.rounds) {
            together -= round.worth(truth, &settings);
            serial -= Scheme::Temporal.predict(truth, round, &batches)?.objective;
        }
        Ok(told - saved(together, serial))
    }
}

fn settings_of(found: &Feasible) -> Vec<Setting> {
    let each = found.decisions.iter().enumerate();
    each.map(|(task, d)| Setting {
        task,
        batch: d.batch,
        share: d.share,
    })
    .collect()
}

fn limits(mix: &Mix) -> Limits {
    Limits {
        step: mix.step,
        ..Limits::default()
    }
}

impl Chain<'_> {
    /// One for each budget. A larger budget only adds to a design, so that one profile is enough.
    pub fn rows(
        &self,
        judge: &Judge,
        study: &Study,
        rivals: &mut [Rival],
    ) -> Result<Vec<Row>, Failure> {
        let most = self.budgets.iter().copied().max().unwrap_or(0);
        let profile = self.profile(most, study)?;
        let best = self.best_of(rivals, study)?;
        let mut rows = Vec::new();
        for (position, &budget) in self.budgets.iter().enumerate() {
            let tried: Vec<&[Setting]> = best.iter().map(|best| &best[position][..]).collect();
            let row = self.row(judge, &profile, &tried, budget)?;
            if study.each {
                println!(
                    "{:60} {:9} {budget:3} noise {}: plan {:6.2} %, by model {:6.2} %, static {:6.2} %, \
                     promised {:+.2}, held {} of {}{}",
                    self.mix.name,
                    doc::name_of(&self.objective),
                    self.noise_percent,
                    row.plan,
                    row.by_model,
                    row.scheme,
                    row.promised,
                    row.held,
                    row.tasks,
                    if row.measured { ", measured" } else { "" }
                );
            }
            rows.push(row);
        }
        Ok(rows)
    }

    /// What each rival finds best, by budget.
    fn best_of(
        &self,
        rivals: &mut [Rival],
        study: &Study,
    ) -> Result<Vec<Vec<Vec<Setting>>>, Failure> {
        let (workload, noise) = (&self.mix.workload, self.noise_percent);
        let exact = window(study.window_s, study.repeats)?;
        let seen = Truth::with_noise(workload, self.seed, exact, noise)?;
        let problem = Problem::of_workload(&seen, workload, self.objective, limits(self.mix));
        let best = |r: &mut Rival| r.best(&seen, &problem, self.mix.step, self.seed, self.budgets);
        rivals.iter_mut().map(best).collect()
    }

    fn row(
        &self,
        judge: &Judge,
        profile: &[Tried],
        tried: &[&[Setting]],
        budget: u64,
    ) -> Result<Row, Failure> {
        let workload = &self.mix.workload;
        let seen = || profile.iter().filter(|tried| tried.coruns <= budget);
        let data = Dataset {
            tasks: TaskSpec::all(workload),
            samples: seen().map(|t| lesson(&t.runs, &t.rates)).collect(),
        };
        let coruns: Vec<Corun> = seen().map(|t| corun(workload, &t.runs, &t.rates)).collect();
        let fitted = fit_by_merit(&data, &FitOptions::default())?;
        let predictor = Predictor::from_params(&fitted.params(workload), workload)?;
        let request = Request::new(self.objective, limits(self.mix));
        let plan = |measured: &[Corun]| -> Result<Feasible, Failure> {
            let plan = plan_workload(&predictor, workload, &request, measured, None)?;
            let found = plan.feasible().ok_or("the plan is infeasible")?;
            Ok(found.clone())
        };
        let (found, by_model) = (plan(&coruns)?, plan(&[])?);
        let settings = settings_of(&found);
        let batches: Vec<Batch> = settings.iter().map(|s| s.batch).collect();
        let measured = data.samples.iter().any(|s| s.active == settings);
        let [plan, by_model, searched] =
            [&settings, &settings_of(&by_model), &judge.searched].map(|s| judge.worth(s));
        let mut scheme = f64::NEG_INFINITY;
        for one in Scheme::EQUAL {
            scheme = scheme.max(judge.scheme(one, &batches)?);
        }
        let sharing = judge.scheme(Scheme::Sharing, &batches)?;
        let serial = judge.scheme(Scheme::Temporal, &batches)?;
        let tried: Vec<f64> = tried.iter().map(|best| judge.worth(best)).collect();
        let known = [searched, plan, by_model, scheme];
        let best = known
            .iter()
            .chain(&tried)
            .copied()
            .fold(f64::NEG_INFINITY, f64::max);
        // Of a round, whose worth is minus its time: percent longer than the shortest.
        let regret = |worth: f64| 100.0 * (best - worth) / best.abs();
        Ok(Row {
            objective: self.objective,
            budget,
            noise_percent: self.noise_percent,
            plan: regret(plan),
            by_model: regret(by_model),
            scheme: regret(scheme),
            sharing: regret(sharing),
            serial: regret(serial),
            rivals: tried.into_iter().map(regret).collect(),
            measured,
            tasks: settings.len(),
            held: judge.held(&found),
            promised: judge.promised(&found)?,
        })
    }

    /// What mt-profile measures.
    fn profile(&self, budget: u64, study: &Study) -> Result<Vec<Tried>, Failure> {
        let workload = &self.mix.workload;
        let options = device::Options {
            noise_percent: self.noise_percent,
            seed: self.seed,
            ..device::Options::default()
        };
        let mut device = Sim::open(workload, &options)?;
        let seen = window(study.window_s, study.repeats)?;
        let all = TotalShare::from_hundredths(10_000 * workload.tasks.len() as u32);
        let settings = DesignSettings {
            strategy: study.strategy,
            budget: Some(budget),
            step: self.mix.step,
            rv_min: TotalShare::from_hundredths(100),
            rv_max: all,
            subsets: 0.2,
            tolerance: 0.0,
            batch: Some(BatchPolicy::Free),
            objective: Some(self.objective),
            floor: 0.0,
        };
        let conditions = Conditions {
            only: None,
            drifts: false,
            earlier: None,
            seed: self.seed,
        };
        let mut sequence = Sequence::designed(workload, &settings, conditions)
            .map_err(|error| format!("{error:?}"))?;
        let mut profile = Vec::new();
        let mut coruns = 0;
        let mut times: HashMap<Vec<Setting>, u32> = HashMap::new();
        let next = |s: &mut Sequence| s.next_configuration().map_err(|error| format!("{error:?}"));
        while let Some(runs) = next(&mut sequence)? {
            coruns += u64::from(runs.len() > 1);
            let before = times.entry(runs.clone()).or_default();
            let measured = device.measure_again(&runs, &seen, *before).ok();
            *before += 1;
            sequence.observe(&runs, measured.as_ref().map(|m| &m.rates[..]));
            profile.extend(measured.map(|measured| Tried {
                coruns,
                runs,
                rates: measured.rates,
            }));
        }
        Ok(profile)
    }
}

/// What was measured of a configuration.
struct Tried {
    /// Number of co-runs that had been tried with it.
    coruns: u64,
    runs: Vec<Setting>,
    rates: Vec<device::Rate>,
}

fn corun(workload: &Workload, runs: &[Setting], rates: &[device::Rate]) -> Corun {
    let tasks = runs.iter().zip(rates).map(|(run, rate)| Measured {
        id: workload.tasks[run.task].id.clone(),
        batch: run.batch,
        share: run.share,
        throughput: rate.throughput,
        stderr: rate.stderr,
        gradient: None,
        launch: rate.launch,
    });
    Corun {
        config: 0,
        tasks: tasks.collect(),
    }
}
