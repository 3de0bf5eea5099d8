mod answer;
mod breakdown;
mod choice;
mod constraints;
mod points;
mod rates;
mod target;
mod task;
mod verdict;

use units::TaskId;

use crate::checker::{optional, unique_ids};
use crate::wire::{self, Wire};
use crate::workload::MAX_TASKS;
use crate::workload::validate::link;
use crate::{Checker, Code, Document, Link, Model, Provenance, Workload};

pub use answer::{Answer, ByHand, Decision, Estimate, Feasible, Given, Infeasible};
pub use breakdown::{GpuPlan, Marginal};
pub use choice::Choice;
pub(crate) use choice::choice;
pub use constraints::Constraints;
pub use points::{Baseline, Candidate, Candidates, ParetoPoint};
pub use rates::RateRow;
pub use target::{FastestSamples, Target, TaskTarget};
pub use task::PlanTask;
pub use verdict::{PayOff, Verdict, WorkAlone};

/// A plan: batch size and share of every task, or the reasons why nothing is feasible.
///
/// Task names are unique. The rows of `rates` name only tasks of the plan, and no two rows have the
/// same set of tasks. A plan has a model, or a table of rates, or neither, but not both. It carries
/// at most one workload.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Name of the device or client.
    pub id: Option<String>,
    /// The network link; absent: transfers take no time.
    pub link: Option<Link>,
    /// The work of each task; empty if the plan is infeasible, and only then.
    pub tasks: Vec<PlanTask>,
    /// The solution: found, infeasible, or given by hand.
    pub answer: Answer,
    /// Rates of the tasks for each set of active tasks, instead of a model.
    pub rates: Vec<RateRow>,
    /// The model that the plan was made with, if the plan carries it.
    pub model: Option<Model>,
    /// The workload, if no model carries it.
    pub workload: Option<Workload>,
    /// Which tools made the document.
    pub provenance: Vec<Provenance>,
}

impl Plan {
    /// The workload that the plan carries, directly or in its model.
    #[must_use]
    pub fn workload(&self) -> Option<&Workload> {
        self.workload
            .as_ref()
            .or_else(|| self.model.as_ref().map(|m| &m.workload))
    }

    /// The link of the plan or, if it has none, of its workload.
    #[must_use]
    pub fn known_link(&self) -> Option<Link> {
        self.link.or(self.workload().and_then(|w| w.link))
    }

    /// How the answer was found, if the document says so.
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

    /// The settings of the task with this index, whether found or written by hand. All fields are
    /// `None` if the plan has no settings for the task.
    #[must_use]
    pub fn given(&self, task: usize) -> Given {
        match &self.answer {
            Answer::Feasible(found) => found.decisions.get(task).copied().map(Given::from),
            Answer::ByHand(by_hand) => by_hand.given.get(task).copied(),
            Answer::Infeasible(_) => None,
        }
        .unwrap_or_default()
    }

    /// Like [`Plan::given`], for the task called `id`.
    #[must_use]
    pub fn given_of(&self, id: &TaskId) -> Given {
        let task = self.task_index(id);
        task.map_or_else(Given::default, |task| self.given(task))
    }

    /// The result of the search, if the plan was searched for and is feasible.
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
        let tasks = c.list("tasks", &wire.tasks, task::plan_task);
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
