use std::collections::BTreeSet;

use units::SamplesPerSec;

use super::task::PlanTask;
use super::verdict::above_zero;
use crate::wire;
use crate::{Checker, Code};

/// Rates of the tasks while exactly these tasks are active.
#[derive(Debug, Clone, PartialEq)]
pub struct RateRow {
    /// Indices into the plan's tasks, ascending.
    pub active: Vec<usize>,
    /// Rate of each active task, above 0, in the order of `active`.
    pub rates: Vec<SamplesPerSec>,
}

pub(super) fn rate_rows(wire: &wire::Plan, c: &mut Checker) -> Option<Vec<RateRow>> {
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

impl RateRow {
    pub(super) fn to_wire(&self, tasks: &[PlanTask]) -> wire::RateRow {
        let name = |&i: &usize| tasks[i].id.as_str().to_owned();
        let rates = self.rates.iter().map(|r| r.get());
        wire::RateRow {
            active: self.active.iter().map(name).collect(),
            samples_per_s: self.active.iter().map(name).zip(rates).collect(),
        }
    }
}
