//! The chain on one mix: profile, fit, solve; and what its plan is worth.

use std::collections::HashSet;

use allocation::{Effort, Limits, Options, Problem, Request, Scheme, plan_workload, solve};
use corun::Setting;
use design::sequence::{Conditions, Sequence, lesson};
use design::{DesignSettings, Strategy};
use device::{Device, Sim};
use doc::{Corun, Measured, ObjectiveKind, Workload};
use predict::{Dataset, FitOptions, Predictor, TaskSpec, fit_by_merit};
use units::{Batch, TotalShare};

use super::mixes::Mix;
use super::truth::{Truth, WINDOW};
use super::{Failure, Study};

/// One chain.
pub(crate) struct Row {
    pub objective: ObjectiveKind,
    pub budget: u64,
    /// By how much the plan stays below the best there is, percent.
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
    let truth = Truth::new(&mix.workload)?;
    let mut rows = Vec::new();
    for &objective in &study.objectives {
        let judge = Judge::new(mix, &truth, objective)?;
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

/// What choices are worth by the truth.
struct Judge<'a> {
    truth: &'a Truth,
    problem: Problem,
    best: f64,
}

impl<'a> Judge<'a> {
    fn new(mix: &Mix, truth: &'a Truth, objective: ObjectiveKind) -> Result<Self, Failure> {
        let problem = Problem::of_workload(truth, &mix.workload, objective, limits(mix));
        let options = Options {
            effort: Effort::Exact,
            ..Options::default()
        };
        let found = solve(truth, &problem, &options)?;
        let best = found.solutions.first().ok_or("nothing is feasible")?;
        Ok(Self {
            truth,
            best: best.objective,
            problem,
        })
    }

    /// Percent below the best; of a round, longer than the shortest.
    fn regret(&self, settings: &[Setting]) -> Result<f64, Failure> {
        let value = self.problem.worth(self.truth, settings);
        Ok(100.0 * (self.best - value) / self.best.abs())
    }

    /// Of the best scheme of equal shares, at the largest batch sizes and at those given.
    fn scheme(&self, batches: &[Batch]) -> Result<f64, Failure> {
        let largest: Vec<Batch> = self
            .problem
            .tasks
            .iter()
            .filter_map(|t| t.batches.last().copied())
            .collect();
        let mut least = f64::INFINITY;
        for scheme in Scheme::ALL.iter().filter(|s| **s != Scheme::Temporal) {
            for sizes in [&largest[..], batches] {
                let share = scheme.share(sizes.len());
                let each = sizes.iter().enumerate();
                let settings: Vec<Setting> = each
                    .map(|(task, &batch)| Setting { task, batch, share })
                    .collect();
                least = least.min(self.regret(&settings)?);
            }
        }
        Ok(least)
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
    judge: &Judge<'_>,
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
    Ok(Row {
        objective,
        budget,
        plan: judge.regret(&plan)?,
        by_model: judge.regret(&by_model)?,
        scheme: judge.scheme(&batches)?,
        measured: known.contains(&plan),
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
        let Ok(measured) = device.measure(&runs, &WINDOW) else {
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
