//! Compares a plan's predictions with later measurements.

use std::collections::BTreeMap;

use doc::{Answer, Choice, Measured, Plan, Profile, Sample, Scheme};
use units::TaskId;

use super::{pictures, seen};
use crate::number::{change, plain};
use crate::page::{Cell, Report, Table};

/// Batch size and share in hundredths of a percent of every task, by name.
type Setting = BTreeMap<String, (u64, u32)>;

/// Whether a profile measures tasks of the plan.
pub fn concerns(plan: &Plan, profile: &Profile) -> bool {
    let known = |id: &TaskId| profile.header.workload.task_index(id).is_some();
    !matches!(plan.answer, Answer::Infeasible(_)) && plan.tasks.iter().all(|t| known(&t.id))
}

/// A choice of the plan (its own, a baseline or an alternative), with the predictions for it.
#[derive(Debug)]
pub struct Promise {
    name: String,
    /// Setting of each GPU.
    settings: Vec<Setting>,
    rates: Option<Vec<(String, f64)>>,
    /// Predicted samples per second of all tasks together.
    pub total: f64,
    fairness: Option<f64>,
}

impl Promise {
    /// Sum of the shares in percent.
    pub fn rv_percent(&self) -> f64 {
        let shares = self.settings.iter().flat_map(Setting::values);
        let hundredths: u32 = shares.map(|(_, share)| share).sum();
        f64::from(hundredths) / 100.0
    }
}

/// Choices of all tasks, separately for each GPU of the plan: the tasks of one GPU run together.
fn settings_of<'a>(plan: &Plan, choices: impl Iterator<Item = &'a Choice>) -> Vec<Setting> {
    let mut gpus: BTreeMap<u32, Setting> = BTreeMap::new();
    for c in choices {
        let task = plan.task_index(&c.id);
        let gpu = task.and_then(|i| plan.tasks[i].gpu).unwrap_or(0);
        let value = (u64::from(c.batch.get()), c.share.hundredths());
        gpus.entry(gpu)
            .or_default()
            .insert(c.id.as_str().to_owned(), value);
    }
    gpus.into_values().collect()
}

/// The plan's own choice with its predictions, if it has any.
pub fn own(plan: &Plan) -> Option<Promise> {
    let mut choices = Vec::new();
    let mut rates = Vec::new();
    let mut fairness = Some(0.0);
    for (i, task) in plan.tasks.iter().enumerate() {
        let given = plan.given(i);
        let id = task.id.as_str().to_owned();
        choices.push(Choice {
            id: task.id.clone(),
            batch: given.batch?,
            share: given.share?,
        });
        let rate = given.throughput?.mean.get();
        fairness = fairness
            .zip(given.solo)
            .map(|(sum, solo)| sum + rate / solo.get());
        rates.push((id, rate));
    }
    Some(Promise {
        name: "plan".to_owned(),
        settings: settings_of(plan, choices.iter()),
        total: rates.iter().map(|(_, r)| r).sum(),
        rates: Some(rates),
        fairness,
    })
}

fn promises(plan: &Plan) -> Vec<Promise> {
    let found = plan.feasible();
    let baselines = found
        .into_iter()
        .flat_map(|found| &found.baselines)
        .filter(|b| b.name != Scheme::Temporal)
        .map(|b| Promise {
            name: b.name.name().to_owned(),
            settings: settings_of(plan, b.tasks.iter()),
            rates: None,
            total: b.total_samples_per_s,
            fairness: Some(b.fairness),
        });
    let others = found
        .into_iter()
        .flat_map(|found| &found.alternatives)
        .enumerate()
        .map(|(i, p)| Promise {
            name: format!("alternative {}", i + 1),
            settings: settings_of(plan, p.tasks.iter()),
            rates: None,
            total: p.total_samples_per_s,
            fairness: Some(p.fairness),
        });
    own(plan)
        .into_iter()
        .chain(baselines)
        .chain(others)
        .collect()
}

/// Measurements of each task at a predicted choice, if the profile has them for every GPU.
pub fn measured_as<'a>(promise: &Promise, profile: &'a Profile) -> Option<Vec<&'a Measured>> {
    let of_gpu = |setting: &Setting| {
        let same = |sample: &&Sample| {
            let each = sample.tasks.iter().map(|t| {
                let value = (u64::from(t.batch.get()), t.share.hundredths());
                (t.id.as_str().to_owned(), value)
            });
            each.collect::<Setting>() == *setting
        };
        profile.samples.iter().find(same)
    };
    let samples: Option<Vec<&Sample>> = promise.settings.iter().map(of_gpu).collect();
    Some(samples?.into_iter().flat_map(|s| &s.tasks).collect())
}

/// Adds tables that compare predictions and measurements.
pub fn add(report: &mut Report, plan: &Plan, profile: &Profile) {
    let mut totals = Table::new("compared", "Predicted by the plan against measured, total")
        .column("scheme", "scheme", "")
        .measured("predicted_samples_per_s", "predicted", "samples/s")
        .measured("measured_samples_per_s", "measured", "samples/s")
        .column("error_percent", "error", "%")
        .measured("predicted_fairness", "predicted fairness", "sum of P/S")
        .measured("measured_fairness", "measured fairness", "sum of P/S");
    let mut tasks = Table::new(
        "compared_tasks",
        "Predicted by the plan against measured, each task",
    )
    .column("task", "task", "")
    .measured("predicted_samples_per_s", "predicted", "samples/s")
    .measured("measured_samples_per_s", "measured", "samples/s")
    .column("error_percent", "error", "%");
    let mut measured: Vec<(String, Option<f64>, f64)> = Vec::new();
    let mut pairs: Vec<(String, f64, f64)> = Vec::new();
    for promise in promises(plan) {
        let Some(sample) = measured_as(&promise, profile) else {
            continue;
        };
        let total: f64 = sample.iter().map(|t| t.throughput.get()).sum();
        measured.push((promise.name.clone(), Some(promise.total), total));
        totals.rows.push(vec![
            promise.name.clone().into(),
            Cell::Number(promise.total),
            Cell::Number(total),
            Cell::Number(100.0 * (promise.total / total - 1.0)),
            Cell::number(promise.fairness),
            Cell::number(fairness(plan, profile, &sample)),
        ]);
        for (id, rate) in promise.rates.into_iter().flatten() {
            let truth = sample
                .iter()
                .find(|t| t.id.as_str() == id)
                .map(|t| t.throughput.get());
            pairs.extend(truth.map(|t| (id.clone(), rate, t)));
            tasks.rows.push(vec![
                id.into(),
                Cell::Number(rate),
                Cell::number(truth),
                Cell::number(truth.map(|t| 100.0 * (rate / t - 1.0))),
            ]);
        }
    }
    if let Some(temporal) = temporal(plan, profile) {
        let mut schemes = plan
            .feasible()
            .into_iter()
            .flat_map(|found| &found.baselines);
        let claimed = schemes
            .find(|b| b.name == Scheme::Temporal)
            .map(|b| b.total_samples_per_s);
        totals.rows.push(vec![
            "temporal".into(),
            Cell::number(claimed),
            Cell::Number(temporal),
            Cell::number(claimed.map(|c| 100.0 * (c / temporal - 1.0))),
            Cell::Empty,
            Cell::Empty,
        ]);
        measured.push(("temporal".to_owned(), claimed, temporal));
    }
    if let Some(verdict) = seen::verdict(plan, profile) {
        report.fact("measured verdict", verdict);
    }
    gains(report, &measured);
    pictures::measured_schemes(report, &measured);
    pictures::predicted(report, &pairs);
    if super::plan::simulated(plan) && !report.simulated {
        report
            .notes
            .push("The predictions were learnt from simulated samples.".to_owned());
    }
    report.table(totals.without_empty_columns());
    report.table(tasks);
}

/// Adds the plan's measured gain over each scheme.
fn gains(report: &mut Report, measured: &[(String, Option<f64>, f64)]) {
    let Some((_, _, plan)) = measured.iter().find(|(name, ..)| name == "plan") else {
        return;
    };
    let others = measured
        .iter()
        .filter(|(name, ..)| name != "plan" && !name.starts_with("alt"));
    let gains: Vec<String> = others
        .map(|(name, _, total)| {
            format!("{name} {}x ({})", plain(plan / total), change(plan / total))
        })
        .collect();
    if !gains.is_empty() {
        report.fact("measured gain of the plan over", gains.join(", "));
    }
}

/// `sum P_i / S_i` with measured solo runs if there are any, otherwise with the plan's.
fn fairness(plan: &Plan, profile: &Profile, sample: &[&Measured]) -> Option<f64> {
    let parts: Option<Vec<f64>> = sample
        .iter()
        .map(|t| {
            let given = plan.given_of(&t.id);
            let planned = given.solo.filter(|_| given.batch == Some(t.batch));
            let solo =
                seen::solo(profile, &t.id, t.batch).or(planned.map(units::SamplesPerSec::get))?;
            Some(t.throughput.get() / solo)
        })
        .collect();
    parts.map(|p| p.into_iter().sum())
}

/// Total throughput if tasks with equal work run one after another, at the batch sizes of the plan: `n / sum(1 /
/// S_i)`.
fn temporal(plan: &Plan, profile: &Profile) -> Option<f64> {
    let times: Option<Vec<f64>> = plan
        .tasks
        .iter()
        .map(|t| Some(1.0 / seen::solo(profile, &t.id, plan.given_of(&t.id).batch?)?))
        .collect();
    let times = times.filter(|t| !t.is_empty())?;
    Some(times.len() as f64 / times.iter().sum::<f64>())
}
