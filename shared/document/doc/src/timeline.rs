use units::{Batch, Seconds, TaskId};

use crate::wire::{self, PhaseKind, RatesKind, ScheduleClass, Search, TaskBatch, Wire};
use crate::{Checker, Code, Document, Plan, Provenance};

/// Order and times of the transfers and compute of one round.
///
/// Each order names every task of the plan once. Phases name tasks of the plan, and no phase ends
/// before it starts.
#[derive(Debug, Clone, PartialEq)]
pub struct Timeline {
    /// Name of the device or client.
    pub id: Option<String>,
    /// Which compute rates were used.
    pub rates: RatesKind,
    /// Whether uploads had to keep the order of the downloads.
    pub single_order: bool,
    /// Tasks in the order of their downloads, as indices into the plan's tasks.
    pub download_order: Vec<usize>,
    /// Tasks in the order of their uploads, as indices into the plan's tasks.
    pub upload_order: Vec<usize>,
    /// Phases that are held back although they could start, each at most once.
    pub holds: Vec<Hold>,
    /// Batch size of each task of the plan, if known.
    pub batches: Vec<Option<Batch>>,
    /// Every phase of every task, by start time.
    pub phases: Vec<Phase>,
    /// End of the last phase.
    pub makespan: Seconds,
    /// Lower bound of the makespan: no schedule is faster, with or without deliberate idling.
    pub lower_bound: Seconds,
    /// `makespan / lower_bound - 1`.
    pub gap: f64,
    /// Whether the makespan is proven optimal in a class of schedules.
    pub proven: bool,
    /// The class of schedules of that proof.
    pub proven_among: Option<ScheduleClass>,
    /// Makespan without overlap.
    pub overlap_off: Seconds,
    /// How the order was found.
    pub search: Search,
    /// The plan whose round this is.
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

/// A phase that is held back until a phase of another task has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Hold {
    /// Index into the plan's tasks.
    pub task: usize,
    /// The phase that starts later.
    pub phase: PhaseKind,
    /// Index of the other task, whose phase must end first.
    pub until: usize,
    /// The phase of the other task that must end first.
    pub end_of: PhaseKind,
}

impl Hold {
    /// Returns the first of `holds` whose phase can never start because it waits for itself through
    /// a cycle. Three kinds of constraints order the phases: the phases of one task, the turns in
    /// each direction, and the holds. A link shared by all transfers has no turns, but assuming them
    /// refuses no valid timeline.
    #[must_use]
    pub fn stuck(
        holds: &[Hold],
        tasks: usize,
        downloads: &[usize],
        uploads: &[usize],
    ) -> Option<Hold> {
        let node = |task: usize, phase: PhaseKind| 3 * task + phase as usize;
        let mut before: Vec<Vec<usize>> = vec![Vec::new(); 3 * tasks];
        for i in 0..tasks {
            before[3 * i + 1].push(3 * i);
            before[3 * i + 2].push(3 * i + 1);
        }
        for (order, phase) in [
            (downloads, PhaseKind::Download),
            (uploads, PhaseKind::Upload),
        ] {
            for pair in order.windows(2) {
                before[node(pair[1], phase)].push(node(pair[0], phase));
            }
        }
        for h in holds {
            before[node(h.task, h.phase)].push(node(h.until, h.end_of));
        }
        let mut ended = vec![false; 3 * tasks];
        while let Some(next) =
            (0..3 * tasks).find(|&p| !ended[p] && before[p].iter().all(|&earlier| ended[earlier]))
        {
            ended[next] = true;
        }
        let never = |h: &&Hold| !ended[node(h.task, h.phase)];
        holds.iter().find(never).copied()
    }
}

impl Document for Timeline {
    type Wire = wire::Timeline;

    fn from_wire(wire: &wire::Timeline, c: &mut Checker) -> Option<Self> {
        let plan = c.field("plan", |c| Plan::from_nested(&wire.plan, c))?;
        let download_order = order(&wire.download_order, &plan, "download_order", c);
        let upload_order = order(&wire.upload_order, &plan, "upload_order", c);
        let holds = holds(&wire.holds, &plan, c);
        if let (Some(holds), Some(down), Some(up)) = (&holds, &download_order, &upload_order) {
            no_circle(holds, down, up, &plan, c);
        }
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
        let holds = self.holds.iter();
        wire::Timeline {
            schema: wire::Timeline::SCHEMA.to_owned(),
            id: self.id.clone(),
            rates: self.rates,
            single_order: self.single_order,
            download_order: names(&self.download_order),
            upload_order: names(&self.upload_order),
            holds: holds
                .map(|h| {
                    let until = |kind| (h.end_of == kind).then(|| name(h.until));
                    wire::Hold {
                        task: name(h.task),
                        phase: h.phase,
                        until_downloaded: until(PhaseKind::Download),
                        until_computed: until(PhaseKind::Compute),
                        until_uploaded: until(PhaseKind::Upload),
                    }
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

/// Reads the holds. A phase is held at most once, and only by another task.
fn holds(wire: &[wire::Hold], plan: &Plan, c: &mut Checker) -> Option<Vec<Hold>> {
    let holds = c.list("holds", wire, |hold, c| {
        let task = c.field("task", |c| find(&hold.task, plan, c));
        let untils = [
            (
                "until_downloaded",
                &hold.until_downloaded,
                PhaseKind::Download,
            ),
            ("until_computed", &hold.until_computed, PhaseKind::Compute),
            ("until_uploaded", &hold.until_uploaded, PhaseKind::Upload),
        ];
        let mut named = untils
            .into_iter()
            .filter_map(|(field, name, kind)| Some((field, name.as_ref()?, kind)));
        let (Some((field, name, end_of)), None) = (named.next(), named.next()) else {
            let problem = "it must have one of until_downloaded, until_computed, until_uploaded";
            let advice = "name the one phase whose end is waited for";
            c.fault(Code::Conflict, format_args!("{problem}"), advice);
            return None;
        };
        let until = c.field(field, |c| find(name, plan, c));
        Some(Hold {
            task: task?,
            phase: hold.phase,
            until: until?,
            end_of,
        })
    })?;
    for (at, h) in holds.iter().enumerate() {
        let same = |g: &Hold| (g.task, g.phase) == (h.task, h.phase);
        if holds[..at].iter().any(same) {
            c.field("holds", |c| {
                let task = &plan.tasks[h.task].id;
                let problem = format_args!("a phase of task {task} is held twice");
                c.fault(Code::Duplicate, problem, "hold it until one end");
            });
            return None;
        }
    }
    Some(holds)
}

/// Checks that the holds form no cycle: every phase can start at some time.
fn no_circle(holds: &[Hold], downloads: &[usize], uploads: &[usize], plan: &Plan, c: &mut Checker) {
    if let Some(h) = Hold::stuck(holds, plan.tasks.len(), downloads, uploads) {
        c.field("holds", |c| {
            let problem = format_args!("task {} waits for itself", plan.tasks[h.task].id);
            c.fault(Code::Conflict, problem, "remove one hold of the cycle");
        });
    }
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
