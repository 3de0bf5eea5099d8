//! Predicted by a plan against measured afterwards.

use std::collections::BTreeMap;

use doc::{Answer, Choice, Plan, Profile, Sample, Scheme};
use units::TaskId;

use super::pictures;
use crate::number::{change, plain};
use crate::page::{Cell, Report, Table};

/// Batch size and share in hundredths of a percent of every task, by name.
type Setting = BTreeMap<String, (u64, u32)>;

/// Whether a profile measures tasks of the plan.
pub fn concerns(plan: &Plan, profile: &Profile) -> bool {
    let known = |id: &TaskId| profile.header.workload.task_index(id).is_some();
    !matches!(plan.answer, Answer::Infeasible(_)) && plan.tasks.iter().all(|t| known(&t.id))
}

/// A choice of the plan and what it promises.
#[derive(Debug)]
pub struct Promise {
    name: String,
    setting: Setting,
    rates: Option<Vec<(String, f64)>>,
    /// Samples per second of all tasks.
    pub total: f64,
    fairness: Option<f64>,
}

impl Promise {
    /// Sum of the shares in percent.
    pub fn rv_percent(&self) -> f64 {
        let hundredths: u32 = self.setting.values().map(|(_, share)| share).sum();
        f64::from(hundredths) / 100.0
    }
}

fn setting_of(choices: &[Choice]) -> Setting {
    let value = |c: &Choice| (u64::from(c.batch.get()), c.share.hundredths());
    let each = choices.iter();
    each.map(|c| (c.id.as_str().to_owned(), value(c))).collect()
}

/// What a plan promises of its own choice, if it predicts anything.
pub fn own(plan: &Plan) -> Option<Promise> {
    let mut setting = Setting::new();
    let mut rates = Vec::new();
    let mut fairness = Some(0.0);
    for (i, task) in plan.tasks.iter().enumerate() {
        let given = plan.given(i);
        let id = task.id.as_str().to_owned();
        let batch = u64::from(given.batch?.get());
        setting.insert(id.clone(), (batch, given.share?.hundredths()));
        let rate = given.throughput?.mean.get();
        fairness = fairness
            .zip(given.solo)
            .map(|(sum, solo)| sum + rate / solo.get());
        rates.push((id, rate));
    }
    Some(Promise {
        name: "plan".to_owned(),
        setting,
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
            setting: setting_of(&b.tasks),
            rates: None,
            total: b.total_samples_per_s,
            fairness: Some(b.fairness),
        });
    let others = found.into_iter().flat_map(|found| &found.alternatives);
    let others = others.enumerate().map(|(i, p)| Promise {
        name: format!("alternative {}", i + 1),
        setting: setting_of(&p.tasks),
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

/// The sample of a profile that measured what was promised.
pub fn measured_as<'a>(promise: &Promise, profile: &'a Profile) -> Option<&'a Sample> {
    profile.samples.iter().find(|sample| {
        let tasks = sample.tasks.iter();
        let setting: Setting = tasks
            .map(|t| {
                let value = (u64::from(t.batch.get()), t.share.hundredths());
                (t.id.as_str().to_owned(), value)
            })
            .collect();
        setting == promise.setting
    })
}

/// Adds tables of what the plan promised and what was measured.
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
        let total: f64 = sample.tasks.iter().map(|t| t.throughput.get()).sum();
        measured.push((promise.name.clone(), Some(promise.total), total));
        totals.rows.push(vec![
            promise.name.clone().into(),
            Cell::Number(promise.total),
            Cell::Number(total),
            Cell::Number(100.0 * (promise.total / total - 1.0)),
            Cell::number(promise.fairness),
            Cell::number(fairness(plan, profile, sample)),
        ]);
        for (id, rate) in promise.rates.into_iter().flatten() {
            let truth = sample.tasks.iter().find(|t| t.id.as_str() == id);
            let truth = truth.map(|t| t.throughput.get());
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
        let claimed = schemes.find(|b| b.name == Scheme::Temporal);
        let claimed = claimed.map(|b| b.total_samples_per_s);
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

/// What the plan gains over each scheme, as measured.
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

/// Throughput of a task alone at a batch size, as measured.
fn solo(profile: &Profile, id: &TaskId, batch: units::Batch) -> Option<f64> {
    let alone = profile.samples.iter().find_map(|s| match &s.tasks[..] {
        [t] if t.id == *id && t.batch == batch && t.share == units::Share::FULL => Some(t),
        _ => None,
    });
    alone.map(|t| t.throughput.get())
}

/// `sum P_i / S_i`, where the solo runs were measured too, else with the plan's.
fn fairness(plan: &Plan, profile: &Profile, sample: &Sample) -> Option<f64> {
    let parts: Option<Vec<f64>> = sample
        .tasks
        .iter()
        .map(|t| {
            let planned = plan.given_of(&t.id);
            let planned = planned.solo.filter(|_| planned.batch == Some(t.batch));
            let solo = solo(profile, &t.id, t.batch).or(planned.map(units::SamplesPerSec::get))?;
            Some(t.throughput.get() / solo)
        })
        .collect();
    parts.map(|p| p.into_iter().sum())
}

/// Total throughput of one task after another with equal work: `n / sum(1 / S_i)`.
fn temporal(plan: &Plan, profile: &Profile) -> Option<f64> {
    let times: Option<Vec<f64>> = plan
        .tasks
        .iter()
        .map(|t| Some(1.0 / solo(profile, &t.id, plan.given_of(&t.id).batch?)?))
        .collect();
    let times = times.filter(|t| !t.is_empty())?;
    Some(times.len() as f64 / times.iter().sum::<f64>())
}
