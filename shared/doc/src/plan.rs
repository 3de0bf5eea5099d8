mod answer;
mod breakdown;
mod constraints;
mod points;
mod rates;
mod verdict;

use units::{Batch, Samples, SamplesPerSec, Share, TaskId, UnitError};

use crate::wire::{self, Wire};
use crate::workload::{MAX_TASKS, link, optional, unique_ids, update_bytes};
use crate::{Checker, Code, Document, Link, Model, Provenance, UpdateBytes, Workload};

pub use answer::{Answer, ByHand, Decision, Estimate, Feasible, Given, Infeasible};
pub use breakdown::{GpuPlan, Marginal};
pub use constraints::Constraints;
pub use points::{Baseline, Candidate, Candidates, ParetoPoint};
pub use rates::RateRow;
pub use verdict::{Verdict, WorkAlone};

/// Batch sizes and shares of every task, or why there are none.
///
/// Task names are unique; the rows of `rates` name only tasks of the plan, each set once. A plan
/// has a model or a table of rates or neither, not both, and carries a workload at most once.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Name of the device or client.
    pub id: Option<String>,
    /// The network link; absent: transfers take no time.
    pub link: Option<Link>,
    /// The work of each task; empty if the plan is infeasible, and only then.
    pub tasks: Vec<PlanTask>,
    /// What runs with what: found, not to be found, or given.
    pub answer: Answer,
    /// Rates of sets of active tasks, in place of a model.
    pub rates: Vec<RateRow>,
    /// The model.
    pub model: Option<Model>,
    /// The workload, where there is no model to carry it.
    pub workload: Option<Workload>,
    /// Which tools made the document.
    pub provenance: Vec<Provenance>,
}

/// The work of one task of a plan, and where it runs.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanTask {
    /// Name.
    pub id: TaskId,
    /// GPU, from 0.
    pub gpu: Option<u32>,
    /// Samples of a round.
    pub samples: Option<Samples>,
    /// Exponential average of the samples over rounds, where damped.
    pub load: Option<Samples>,
    /// Bytes to move in a round.
    pub update_bytes: Option<UpdateBytes>,
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

    /// The link of the plan, else that of the workload that it carries.
    #[must_use]
    pub fn known_link(&self) -> Option<Link> {
        self.link.or(self.workload().and_then(|w| w.link))
    }

    /// How the answer was found, where the writer says it.
    pub fn search_mut(&mut self) -> Option<&mut wire::Search> {
        match &mut self.answer {
            Answer::Feasible(found) => Some(&mut found.search),
            Answer::Infeasible(none) => none.search.as_mut(),
            Answer::ByHand(_) => None,
        }
    }

    /// Index of the task called `id`.
    #[must_use]
    pub fn task_index(&self, id: &TaskId) -> Option<usize> {
        self.tasks.iter().position(|t| t.id == *id)
    }

    /// What is known of the task with this index, whether it was found or written by hand;
    /// nothing if there is no such task.
    #[must_use]
    pub fn given(&self, task: usize) -> Given {
        match &self.answer {
            Answer::Feasible(found) => found.decisions.get(task).copied().map(Given::from),
            Answer::ByHand(by_hand) => by_hand.given.get(task).copied(),
            Answer::Infeasible(_) => None,
        }
        .unwrap_or_default()
    }

    /// As [`Plan::given`], of the task called `id`.
    #[must_use]
    pub fn given_of(&self, id: &TaskId) -> Given {
        let task = self.task_index(id);
        task.map_or_else(Given::default, |task| self.given(task))
    }

    /// The answer of a search, if there is a feasible one.
    #[must_use]
    pub fn feasible(&self) -> Option<&Feasible> {
        match &self.answer {
            Answer::Feasible(found) => Some(found),
            Answer::Infeasible(_) | Answer::ByHand(_) => None,
        }
    }
}

impl Document for Plan {
    type Wire = wire::Plan;

    fn from_wire(wire: &wire::Plan, c: &mut Checker) -> Option<Self> {
        let link = optional(c, "link", wire.link.as_ref(), link);
        if wire.tasks.len() > MAX_TASKS {
            c.field("tasks", |c| {
                let problem = format_args!("more than {MAX_TASKS} tasks");
                c.fault(Code::TooMany, problem, "give at most 64");
            });
            return None;
        }
        let tasks = c.list("tasks", &wire.tasks, plan_task);
        unique_ids(c, "tasks", wire.tasks.iter().map(|t| t.id.as_str()));
        let answer = answer::answer(wire, c);
        let rates = rates::rate_rows(wire, c);
        let model = optional(c, "model", wire.model.as_ref(), Model::from_nested);
        let workload = optional(c, "workload", wire.workload.as_ref(), Workload::from_nested);
        check_sources(wire, c);
        let (tasks, model, workload) = (tasks?, model?, workload?);
        let carried = workload.as_ref().or(model.as_ref().map(|m| &m.workload));
        if let Some(carried) = carried {
            check_tasks_known(&tasks, carried, c);
        }
        Some(Self {
            id: wire.id.clone(),
            link: link?,
            tasks,
            answer: answer?,
            rates: rates?,
            model,
            workload,
            provenance: wire.provenance.clone(),
        })
    }

    fn to_wire(&self) -> wire::Plan {
        let task = |(i, task): (usize, &PlanTask)| task.to_wire(self.given(i));
        let row = |row: &RateRow| row.to_wire(&self.tasks);
        let mut wire = wire::Plan {
            schema: wire::Plan::SCHEMA.to_owned(),
            id: self.id.clone(),
            link: self.link.map(Link::to_wire),
            tasks: self.tasks.iter().enumerate().map(task).collect(),
            rates: self.rates.iter().map(row).collect(),
            model: self.model.as_ref().map(Document::to_wire),
            workload: self.workload.as_ref().map(Document::to_wire),
            provenance: self.provenance.clone(),
            ..wire::Plan::default()
        };
        self.answer.write(&mut wire);
        wire
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
    let samples = c.optional_unit("samples", wire.samples, Samples::new);
    let load = c.optional_unit("load_samples", wire.load_samples, Samples::new);
    let update = optional(c, "update_bytes", wire.update_bytes.as_ref(), update_bytes);
    Some(PlanTask {
        id: id?,
        gpu: wire.gpu,
        samples: samples?,
        load: load?,
        update_bytes: update?,
    })
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
    fn to_wire(&self, given: Given) -> wire::PlanTask {
        wire::PlanTask {
            id: self.id.as_str().to_owned(),
            batch: given.batch.map(|b| u64::from(b.get())),
            share_percent: given.share.map(Share::percent),
            gpu: self.gpu,
            samples: self.samples.map(Samples::get),
            load_samples: self.load.map(Samples::get),
            update_bytes: self.update_bytes.map(UpdateBytes::to_wire),
            throughput: given.throughput.map(Estimate::to_wire),
            solo_samples_per_s: given.solo.map(SamplesPerSec::get),
        }
    }
}
