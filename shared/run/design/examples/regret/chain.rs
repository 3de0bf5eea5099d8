//! The chain on one mix: profile, fit, solve; and what its plan is worth.

use std::collections::HashSet;

use allocation::{Limits, Problem, Request, Scheme, SearchOptions, plan_workload, solve};
use design::sequence::{Conditions, Sequence, lesson};
use design::{DesignSettings, Strategy};
use device::{Device, Sim};
use doc::{Corun, Measured, ObjectiveKind, Workload};
use predict::{Dataset, FitOptions, Predictor, TaskSpec, fit_by_merit};
use units::corun::Setting;
use units::{Batch, TotalShare};

use super::mixes::Mix;
use super::truth::{Truth, window};
use super::{Failure, Study};

/// One chain.
pub(crate) struct Row {
    pub objective: ObjectiveKind,
    pub budget: u64,
    /// By how much the plan stays below the best that is known, percent.
    pub plan: f64,
    /// The same of the plan by the model alone.
    pub by_model: f64,
    /// The same of the best scheme of equal shares.
    pub scheme: f64,
    /// Whether the plan is a measured configuration.
    pub measured: bool,
}

/// All chains of a mix.
pub(crate) fn of_mix(mix: &Mix, study: &Study) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for &objective in &study.objectives {
        let judge = Judge::new(mix, objective)?;
        for &budget in &study.budgets {
            let row = chain(mix, &judge, objective, budget, study)?;
            if study.each {
                println!(
                    "{:60} {:9} {budget:3}: plan {:6.2} %, by model {:6.2} %, static {:6.2} %{}",
                    mix.name,
                    doc::name_of(&objective),
                    row.plan,
                    row.by_model,
                    row.scheme,
                    if row.measured { ", measured" } else { "" }
                );
            }
            rows.push(row);
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
struct Judge {
    truths: Vec<(Truth, Problem)>,
    /// Best choice by a search on short windows: one that is known, not the best there is.
    searched: Vec<Setting>,
}

impl Judge {
    fn new(mix: &Mix, objective: ObjectiveKind) -> Result<Self, Failure> {
        let truths = FRESH.iter().map(|&seed| {
            let truth = Truth::new(&mix.workload, seed, window(LONG, 1)?)?;
            let problem = Problem::of_workload(&truth, &mix.workload, objective, limits(mix));
            Ok((truth, problem))
        });
        let short = Truth::new(&mix.workload, FRESH[0], window(0.0, 1)?)?;
        let problem = Problem::of_workload(&short, &mix.workload, objective, limits(mix));
        let options = SearchOptions::default();
        let found = solve(&short, &problem, &options)?;
        let best = found.solutions.first().ok_or("nothing is feasible")?;
        Ok(Self {
            truths: truths.collect::<Result<_, Failure>>()?,
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

    /// Of the best scheme of equal shares, at the largest batch sizes and at those given.
    fn scheme(&self, batches: &[Batch]) -> f64 {
        let tasks = self.truths.iter().flat_map(|(_, problem)| &problem.tasks);
        let tasks = tasks.take(batches.len());
        let largest: Vec<Batch> = tasks.filter_map(|t| t.batches.last().copied()).collect();
        let mut most = f64::NEG_INFINITY;
        for scheme in Scheme::ALL.iter().filter(|s| **s != Scheme::Temporal) {
            for sizes in [&largest[..], batches] {
                let share = scheme.share(sizes.len());
                let each = sizes.iter().enumerate();
                let settings: Vec<Setting> = each
                    .map(|(task, &batch)| Setting { task, batch, share })
                    .collect();
                most = most.max(self.worth(&settings));
            }
        }
        most
    }
}

fn limits(mix: &Mix) -> Limits {
    Limits {
        step: mix.step,
        ..Limits::default()
    }
}

fn chain(
    mix: &Mix,
    judge: &Judge,
    objective: ObjectiveKind,
    budget: u64,
    study: &Study,
) -> Result<Row, Failure> {
    let (data, coruns) = profile(mix, objective, budget, study)?;
    let fitted = fit_by_merit(&data, &FitOptions::default())?;
    let params = fitted.params(&mix.workload);
    let predictor = Predictor::from_params(&params, &mix.workload)?;
    let request = Request::new(objective, limits(mix));
    let settings = |measured: &[Corun]| -> Result<Vec<Setting>, Failure> {
        let plan = plan_workload(&predictor, &mix.workload, &request, measured, None)?;
        let found = plan.feasible().ok_or("the plan is infeasible")?;
        let each = found.decisions.iter().enumerate();
        Ok(each
            .map(|(task, d)| Setting {
                task,
                batch: d.batch,
                share: d.share,
            })
            .collect())
    };
    let (plan, by_model) = (settings(&coruns)?, settings(&[])?);
    let batches: Vec<Batch> = plan.iter().map(|s| s.batch).collect();
    let known: HashSet<Vec<Setting>> = data.samples.iter().map(|s| s.active.clone()).collect();
    let is_measured = known.contains(&plan);
    let [plan, by_model, searched] = [&plan, &by_model, &judge.searched].map(|s| judge.worth(s));
    let scheme = judge.scheme(&batches);
    let best = searched.max(plan).max(by_model).max(scheme);
    // Of a round, whose worth is minus its time: percent longer than the shortest.
    let regret = |worth: f64| 100.0 * (best - worth) / best.abs();
    Ok(Row {
        objective,
        budget,
        plan: regret(plan),
        by_model: regret(by_model),
        scheme: regret(scheme),
        measured: is_measured,
    })
}

/// What mt-profile measures, and the co-runs of all tasks that mt-fit keeps.
fn profile(
    mix: &Mix,
    objective: ObjectiveKind,
    budget: u64,
    study: &Study,
) -> Result<(Dataset, Vec<Corun>), Failure> {
    let options = device::Options {
        noise_percent: study.noise_percent,
        ..device::Options::default()
    };
    let mut device = Sim::open(&mix.workload, &options)?;
    let seen = window(study.window_s, study.repeats)?;
    let all = TotalShare::from_hundredths(10_000 * mix.workload.tasks.len() as u32);
    let settings = DesignSettings {
        strategy: Strategy::Adaptive,
        budget: Some(budget),
        step: mix.step,
        rv_min: TotalShare::from_hundredths(100),
        rv_max: all,
        subsets: 0.2,
        tolerance: 0.0,
        objective: Some(objective),
        floor: 0.0,
    };
    let conditions = Conditions {
        only: None,
        drifts: false,
        earlier: None,
        seed: 0,
    };
    let mut sequence = Sequence::designed(&mix.workload, &settings, conditions)
        .map_err(|error| format!("{error:?}"))?;
    let mut data = Dataset {
        tasks: TaskSpec::all(&mix.workload),
        samples: Vec::new(),
    };
    let mut coruns = Vec::new();
    let next = |s: &mut Sequence| s.next_configuration().map_err(|error| format!("{error:?}"));
    while let Some(runs) = next(&mut sequence)? {
        let Ok(measured) = device.measure(&runs, &seen) else {
            sequence.observe(&runs, None);
            continue;
        };
        sequence.observe(&runs, Some(&measured.rates));
        data.samples.push(lesson(&runs, &measured.rates));
        coruns.push(corun(&mix.workload, &runs, &measured.rates));
    }
    Ok((data, coruns))
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
