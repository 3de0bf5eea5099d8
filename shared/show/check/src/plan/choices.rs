//! Batch sizes and shares of all tasks.

use doc::{Choice, Plan, Workload};
use predict::Predictor;
use units::corun::Setting;
use units::{Batch, Share};

/// Batch size, share and GPU of every task of the workload, in its order.
#[derive(Debug, Clone, PartialEq)]
pub struct Choices {
    pub batch: Vec<Batch>,
    pub share: Vec<Share>,
    pub gpu: Vec<u32>,
}

impl Choices {
    /// Choices of the plan for the workload's tasks.
    pub fn of_plan(plan: &Plan, workload: &Workload) -> Option<Self> {
        let place = |t: &doc::Task| plan.task_index(&t.id);
        let places: Vec<usize> = workload.tasks.iter().map(place).collect::<Option<_>>()?;
        let all = || places.iter().copied();
        Some(Self {
            batch: all().map(|i| plan.given(i).batch).collect::<Option<_>>()?,
            share: all().map(|i| plan.given(i).share).collect::<Option<_>>()?,
            gpu: all().map(|i| plan.tasks[i].gpu.unwrap_or(0)).collect(),
        })
    }

    /// Choices of a point of a front, on one GPU; `None` unless it names every task once.
    pub fn of_point(choices: &[Choice], workload: &Workload) -> Option<Self> {
        if choices.len() != workload.tasks.len() {
            return None;
        }
        let mut batch = vec![None; choices.len()];
        let mut share = vec![None; choices.len()];
        for choice in choices {
            let i = workload.task_index(&choice.id)?;
            batch[i] = Some(choice.batch);
            share[i] = Some(choice.share);
        }
        Some(Self {
            gpu: vec![0; choices.len()],
            batch: batch.into_iter().collect::<Option<_>>()?,
            share: share.into_iter().collect::<Option<_>>()?,
        })
    }

    /// Indices of the GPUs in use, ascending.
    pub fn gpus(&self) -> Vec<u32> {
        let mut gpus = self.gpu.clone();
        gpus.sort_unstable();
        gpus.dedup();
        gpus
    }

    /// Indices of the tasks on a GPU.
    pub fn on(&self, gpu: u32) -> Vec<usize> {
        (0..self.gpu.len())
            .filter(|&i| self.gpu[i] == gpu)
            .collect()
    }
}

/// Predicted results of some choices.
#[derive(Debug, Clone, PartialEq)]
pub struct Value {
    /// Predicted throughput of every task, samples per second.
    pub rates: Vec<f64>,
    /// Batch size of every task.
    pub batch: Vec<Batch>,
    /// Standard error of each rate.
    pub errors: Vec<f64>,
    /// Throughput alone of every task, for comparison: at the best of its batch sizes, or at its own, as the plan
    /// defines it.
    pub solo: Vec<f64>,
    /// Seconds until the last task of its GPU has trained on its samples, or until the task reaches its target with
    /// compute alone; 0 for other objectives.
    pub last_end: Vec<f64>,
}

/// Time at which the last of `tasks` ends if all begin at once. Whenever a task ends, the others continue with their
/// remaining work at the rates of the smaller set. `None` if a task makes no progress.
pub fn last_end(
    predictor: &Predictor,
    choices: &Choices,
    mut tasks: Vec<usize>,
    mut work: Vec<f64>,
    errors: f64,
) -> Option<f64> {
    let whole: f64 = tasks.iter().map(|&i| work[i]).sum();
    let mut now = 0.0;
    while !tasks.is_empty() {
        let active: Vec<Setting> = tasks
            .iter()
            .map(|&task| Setting {
                task,
                batch: choices.batch[task],
                share: choices.share[task],
            })
            .collect();
        let predicted = predictor.predict(&active);
        let rate = |k: usize| predicted[k].samples_per_s + errors * predicted[k].std_error;
        if (0..tasks.len()).any(|k| rate(k) <= 0.0 || !rate(k).is_finite()) {
            return None;
        }
        let step = (0..tasks.len())
            .map(|k| work[tasks[k]] / rate(k))
            .fold(f64::INFINITY, f64::min);
        for (k, &i) in tasks.iter().enumerate() {
            work[i] -= step * rate(k);
        }
        now += step;
        tasks.retain(|&i| work[i] > 1e-12 * whole);
    }
    Some(now)
}
