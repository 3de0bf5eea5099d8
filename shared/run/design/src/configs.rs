//! Configurations from other sources: plans, timelines, profiles, tables.

use std::collections::BTreeMap;

use doc::{Answer, Any, Choice, DeviceKind, Plan, Profile, Timeline, Verdict, Workload};
use units::corun::Setting;
use units::{Batch, Share};

use crate::DesignError;
use crate::sequence::Configuration;

/// Configurations, and the workload that they belong to.
#[derive(Debug, Clone)]
pub struct Given {
    /// The workload, if the document contains it.
    pub workload: Option<Workload>,
    /// Each configuration is a list of tasks by name, with batch size and share.
    pub choices: Vec<Vec<Choice>>,
    /// Whether a repeated configuration is measured again. In a table, the repetition is intended; the baselines of a
    /// plan may be equal by chance.
    pub repeats: bool,
}

impl Given {
    /// The configurations of a document; `baselines` adds those of a plan.
    pub fn of(document: Any, baselines: bool) -> Result<Self, DesignError> {
        match document {
            Any::Plan(plan) => of_plan(*plan, None, baselines),
            Any::Timeline(timeline) => {
                let Timeline { plan, batches, .. } = *timeline;
                of_plan(plan, Some(&batches), baselines)
            }
            Any::Profile(profile) => Ok(of_profile(*profile)),
            Any::Workload(_)
            | Any::Model(_)
            | Any::Run(_)
            | Any::Allocations(_)
            | Any::Cluster(_)
            | Any::Schedule(_)
            | Any::Status(_) => Err(DesignError::Given(
                "this document names no configurations; give plans, timelines, \
                 profiles or a CSV table"
                    .to_owned(),
            )),
        }
    }

    /// Configurations of a table, by index in the workload.
    pub fn of_runs(
        workload: &Workload,
        configurations: impl Iterator<Item = Configuration>,
    ) -> Self {
        let choice = |run: &Setting| Choice {
            id: workload.tasks[run.task].id.clone(),
            batch: run.batch,
            share: run.share,
        };
        Self {
            workload: None,
            repeats: true,
            choices: configurations
                .map(|runs| runs.iter().map(choice).collect())
                .collect(),
        }
    }

    /// The configurations by index in the workload, each once unless `repeats` is set. With `solos`, the solo runs of
    /// every batch size in use come first.
    pub fn configurations(
        &self,
        workload: &Workload,
        solos: bool,
    ) -> Result<Vec<Configuration>, DesignError> {
        let mut all: Vec<Configuration> = Vec::new();
        for choices in &self.choices {
            let runs = runs(workload, choices)?;
            if self.repeats || !all.contains(&runs) {
                all.push(runs);
            }
        }
        if !solos {
            return Ok(all);
        }
        let mut used: Vec<(usize, Batch)> =
            all.iter().flatten().map(|r| (r.task, r.batch)).collect();
        used.sort_unstable();
        used.dedup();
        let mut first: Vec<Configuration> = used
            .into_iter()
            .map(|(task, batch)| {
                vec![Setting {
                    task,
                    batch,
                    share: Share::FULL,
                }]
            })
            .collect();
        for solo in &first {
            if let Some(place) = all.iter().position(|runs| runs == solo) {
                all.remove(place);
            }
        }
        first.append(&mut all);
        Ok(first)
    }
}

fn runs(workload: &Workload, choices: &[Choice]) -> Result<Configuration, DesignError> {
    let mut runs = Vec::with_capacity(choices.len());
    for choice in choices {
        let Some(task) = workload.task_index(&choice.id) else {
            let names: Vec<_> = workload.tasks.iter().map(|t| t.id.as_str()).collect();
            return Err(DesignError::Given(format!(
                "no task of the workload is called {}; the workload has {}",
                choice.id,
                names.join(", ")
            )));
        };
        runs.push(Setting {
            task,
            batch: choice.batch,
            share: choice.share,
        });
    }
    runs.sort_unstable();
    if runs.windows(2).any(|w| w[0].task == w[1].task) {
        return Err(DesignError::Given(
            "a task appears twice in one configuration; give each task once".to_owned(),
        ));
    }
    Ok(runs)
}

fn of_plan(
    plan: Plan,
    batches: Option<&[Option<Batch>]>,
    baselines: bool,
) -> Result<Given, DesignError> {
    if let Answer::Infeasible(_) = plan.answer {
        return Err(DesignError::Infeasible);
    }
    // Tasks on different GPUs do not run together.
    let mut per_gpu: BTreeMap<u32, Vec<Choice>> = BTreeMap::new();
    for (index, task) in plan.tasks.iter().enumerate() {
        let batch = batches.and_then(|b| b.get(index).copied().flatten());
        let given = plan.given(index);
        let batch = batch.or(given.batch).ok_or_else(|| lacks(index, "batch"))?;
        let share = given.share.ok_or_else(|| lacks(index, "share_percent"))?;
        let choice = Choice {
            id: task.id.clone(),
            batch,
            share,
        };
        per_gpu
            .entry(task.gpu.unwrap_or(0))
            .or_default()
            .push(choice);
    }
    let mut choices: Vec<Vec<Choice>> = per_gpu.into_values().collect();
    if let Some(found) = plan.feasible().filter(|_| baselines) {
        let schemes = found
            .baselines
            .iter()
            .filter(|b| b.name != doc::Scheme::Temporal && !b.tasks.is_empty())
            .flat_map(|b| by_gpu(&plan, &b.tasks));
        let rest: Vec<Vec<Choice>> = choices.iter().flat_map(|c| tails(&plan, c)).collect();
        choices.extend(schemes);
        choices.extend(rest);
        choices.extend(found.verdict.iter().flat_map(alone));
    }
    let workload = plan.workload().cloned();
    Ok(Given {
        workload,
        choices,
        repeats: false,
    })
}

/// Choices of all tasks, separately for each GPU of the plan: only the tasks of one GPU run together.
fn by_gpu(plan: &Plan, choices: &[Choice]) -> Vec<Vec<Choice>> {
    let mut per_gpu: BTreeMap<u32, Vec<Choice>> = BTreeMap::new();
    for choice in choices {
        let task = plan.task_index(&choice.id);
        let gpu = task.and_then(|i| plan.tasks[i].gpu).unwrap_or(0);
        per_gpu.entry(gpu).or_default().push(choice.clone());
    }
    per_gpu.into_values().collect()
}

/// The co-runs that remain on a GPU whenever a task finishes, by the plan's rates. They are needed because the length
/// of a round cannot be inferred from the co-run of all tasks.
fn tails(plan: &Plan, together: &[Choice]) -> Vec<Vec<Choice>> {
    let end = |choice: &Choice| {
        let task = plan.task_index(&choice.id)?;
        let rate = plan.given(task).throughput?.mean.get();
        Some(plan.tasks[task].samples?.as_f64() / rate)
    };
    let ends: Option<Vec<(f64, Choice)>> = together
        .iter()
        .map(|choice| Some((end(choice)?, choice.clone())))
        .collect();
    let Some(mut ends) = ends else {
        return Vec::new();
    };
    ends.sort_by(|a, b| a.0.total_cmp(&b.0));
    let device = plan.workload().map(|w| w.device.kind);
    let planned: Vec<Share> = ends.iter().map(|(_, c)| c.share).collect();
    let left = |from: usize| {
        let computes: Vec<bool> = (0..ends.len()).map(|i| i >= from).collect();
        let shares = match device {
            // Control groups redistribute the share of an ended task to the others.
            Some(DeviceKind::Cpu) => overlap::divided(&planned, &computes),
            _ => planned.clone(),
        };
        let of = |i: usize| Choice {
            share: shares[i],
            ..ends[i].1.clone()
        };
        (from..ends.len()).map(of).collect()
    };
    (1..ends.len()).map(left).collect()
}

/// Each task alone at the batch size that the verdict assumes for it.
fn alone(verdict: &Verdict) -> impl Iterator<Item = Vec<Choice>> {
    verdict.tasks.iter().map(|task| {
        vec![Choice {
            id: task.id.clone(),
            batch: task.batch,
            share: Share::FULL,
        }]
    })
}

fn lacks(task: usize, field: &str) -> DesignError {
    DesignError::Given(format!(
        "$.tasks[{task}].{field} is absent; a plan to measure needs it"
    ))
}

fn of_profile(profile: Profile) -> Given {
    let sampled = profile.samples.iter().map(|sample| {
        let tasks = sample.tasks.iter().map(|task| Choice {
            id: task.id.clone(),
            batch: task.batch,
            share: task.share,
        });
        (sample.config, tasks.collect::<Vec<_>>())
    });
    let failed = profile.failures.iter().map(|f| (f.config, f.tasks.clone()));
    let mut choices: Vec<(u64, Vec<Choice>)> = sampled.chain(failed).collect();
    choices.sort_by_key(|(config, _)| *config);
    Given {
        workload: Some(profile.header.workload),
        choices: choices.into_iter().map(|(_, tasks)| tasks).collect(),
        repeats: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_table_repeats_is_measured_again_and_what_a_document_repeats_is_not() {
        let text = r#"{"schema":"mt.workload/1","tasks":[{"id":"a","model":"vgg16","batch_sizes":[8]},
            {"id":"b","model":"vgg16","batch_sizes":[8]}]}"#;
        let frames = doc::Frames::new(text.as_bytes(), "test");
        let workload = doc::Documents::<_, Workload>::new(frames)
            .next()
            .unwrap()
            .unwrap();
        let run = |task: usize| Setting {
            task,
            batch: Batch::new(8).unwrap(),
            share: Share::FULL,
        };
        let (alone, both) = (vec![run(0)], vec![run(0), run(1)]);
        let rows = [&both, &alone, &both, &alone].map(Clone::clone);
        let table = Given::of_runs(&workload, rows.clone().into_iter());
        assert_eq!(table.configurations(&workload, false).unwrap(), rows);
        let solos = table.configurations(&workload, true).unwrap();
        let expected = [&alone, &vec![run(1)], &both, &both, &alone];
        assert_eq!(solos.iter().collect::<Vec<_>>(), expected);
        let document = Given {
            repeats: false,
            ..table
        };
        assert_eq!(
            document.configurations(&workload, false).unwrap(),
            rows[..2]
        );
    }
}
