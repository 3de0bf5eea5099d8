use std::collections::BTreeMap;

use doc::{Efficiency, EfficiencyRow, EventPayload, Profile, RunEvent, Task};
use units::{Batch, TaskId};

use crate::curve::LossCurve;
use crate::fit::{Fit, Reached, fit};
use crate::noise::{Moments, NoiseScale, Unknown};

/// Evidence from profiles and runs about the efficiency of tasks.
#[derive(Debug, Clone, Default)]
pub struct Evidence {
    tasks: BTreeMap<TaskId, Shown>,
}

#[derive(Debug, Clone, Default)]
struct Shown {
    /// Gradients in the windows of a profile.
    windows: Vec<Moments>,
    /// Gradients between the progress events of runs.
    events: Vec<Moments>,
    curves: Vec<(Batch, LossCurve)>,
}

/// Evidence about one task.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// Its efficiency; `None`: the workload's declaration is kept.
    pub efficiency: Option<Efficiency>,
    /// Why, as a message; `None` if there were no data.
    pub reason: Option<String>,
}

impl Evidence {
    /// Adds the gradients of a profile, with each window as a block.
    pub fn add_profile(&mut self, profile: &Profile) {
        for task in profile.samples.iter().flat_map(|s| &s.tasks) {
            if let Some(gradient) = &task.gradient {
                let shown = self.tasks.entry(task.id.clone()).or_default();
                shown.windows.push(Moments::from(gradient));
            }
        }
    }

    /// Adds the gradients and losses of a run.
    pub fn add_run(&mut self, events: &[RunEvent]) {
        let mut curves: BTreeMap<&TaskId, (Option<Batch>, LossCurve)> = BTreeMap::new();
        for event in events {
            match &event.payload {
                EventPayload::Start { task, batch, .. } => {
                    let (size, curve) = curves.entry(task).or_default();
                    begin(size, curve, *batch);
                }
                EventPayload::Progress {
                    task,
                    round,
                    progress,
                } => {
                    if let Some(gradient) = &progress.gradient {
                        let shown = self.tasks.entry(task.clone()).or_default();
                        shown.events.push(Moments::from(gradient));
                    }
                    let (size, curve) = curves.entry(task).or_default();
                    begin(size, curve, progress.batch);
                    curve.add(*round, progress.samples, progress.loss);
                }
                _ => {}
            }
        }
        for (id, (batch, curve)) in curves {
            if let Some(batch) = batch {
                let shown = self.tasks.entry(id.clone()).or_default();
                shown.curves.push((batch, curve));
            }
        }
    }

    /// The efficiency of a task, from the best available source: trainings at several batch sizes
    /// to the same loss; otherwise the workload's table, which its author measured in trainings at
    /// several sizes, while norms come from a single size; otherwise norms of gradients, from runs
    /// rather than from a profile (which only covers the first steps, while the noise scale grows);
    /// otherwise the workload's noise scale.
    #[must_use]
    pub fn of_task(&self, task: &Task) -> Finding {
        let Some(shown) = self.tasks.get(&task.id) else {
            return Finding {
                efficiency: None,
                reason: None,
            };
        };
        let reached = shown.reached();
        let measured = shown.measured(task.reference());
        let at_limit = |fit: &Fit| matches!(fit, Fit::NoiseScale(scale) if scale.at_limit);
        let has_table = task.efficiency.as_ref().is_some_and(Efficiency::is_table);
        let good = fit(&reached).filter(|fit| !at_limit(fit) || measured.is_err() && !has_table);
        if let Some(fit) = good {
            return Finding {
                efficiency: fit.to_efficiency(),
                reason: Some(format!(
                    "{} from {} trainings to the same loss{}",
                    described(&fit),
                    reached.len(),
                    match at_limit(&fit) {
                        true => ", at the limit of what these batch sizes can show",
                        false => "",
                    }
                )),
            };
        }
        match measured {
            Ok(noise) if has_table => Finding {
                efficiency: None,
                reason: Some(format!(
                    "the workload's table is kept; norms of gradients say noise scale {}",
                    with_interval(noise.samples, noise.interval)
                )),
            },
            Ok(noise) => Finding {
                efficiency: noise.to_efficiency(),
                reason: Some(format!(
                    "noise scale {} from norms of gradients in {} steps",
                    with_interval(noise.samples, noise.interval),
                    noise.steps
                )),
            },
            Err(why) if has_table || why == Unknown::NoNorms => Finding {
                efficiency: None,
                reason: None,
            },
            Err(why) => Finding {
                efficiency: None,
                reason: Some(format!("no noise scale: {why}")),
            },
        }
    }
}

/// A run has one batch size: after a change, the training continues from other weights than trainings that began with
/// the new size.
fn begin(size: &mut Option<Batch>, curve: &mut LossCurve, batch: Option<Batch>) {
    match (*size, batch) {
        (None, Some(_)) => *size = batch,
        (Some(old), Some(new)) if old != new => curve.end(),
        _ => {}
    }
}

fn described(fit: &Fit) -> String {
    match fit {
        Fit::NoiseScale(scale) => {
            format!(
                "noise scale {}",
                with_interval(scale.samples, scale.interval)
            )
        }
        Fit::Table(rows) => {
            let row = |row: &EfficiencyRow| {
                let around = row.interval.map_or(String::new(), |[low, high]| {
                    format!(" ({low:.3} to {high:.3})")
                });
                format!("{}: {:.3}{around}", row.batch.get(), row.value)
            };
            let rows: Vec<String> = rows.iter().map(row).collect();
            format!("progress per sample by batch size: {},", rows.join(", "))
        }
    }
}

fn with_interval(samples: f64, [low, high]: [f64; 2]) -> String {
    format!("{samples:.3} ({low:.3} to {high:.3}) samples")
}

impl Shown {
    /// The later half of a run takes precedence: the noise scale grows during training, and a plan is for the future.
    fn measured(&self, reference: Batch) -> Result<NoiseScale, Unknown> {
        let late = &self.events[self.events.len() / 2..];
        NoiseScale::of(late, reference).or_else(|_| {
            let all: Vec<Moments> = self.windows.iter().chain(&self.events).copied().collect();
            NoiseScale::of(&all, reference)
        })
    }

    /// The samples of each training to the lowest loss that all have reached.
    fn reached(&self) -> Vec<Reached> {
        let with_batch = |(batch, curve): &(Batch, LossCurve)| Some((*batch, curve.falling()?));
        let falling: Vec<_> = self.curves.iter().filter_map(with_batch).collect();
        let lowest = falling.iter().map(|(_, f)| f.lowest());
        let target = lowest.fold(f64::NEG_INFINITY, f64::max);
        let reached = falling.iter().filter_map(|(batch, falling)| {
            Some(Reached {
                batch: *batch,
                samples: falling.reaches(target)?,
            })
        });
        reached.collect()
    }
}
