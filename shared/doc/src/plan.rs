mod points;
mod verdict;

use std::collections::BTreeSet;

use units::{Batch, Samples, SamplesPerSec, Share, TaskId, TotalShare, UnitError};

use crate::wire::{self, Constraints, GpuPlan, Marginal, Objective, Wire};
use crate::workload::{MAX_TASKS, link, optional, unique_ids, update_bytes};
use crate::{
    Checker, Code, Document, Infeasibility, Link, Model, Provenance, Search, UpdateBytes, Workload,
};

pub use points::{Baseline, ParetoPoint};
pub use verdict::{Verdict, WorkAlone};

/// Batch sizes and shares of every task.
///
/// Task names are unique; the rows of `rates` name only tasks of the plan, each set once. A plan
/// has a model or a table of rates or neither, not both, and carries a workload at most once.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Name of the device or client.
    pub id: Option<String>,
    /// The network link; absent: transfers take no time.
    pub link: Option<Link>,
    /// The tasks; empty only if no plan is feasible.
    pub tasks: Vec<PlanTask>,
    /// Rates of sets of active tasks, in place of a model.
    pub rates: Vec<RateRow>,
    /// Sum of the shares.
    pub rv: Option<TotalShare>,
    /// Whether sharing is worth it; absent where no model predicts it.
    pub verdict: Option<Verdict>,
    /// What was maximised.
    pub objective: Option<Objective>,
    /// What had to hold.
    pub constraints: Option<Constraints>,
    /// Distance from the balance asked for.
    pub mismatch: Option<f64>,
    /// Objective without the batch constraints.
    pub unconstrained_objective: Option<f64>,
    /// Simpler schemes.
    pub baselines: Vec<Baseline>,
    /// Front of mismatch against objective.
    pub pareto: Vec<ParetoPoint>,
    /// Front of raw throughput against fairness.
    pub pareto_fairness: Vec<ParetoPoint>,
    /// The next best plans.
    pub alternatives: Vec<ParetoPoint>,
    /// Marginal changes.
    pub explanation: Vec<Marginal>,
    /// Results per GPU, where there are several.
    pub gpus: Vec<GpuPlan>,
    /// How the plan was found.
    pub search: Option<Search>,
    /// Why no plan is feasible.
    pub infeasible: Vec<Infeasibility>,
    /// The model.
    pub model: Option<Model>,
    /// The workload, where there is no model to carry it.
    pub workload: Option<Workload>,
    /// Which tools made the document.
    pub provenance: Vec<Provenance>,
}

/// One task of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanTask {
    /// Name.
    pub id: TaskId,
    /// Batch size.
    pub batch: Option<Batch>,
    /// Share.
    pub share: Option<Share>,
    /// GPU, from 0.
    pub gpu: Option<u32>,
    /// Samples of a round.
    pub samples: Option<Samples>,
    /// Exponential average of the samples over rounds, where damped.
    pub load: Option<Samples>,
    /// Bytes to move in a round.
    pub update_bytes: Option<UpdateBytes>,
    /// Predicted throughput.
    pub throughput: Option<Estimate>,
    /// Throughput alone on the whole device.
    pub solo: Option<SamplesPerSec>,
}

/// A predicted throughput with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// Prediction.
    pub mean: SamplesPerSec,
    /// Lower end.
    pub low: SamplesPerSec,
    /// Upper end.
    pub high: SamplesPerSec,
}

/// Rates of the tasks that are active together.
#[derive(Debug, Clone, PartialEq)]
pub struct RateRow {
    /// Indices into the plan's tasks, ascending.
    pub active: Vec<usize>,
    /// Rate of each of them; above 0.
    pub rates: Vec<SamplesPerSec>,
}

/// Batch size and share of one task.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// Name.
    pub id: TaskId,
    /// Batch size.
    pub batch: Batch,
    /// Share.
    pub share: Share,
}

impl Choice {
    pub(crate) fn to_wire(&self) -> wire::Choice {
        wire::Choice {
            id: self.id.as_str().to_owned(),
            batch: u64::from(self.batch.get()),
            share_percent: self.share.percent(),
        }
    }
}

pub(crate) fn choice(wire: &wire::Choice, c: &mut Checker) -> Option<Choice> {
    let id = c.unit("id", TaskId::new(&wire.id));
    let batch = c.unit("batch", Batch::new(wire.batch));
    let share = c.unit("share_percent", Share::from_percent(wire.share_percent));
    Some(Choice {
        id: id?,
        batch: batch?,
        share: share?,
    })
}

impl Plan {
    /// The workload that the plan carries, directly or in its model.
    #[must_use]
    pub fn workload(&self) -> Option<&Workload> {
        self.workload
            .as_ref()
            .or_else(|| self.model.as_ref().map(|m| &m.workload))
    }

    /// Index of the task called `id`.
    #[must_use]
    pub fn task_index(&self, id: &TaskId) -> Option<usize> {
        self.tasks.iter().position(|t| t.id == *id)
    }
}

impl Document for Plan {
    type Wire = wire::Plan;

    fn from_wire(wire: &wire::Plan, c: &mut Checker) -> Option<Self> {
        let link = optional(c, "link", wire.link.as_ref(), link);
        if wire.tasks.is_empty() && wire.infeasible.is_empty() {
            c.field("tasks", |c| {
                c.fault(Code::NothingToDo, "no task", "add at least one task");
            });
        }
        if wire.tasks.len() > MAX_TASKS {
            c.field("tasks", |c| {
                let problem = format_args!("{} tasks", wire.tasks.len());
                c.fault(Code::TooMany, problem, "give at most 64");
            });
            return None;
        }
        let tasks = c.list("tasks", &wire.tasks, plan_task);
        unique_ids(c, "tasks", wire.tasks.iter().map(|t| t.id.as_str()));
        let rates = rate_rows(wire, c);
        let model = optional(c, "model", wire.model.as_ref(), Model::from_nested);
        let workload = optional(c, "workload", wire.workload.as_ref(), Workload::from_nested);
        check_sources(wire, c);
        let (tasks, model, workload) = (tasks?, model?, workload?);
        let carried = workload.as_ref().or(model.as_ref().map(|m| &m.workload));
        if let Some(carried) = carried {
            check_tasks_known(&tasks, carried, c);
        }
        let verdict = optional(c, "verdict", wire.verdict.as_ref(), verdict::verdict);
        let baselines = c.list("baselines", &wire.baselines, points::baseline);
        let pareto = c.list("pareto", &wire.pareto, points::point);
        let fair = c.list("pareto_fairness", &wire.pareto_fairness, points::point);
        let alternatives = c.list("alternatives", &wire.alternatives, points::point);
        let rv = c.optional_unit("rv_percent", wire.rv_percent, TotalShare::from_percent);
        Some(Self {
            id: wire.id.clone(),
            link: link?,
            tasks,
            rates: rates?,
            rv: rv?,
            verdict: verdict?,
            objective: wire.objective,
            constraints: wire.constraints.clone(),
            mismatch: wire.mismatch,
            unconstrained_objective: wire.unconstrained_objective,
            baselines: baselines?,
            pareto: pareto?,
            pareto_fairness: fair?,
            alternatives: alternatives?,
            explanation: wire.explanation.clone(),
            gpus: wire.gpus.clone(),
            search: wire.search.clone(),
            infeasible: wire.infeasible.clone(),
            model,
            workload,
            provenance: wire.provenance.clone(),
        })
    }

    fn to_wire(&self) -> wire::Plan {
        wire::Plan {
            schema: wire::Plan::SCHEMA.to_owned(),
            id: self.id.clone(),
            link: self.link.map(Link::to_wire),
            tasks: self.tasks.iter().map(PlanTask::to_wire).collect(),
            rates: self.rates.iter().map(|row| self.rate_row(row)).collect(),
            rv_percent: self.rv.map(TotalShare::percent),
            verdict: self.verdict.as_ref().map(Verdict::to_wire),
            objective: self.objective,
            constraints: self.constraints.clone(),
            mismatch: self.mismatch,
            unconstrained_objective: self.unconstrained_objective,
            baselines: self.baselines.iter().map(Baseline::to_wire).collect(),
            pareto: points(&self.pareto),
            pareto_fairness: points(&self.pareto_fairness),
            alternatives: points(&self.alternatives),
            explanation: self.explanation.clone(),
            gpus: self.gpus.clone(),
            search: self.search.clone(),
            infeasible: self.infeasible.clone(),
            model: self.model.as_ref().map(Document::to_wire),
            workload: self.workload.as_ref().map(Document::to_wire),
            provenance: self.provenance.clone(),
        }
    }
}

fn points(points: &[ParetoPoint]) -> Vec<wire::ParetoPoint> {
    points.iter().map(ParetoPoint::to_wire).collect()
}

impl Plan {
    fn rate_row(&self, row: &RateRow) -> wire::RateRow {
        let name = |&i: &usize| self.tasks[i].id.as_str().to_owned();
        wire::RateRow {
            active: row.active.iter().map(name).collect(),
            samples_per_s: row
                .active
                .iter()
                .map(name)
                .zip(row.rates.iter().map(|r| r.get()))
                .collect(),
        }
    }
}

fn check_sources(wire: &wire::Plan, c: &mut Checker) {
    if wire.model.is_some() && !wire.rates.is_empty() {
        c.field("rates", |c| {
            c.fault(
                Code::Conflict,
                "`model` is given too",
                "keep one of the two",
            );
        });
    }
    if wire.model.is_some() && wire.workload.is_some() {
        c.field("workload", |c| {
            let advice = "remove it: the model carries the workload";
            c.fault(Code::Conflict, "`model` is given too", advice);
        });
    }
}

fn check_tasks_known(tasks: &[PlanTask], workload: &Workload, c: &mut Checker) {
    c.field("tasks", |c| {
        for (i, task) in tasks.iter().enumerate() {
            if workload.task_index(&task.id).is_none() {
                c.index(i, |c| {
                    c.field("id", |c| {
                        let names: Vec<_> = workload.tasks.iter().map(|t| t.id.as_str()).collect();
                        c.fault(
                            Code::UnknownName,
                            format_args!("no task of the workload is called {}", task.id),
                            format_args!("the workload has {}", names.join(", ")),
                        );
                    });
                });
            }
        }
    });
}

fn plan_task(wire: &wire::PlanTask, c: &mut Checker) -> Option<PlanTask> {
    let id = c.unit("id", TaskId::new(&wire.id));
    let batch = c.optional_unit("batch", wire.batch, Batch::new);
    let share = c.optional_unit("share_percent", wire.share_percent, Share::from_percent);
    let samples = c.optional_unit("samples", wire.samples, Samples::new);
    let load = c.optional_unit("load_samples", wire.load_samples, Samples::new);
    let update = optional(c, "update_bytes", wire.update_bytes.as_ref(), update_bytes);
    let throughput = optional(c, "throughput", wire.throughput.as_ref(), estimate);
    let solo = c.optional_unit(
        "solo_samples_per_s",
        wire.solo_samples_per_s,
        SamplesPerSec::new,
    );
    Some(PlanTask {
        id: id?,
        batch: batch?,
        share: share?,
        gpu: wire.gpu,
        samples: samples?,
        load: load?,
        update_bytes: update?,
        throughput: throughput?,
        solo: solo?,
    })
}

fn estimate(wire: &wire::Estimate, c: &mut Checker) -> Option<Estimate> {
    let mean = c.unit("samples_per_s", SamplesPerSec::new(wire.samples_per_s));
    let low = c.unit(
        "low_samples_per_s",
        SamplesPerSec::new(wire.low_samples_per_s),
    );
    let high = c.unit(
        "high_samples_per_s",
        SamplesPerSec::new(wire.high_samples_per_s),
    );
    Some(Estimate {
        mean: mean?,
        low: low?,
        high: high?,
    })
}

fn rate_rows(wire: &wire::Plan, c: &mut Checker) -> Option<Vec<RateRow>> {
    let mut seen = BTreeSet::new();
    c.list("rates", &wire.rates, |row, c| {
        let row = rate_row(row, &wire.tasks, c)?;
        if !seen.insert(row.active.clone()) {
            c.field("active", |c| {
                c.fault(
                    Code::Duplicate,
                    "this set of tasks is given twice",
                    "remove one",
                );
            });
        }
        Some(row)
    })
}

fn rate_row(wire: &wire::RateRow, tasks: &[wire::PlanTask], c: &mut Checker) -> Option<RateRow> {
    if wire.active.is_empty() {
        c.field("active", |c| {
            c.fault(Code::NothingToDo, "no task", "name the active tasks");
        });
        return None;
    }
    let mut pairs = Vec::new();
    let mut clean = true;
    for (i, name) in wire.active.iter().enumerate() {
        let Some(index) = tasks.iter().position(|t| t.id == *name) else {
            clean = false;
            c.field("active", |c| {
                c.index(i, |c| {
                    let problem = format_args!("no task of the plan is called {name:?}");
                    c.fault(Code::UnknownName, problem, "name a task of the plan");
                });
            });
            continue;
        };
        let Some(&rate) = wire.samples_per_s.get(name) else {
            clean = false;
            c.field("samples_per_s", |c| {
                let problem = format_args!("no rate for the active task {name:?}");
                c.fault(Code::MissingField, problem, "give one");
            });
            continue;
        };
        match c.field("samples_per_s", |c| {
            c.unit(name, SamplesPerSec::new(rate).and_then(above_zero))
        }) {
            Some(rate) => pairs.push((index, rate)),
            None => clean = false,
        }
    }
    for name in wire.samples_per_s.keys() {
        if !wire.active.contains(name) {
            clean = false;
            c.field("samples_per_s", |c| {
                let problem = format_args!("{name:?} has a rate but is not active");
                c.fault(Code::Conflict, problem, "list it in `active`, or remove it");
            });
        }
    }
    pairs.sort_by_key(|(index, _)| *index);
    if pairs.windows(2).any(|w| w[0].0 == w[1].0) {
        c.field("active", |c| {
            c.fault(Code::Duplicate, "a task is named twice", "name it once");
        });
        return None;
    }
    let (active, rates) = pairs.into_iter().unzip();
    clean.then_some(RateRow { active, rates })
}

/// A task that is active but does not advance would never finish.
fn above_zero(rate: SamplesPerSec) -> Result<SamplesPerSec, UnitError> {
    if rate.get() > 0.0 {
        return Ok(rate);
    }
    Err(UnitError {
        quantity: "rate of an active task",
        value: rate.get().to_string(),
        expected: "a finite number of samples per second above 0",
    })
}

impl PlanTask {
    fn to_wire(&self) -> wire::PlanTask {
        wire::PlanTask {
            id: self.id.as_str().to_owned(),
            batch: self.batch.map(|b| u64::from(b.get())),
            share_percent: self.share.map(Share::percent),
            gpu: self.gpu,
            samples: self.samples.map(Samples::get),
            load_samples: self.load.map(Samples::get),
            update_bytes: self.update_bytes.map(UpdateBytes::to_wire),
            throughput: self.throughput.map(|e| wire::Estimate {
                samples_per_s: e.mean.get(),
                low_samples_per_s: e.low.get(),
                high_samples_per_s: e.high.get(),
            }),
            solo_samples_per_s: self.solo.map(SamplesPerSec::get),
        }
    }
}
