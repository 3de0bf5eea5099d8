use units::{Batch, Seconds, TaskId};

use crate::wire::{self, Hold, PhaseKind, RatesKind, ScheduleClass, Search, TaskBatch, Wire};
use crate::{Checker, Code, Document, Plan, Provenance};

/// The order of transfers and compute of one round.
///
/// Orders name every task of the plan once; phases name tasks of the plan, and end no earlier
/// than they start.
#[derive(Debug, Clone, PartialEq)]
pub struct Timeline {
    /// Name of the device or client.
    pub id: Option<String>,
    /// Which compute rates were assumed.
    pub rates: RatesKind,
    /// Uploads had to keep the order of the downloads.
    pub single_order: bool,
    /// Indices into the plan's tasks, in the order of downloads.
    pub download_order: Vec<usize>,
    /// Indices into the plan's tasks, in the order of uploads.
    pub upload_order: Vec<usize>,
    /// For each task of the plan, until the end of whose compute its own is held back; empty if
    /// nothing is.
    pub holds: Vec<Option<usize>>,
    /// Batch size of each task of the plan, where known.
    pub batches: Vec<Option<Batch>>,
    /// Every phase of every task, by start time.
    pub phases: Vec<Phase>,
    /// End of the last phase.
    pub makespan: Seconds,
    /// No schedule can be faster, whatever idles.
    pub lower_bound: Seconds,
    /// `makespan / lower_bound - 1`.
    pub gap: f64,
    /// Whether the makespan is proven to be the least of a class of schedules.
    pub proven: bool,
    /// That class.
    pub proven_among: Option<ScheduleClass>,
    /// Makespan without overlap.
    pub overlap_off: Seconds,
    /// How the order was found.
    pub search: Search,
    /// The plan.
    pub plan: Plan,
    /// Which tools made the document.
    pub provenance: Vec<Provenance>,
}

/// One phase of one task.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Phase {
    /// Index into the plan's tasks.
    pub task: usize,
    /// Which phase.
    pub kind: PhaseKind,
    /// Start, from the start of the round.
    pub start: Seconds,
    /// End, from the start of the round.
    pub end: Seconds,
}

impl Document for Timeline {
    type Wire = wire::Timeline;

    fn from_wire(wire: &wire::Timeline, c: &mut Checker) -> Option<Self> {
        let plan = c.field("plan", |c| Plan::from_nested(&wire.plan, c))?;
        let download_order = order(&wire.download_order, &plan, "download_order", c);
        let upload_order = order(&wire.upload_order, &plan, "upload_order", c);
        let holds = holds(&wire.holds, &plan, c);
        let batches = batches(&wire.batches, &plan, c);
        let phases = c.list("phases", &wire.phases, |p, c| phase(p, &plan, c));
        let makespan = c.unit("makespan_s", Seconds::new(wire.makespan_s));
        let lower_bound = c.unit("lower_bound_s", Seconds::new(wire.lower_bound_s));
        let overlap_off = c.unit("overlap_off_s", Seconds::new(wire.overlap_off_s));
        Some(Self {
            id: wire.id.clone(),
            rates: wire.rates,
            single_order: wire.single_order,
            download_order: download_order?,
            upload_order: upload_order?,
            holds: holds?,
            batches: batches?,
            phases: phases?,
            makespan: makespan?,
            lower_bound: lower_bound?,
            gap: wire.gap,
            proven: wire.proven,
            proven_among: wire.proven_among,
            overlap_off: overlap_off?,
            search: wire.search.clone(),
            plan,
            provenance: wire.provenance.clone(),
        })
    }

    fn to_wire(&self) -> wire::Timeline {
        let name = |i: usize| self.plan.tasks[i].id.as_str().to_owned();
        let names = |order: &[usize]| order.iter().map(|&i| name(i)).collect();
        let batches = self.batches.iter().enumerate();
        let holds = self.holds.iter().enumerate();
        wire::Timeline {
            schema: wire::Timeline::SCHEMA.to_owned(),
            id: self.id.clone(),
            rates: self.rates,
            single_order: self.single_order,
            download_order: names(&self.download_order),
            upload_order: names(&self.upload_order),
            holds: holds
                .filter_map(|(i, until)| {
                    until.map(|j| Hold {
                        task: name(i),
                        until_computed: name(j),
                    })
                })
                .collect(),
            batches: batches
                .filter_map(|(i, batch)| {
                    batch.map(|b| TaskBatch {
                        id: name(i),
                        batch: u64::from(b.get()),
                    })
                })
                .collect(),
            phases: self
                .phases
                .iter()
                .map(|p| wire::Phase {
                    task: name(p.task),
                    phase: p.kind,
                    start_s: p.start.get(),
                    end_s: p.end.get(),
                })
                .collect(),
            makespan_s: self.makespan.get(),
            lower_bound_s: self.lower_bound.get(),
            gap: self.gap,
            proven: self.proven,
            proven_among: self.proven_among,
            overlap_off_s: self.overlap_off.get(),
            search: self.search.clone(),
            plan: self.plan.to_wire(),
            provenance: self.provenance.clone(),
        }
    }
}

fn find(name: &str, plan: &Plan, c: &mut Checker) -> Option<usize> {
    let index = plan.tasks.iter().position(|t| t.id.as_str() == name);
    if index.is_none() {
        let problem = format_args!("no task of the plan is called {name:?}");
        c.fault(Code::UnknownName, problem, "name a task of the plan");
    }
    index
}

fn order(names: &[String], plan: &Plan, field: &str, c: &mut Checker) -> Option<Vec<usize>> {
    let found = c.list(field, names, |name, c| find(name, plan, c))?;
    let mut sorted = found.clone();
    sorted.sort_unstable();
    sorted.dedup();
    if sorted.len() == plan.tasks.len() && found.len() == plan.tasks.len() {
        return Some(found);
    }
    c.field(field, |c| {
        let problem = format_args!("{} names for {} tasks", names.len(), plan.tasks.len());
        c.fault(Code::Conflict, problem, "name every task of the plan once");
    });
    None
}

fn batches(wire: &[TaskBatch], plan: &Plan, c: &mut Checker) -> Option<Vec<Option<Batch>>> {
    let mut batches = vec![None; plan.tasks.len()];
    let pairs = c.list("batches", wire, |entry, c| {
        let index = c.field("id", |c| find(&entry.id, plan, c));
        let batch = c.unit("batch", Batch::new(entry.batch));
        Some((index?, batch?))
    })?;
    for (index, batch) in pairs {
        batches[index] = Some(batch);
    }
    Some(batches)
}

/// Who waits for whom: a task waits for one other at most, and none for itself by a detour.
fn holds(wire: &[Hold], plan: &Plan, c: &mut Checker) -> Option<Vec<Option<usize>>> {
    if wire.is_empty() {
        return Some(Vec::new());
    }
    let mut holds = vec![None; plan.tasks.len()];
    let pairs = c.list("holds", wire, |hold, c| {
        let task = c.field("task", |c| find(&hold.task, plan, c));
        let until = c.field("until_computed", |c| find(&hold.until_computed, plan, c));
        Some((task?, until?))
    })?;
    for &(task, until) in &pairs {
        if holds[task].replace(until).is_some() {
            c.field("holds", |c| {
                let problem = format_args!("task {} is held twice", plan.tasks[task].id);
                c.fault(Code::Duplicate, problem, "hold it until one other ends");
            });
            return None;
        }
    }
    for start in 0..holds.len() {
        let mut at = Some(start);
        for _ in 0..=holds.len() {
            at = at.and_then(|i| holds[i]);
        }
        if at.is_some() {
            c.field("holds", |c| {
                let problem = format_args!("task {} waits for itself", plan.tasks[start].id);
                c.fault(Code::Conflict, problem, "remove one hold of the circle");
            });
            return None;
        }
    }
    Some(holds)
}

fn phase(wire: &wire::Phase, plan: &Plan, c: &mut Checker) -> Option<Phase> {
    c.unit("task", TaskId::new(&wire.task))?;
    let task = c.field("task", |c| find(&wire.task, plan, c));
    let start = c.unit("start_s", Seconds::new(wire.start_s));
    let end = c.unit("end_s", Seconds::new(wire.end_s));
    if wire.end_s < wire.start_s {
        c.field("end_s", |c| {
            let problem = format_args!("{} is before the start {}", wire.end_s, wire.start_s);
            c.fault(
                Code::Conflict,
                problem,
                "a phase ends when it starts or later",
            );
        });
    }
    Some(Phase {
        task: task?,
        kind: wire.phase,
        start: start?,
        end: end?,
    })
}
