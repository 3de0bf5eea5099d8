//! Batch sizes that the ordering of a plan may choose from.

use doc::{BatchPolicy, Plan, RatesKind, Workload};
use units::{Batch, Bytes};

use crate::error::{PlanError, missing};
use crate::vary;

/// Percent by which batch sizes vary if the plan left them free.
pub const BATCH_PERCENT: f64 = 20.0;

/// How far batch sizes may vary, read from the plan before any part of it is replaced.
pub(crate) struct Variation {
    /// Percent, if the request gives it.
    asked: Option<f64>,
    /// Percent, if it does not.
    usual: f64,
    /// Memory for all tasks of one GPU together.
    memory: Option<Bytes>,
}

impl Variation {
    pub(crate) fn of(plan: &Plan, asked: Option<f64>) -> Self {
        let found = plan.feasible();
        let constraints = found.map(|found| &found.constraints);
        // A plan for progress chose sizes by the value of their samples, which the ordering does not know: it would
        // take larger sizes for a shorter round, and reach the targets later.
        let progress = found.is_some_and(|found| found.objective.kind.is_progress());
        let free = !progress
            && constraints.is_some_and(|c| c.batch == BatchPolicy::Free && c.mismatch.is_none());
        let device = plan.workload().and_then(|w| w.device.memory);
        Self {
            asked,
            usual: if free { BATCH_PERCENT } else { 0.0 },
            memory: constraints.and_then(|c| c.memory).or(device),
        }
    }

    /// The batch sizes that each task may take; empty if rates do not depend on them.
    pub(crate) fn batches(
        &self,
        plan: &Plan,
        kind: RatesKind,
    ) -> Result<Vec<Vec<Batch>>, PlanError> {
        let asked = self.asked.is_some_and(|p| p > 0.0) && kind == RatesKind::Fixed;
        if kind != RatesKind::Model && !asked {
            return Ok(Vec::new());
        }
        let percent = self.asked.unwrap_or(self.usual);
        let planned = planned_batches(plan)?;
        let mut choices: Vec<Vec<Batch>> = planned.iter().map(|&b| vary(b, percent)).collect();
        for (task, choices) in plan.tasks.iter().zip(&mut choices) {
            let known = plan
                .workload()
                .and_then(|w| w.task_index(&task.id).map(|i| &w.tasks[i].batch_sizes));
            let Some((low, high)) =
                known.and_then(|sizes| sizes.iter().min().zip(sizes.iter().max()))
            else {
                continue;
            };
            // The plan's own size comes first and is always kept, whatever the workload says.
            let own = choices[0];
            choices.retain(|b| *b == own || (b >= low && b <= high));
        }
        if let (Some(workload), Some(limit)) = (plan.workload(), self.memory) {
            fit_memory(plan, workload, limit, &planned, &mut choices);
        }
        Ok(choices)
    }
}

/// Leaves out larger batch sizes if the GPU's memory could not hold all of them at once.
fn fit_memory(
    plan: &Plan,
    workload: &Workload,
    limit: Bytes,
    planned: &[Batch],
    choices: &mut [Vec<Batch>],
) {
    let gpu = |i: usize| plan.tasks[i].gpu.unwrap_or(0);
    let most: Vec<f64> = (0..choices.len())
        .map(|i| {
            let task = workload.task_index(&plan.tasks[i].id);
            let memory = task.and_then(|t| workload.tasks[t].memory);
            let largest = choices[i].iter().max();
            memory.zip(largest).map_or(0.0, |(m, &b)| m.at(b))
        })
        .collect();
    for i in 0..choices.len() {
        let together = (0..choices.len()).filter(|&j| gpu(j) == gpu(i));
        if together.map(|j| most[j]).sum::<f64>() > limit.get() as f64 {
            choices[i].retain(|b| *b <= planned[i]);
        }
    }
}

/// Batch size of each task of a plan.
pub(crate) fn planned_batches(plan: &Plan) -> Result<Vec<Batch>, PlanError> {
    let batch = |(i, task)| {
        let known = plan.given(i).batch;
        known.ok_or_else(|| missing(task, "batch", "a model needs its batch size"))
    };
    plan.tasks.iter().enumerate().map(batch).collect()
}
