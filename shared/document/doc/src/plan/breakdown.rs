use std::collections::BTreeMap;

use units::{Share, TaskId, TotalShare};

use crate::{Checker, wire};

/// Effect of changing one task's share while everything else stays the same.
#[derive(Debug, Clone, PartialEq)]
pub struct Marginal {
    /// Task whose share changes.
    pub id: TaskId,
    /// The changed share.
    pub share: Share,
    /// Change of the objective.
    pub objective_change: f64,
    /// Change of the throughput of each task in samples per second.
    pub samples_per_s_change: BTreeMap<TaskId, f64>,
}

/// Results of the plan on one of several GPUs.
#[derive(Debug, Clone, PartialEq)]
pub struct GpuPlan {
    /// Number of the GPU, from 0.
    pub gpu: u32,
    /// Its tasks.
    pub tasks: Vec<TaskId>,
    /// Sum of their shares.
    pub rv: TotalShare,
    /// Total throughput in samples per second.
    pub total_samples_per_s: f64,
    /// Sum over its tasks of throughput relative to throughput alone.
    pub fairness: f64,
    /// Value of the plan's objective on this GPU.
    pub objective: f64,
}

pub(super) fn marginal(wire: &wire::Marginal, c: &mut Checker) -> Option<Marginal> {
    let id = c.unit("id", TaskId::new(&wire.id));
    let share = c.unit("share_percent", Share::from_percent(wire.share_percent));
    let changes = c.field("samples_per_s_change", |c| {
        let named: Vec<_> = wire
            .samples_per_s_change
            .iter()
            .map(|(id, &change)| Some((c.unit(id, TaskId::new(id))?, change)))
            .collect();
        named.into_iter().collect::<Option<_>>()
    });
    Some(Marginal {
        id: id?,
        share: share?,
        objective_change: wire.objective_change,
        samples_per_s_change: changes?,
    })
}

pub(super) fn gpu_plan(wire: &wire::GpuPlan, c: &mut Checker) -> Option<GpuPlan> {
    let tasks: Vec<_> = wire
        .tasks
        .iter()
        .map(|id| c.unit("tasks", TaskId::new(id)))
        .collect();
    let rv = c.unit("rv_percent", TotalShare::from_percent(wire.rv_percent));
    Some(GpuPlan {
        gpu: wire.gpu,
        tasks: tasks.into_iter().collect::<Option<_>>()?,
        rv: rv?,
        total_samples_per_s: wire.total_samples_per_s,
        fairness: wire.fairness,
        objective: wire.objective,
    })
}

impl Marginal {
    pub(super) fn to_wire(&self) -> wire::Marginal {
        let changes = self.samples_per_s_change.iter();
        wire::Marginal {
            id: self.id.as_str().to_owned(),
            share_percent: self.share.percent(),
            objective_change: self.objective_change,
            samples_per_s_change: changes
                .map(|(id, &change)| (id.as_str().to_owned(), change))
                .collect(),
        }
    }
}

impl GpuPlan {
    pub(super) fn to_wire(&self) -> wire::GpuPlan {
        let tasks = self.tasks.iter();
        wire::GpuPlan {
            gpu: self.gpu,
            tasks: tasks.map(|id| id.as_str().to_owned()).collect(),
            rv_percent: self.rv.percent(),
            total_samples_per_s: self.total_samples_per_s,
            fairness: self.fairness,
            objective: self.objective,
        }
    }
}
