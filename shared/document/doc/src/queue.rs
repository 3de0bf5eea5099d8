use std::collections::BTreeMap;

use units::{Seconds, TaskId, Weight};

use crate::event::{Field, check_fields};
use crate::wire::{self, QueueEventKind, Wire as _};
use crate::{Checker, ClusterJob, Code, Document, Event, cluster};

/// An event that a live system reports to a scheduler about its jobs.
pub type QueueEvent = Event<QueueNews>;

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub enum QueueNews {
    /// A job of the cluster has arrived.
    Arrival(TaskId),
    /// A job that is not in the cluster document has arrived.
    New(Box<ClusterJob>),
    /// A task has been started on the GPU of this name.
    Started(QueueTask, String),
    /// A task has finished training, but not yet synchronised.
    Trained(QueueTask),
    /// A task has synchronised its result.
    Finished(QueueTask),
    /// A task has failed.
    Failed(QueueTask),
    /// A job is given up.
    Cancelled(TaskId),
    /// The GPU of this name must no longer be used.
    Lost(String),
    /// The GPU of this name can be used again.
    Found(String),
    /// Nothing happened except that time has passed.
    Time,
    /// The weight of a job has changed.
    Weight(TaskId, Weight),
    /// New estimate of how long a job takes.
    Estimate(TaskId, QueueEstimate),
    /// A job should be complete by this time; `None`: no deadline.
    Deadline(TaskId, Option<Seconds>),
    /// A [`crate::ClusterStatus`] is asked for.
    Status,
}

/// New estimate of how long a job takes; at least one of the two fields is given.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct QueueEstimate {
    /// Remaining rounds, including the current one, 1 or more.
    pub rounds_left: Option<u32>,
    /// Training time of its tasks on some GPU types, above 0.
    pub train: BTreeMap<String, Seconds>,
}

/// A task of a round of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueTask {
    /// Name of the job.
    pub job: TaskId,
    /// Round, from 0.
    pub round: u32,
    /// Task of the round, from 0.
    pub task: u32,
}

/// A task that a live system should start now.
#[derive(Debug, Clone, PartialEq)]
pub struct QueueStart {
    /// Seconds on the clock of the events.
    pub time: Seconds,
    /// The task to start.
    pub task: QueueTask,
    /// Name of the GPU.
    pub gpu: String,
    /// The machine that holds the GPU.
    pub node: Option<String>,
}

impl Document for QueueEvent {
    type Wire = wire::QueueEvent;

    fn from_wire(wire: &wire::QueueEvent, c: &mut Checker) -> Option<Self> {
        Self::of(wire.schema.as_deref(), wire.time_s, |c| news(wire, c), c)
    }

    fn to_wire(&self) -> wire::QueueEvent {
        let (event, task, gpu) = match &self.what {
            QueueNews::Arrival(_) | QueueNews::New(_) => (QueueEventKind::Arrival, None, None),
            QueueNews::Started(task, gpu) => (QueueEventKind::Started, Some(task), Some(gpu)),
            QueueNews::Trained(task) => (QueueEventKind::Trained, Some(task), None),
            QueueNews::Finished(task) => (QueueEventKind::Finished, Some(task), None),
            QueueNews::Failed(task) => (QueueEventKind::Failed, Some(task), None),
            QueueNews::Cancelled(_) => (QueueEventKind::Cancelled, None, None),
            QueueNews::Lost(gpu) => (QueueEventKind::Lost, None, Some(gpu)),
            QueueNews::Found(gpu) => (QueueEventKind::Found, None, Some(gpu)),
            QueueNews::Time => (QueueEventKind::Time, None, None),
            QueueNews::Weight(..) => (QueueEventKind::Weight, None, None),
            QueueNews::Estimate(..) => (QueueEventKind::Estimate, None, None),
            QueueNews::Deadline(..) => (QueueEventKind::Deadline, None, None),
            QueueNews::Status => (QueueEventKind::Status, None, None),
        };
        let job = match &self.what {
            QueueNews::Arrival(job)
            | QueueNews::Cancelled(job)
            | QueueNews::Weight(job, _)
            | QueueNews::Estimate(job, _)
            | QueueNews::Deadline(job, _) => Some(job),
            _ => task.map(|t| &t.job),
        };
        let spec = match &self.what {
            QueueNews::New(spec) => Some(cluster::job_to_wire(spec)),
            _ => None,
        };
        let (mut weight, mut rounds_left, mut deadline_s) = (None, None, None);
        let mut train_s = BTreeMap::new();
        match &self.what {
            QueueNews::Weight(_, value) => weight = Some(value.get()),
            QueueNews::Estimate(_, estimate) => {
                rounds_left = estimate.rounds_left;
                let times = estimate.train.iter();
                train_s = times.map(|(kind, s)| (kind.clone(), s.get())).collect();
            }
            QueueNews::Deadline(_, at) => deadline_s = at.map(Seconds::get),
            _ => {}
        }
        wire::QueueEvent {
            schema: self.schema(),
            event,
            time_s: self.time.get(),
            job: job.map(ToString::to_string),
            spec,
            round: task.map(|t| t.round),
            task: task.map(|t| t.task),
            gpu: gpu.cloned(),
            weight,
            rounds_left,
            train_s,
            deadline_s,
        }
    }
}

/// Checks that every field belongs to its kind of event.
fn check(wire: &wire::QueueEvent, c: &mut Checker) {
    use QueueEventKind::{
        Arrival, Cancelled, Deadline, Estimate, Failed, Finished, Found, Lost, Started, Status,
        Time, Trained, Weight,
    };
    let of_task = &[Started, Trained, Finished, Failed];
    let of_job = &[
        Arrival, Started, Trained, Finished, Failed, Cancelled, Weight, Estimate, Deadline,
    ];
    let fields: [Field<'_, _>; 9] = [
        ("job", wire.job.is_some(), of_job),
        ("spec", wire.spec.is_some(), &[Arrival]),
        ("round", wire.round.is_some(), of_task),
        ("task", wire.task.is_some(), of_task),
        ("gpu", wire.gpu.is_some(), &[Started, Lost, Found]),
        ("weight", wire.weight.is_some(), &[Weight]),
        ("rounds_left", wire.rounds_left.is_some(), &[Estimate]),
        ("train_s", !wire.train_s.is_empty(), &[Estimate]),
        ("deadline_s", wire.deadline_s.is_some(), &[Deadline]),
    ];
    let needed: &[&str] = match wire.event {
        // An arrival has either a name or a whole job; this is checked below.
        Arrival | Time | Status => &[],
        Started => &["job", "round", "task", "gpu"],
        Trained | Finished | Failed => &["job", "round", "task"],
        Cancelled | Estimate | Deadline => &["job"],
        Weight => &["job", "weight"],
        Lost | Found => &["gpu"],
    };
    check_fields(wire.event, &fields, needed, c);
    if wire.event == Estimate && wire.rounds_left.is_none() && wire.train_s.is_empty() {
        c.field("rounds_left", |c| {
            let problem = "an estimate says nothing";
            let advice = "give `rounds_left`, `train_s`, or both";
            c.fault(Code::MissingField, problem, advice);
        });
    }
    if wire.event == Arrival && wire.job.is_some() == wire.spec.is_some() {
        c.field("job", |c| {
            let problem = "an arrival has either `job` or `spec`";
            let advice = "give the name of a job of the cluster, or a whole job as `spec`";
            c.fault(Code::Conflict, problem, advice);
        });
    }
}

fn news(wire: &wire::QueueEvent, c: &mut Checker) -> Option<QueueNews> {
    check(wire, c);
    let job = c.optional_unit("job", wire.job.as_deref(), TaskId::new)?;
    let gpu = wire.gpu.clone();
    let task = || {
        Some(QueueTask {
            job: job.clone()?,
            round: wire.round?,
            task: wire.task?,
        })
    };
    Some(match wire.event {
        QueueEventKind::Arrival => match &wire.spec {
            Some(spec) => {
                let spec = c.field("spec", |c| cluster::job(spec, c))?;
                QueueNews::New(Box::new(spec))
            }
            None => QueueNews::Arrival(job?),
        },
        QueueEventKind::Started => QueueNews::Started(task()?, gpu?),
        QueueEventKind::Trained => QueueNews::Trained(task()?),
        QueueEventKind::Finished => QueueNews::Finished(task()?),
        QueueEventKind::Failed => QueueNews::Failed(task()?),
        QueueEventKind::Cancelled => QueueNews::Cancelled(job?),
        QueueEventKind::Lost => QueueNews::Lost(gpu?),
        QueueEventKind::Found => QueueNews::Found(gpu?),
        QueueEventKind::Time => QueueNews::Time,
        QueueEventKind::Weight => {
            let weight = c.optional_unit("weight", wire.weight, Weight::new)?;
            QueueNews::Weight(job?, weight?)
        }
        QueueEventKind::Estimate => QueueNews::Estimate(job?, estimate(wire, c)?),
        QueueEventKind::Deadline => {
            let at = c.optional_unit("deadline_s", wire.deadline_s, Seconds::new)?;
            QueueNews::Deadline(job?, at)
        }
        QueueEventKind::Status => QueueNews::Status,
    })
}

fn estimate(wire: &wire::QueueEvent, c: &mut Checker) -> Option<QueueEstimate> {
    let train = cluster::table("train_s", &wire.train_s, f64::MIN_POSITIVE, c);
    if wire.rounds_left == Some(0) {
        c.field("rounds_left", |c| {
            let advice = "give 1 or more, or cancel the job";
            c.fault(Code::OutOfRange, "0 is too few", advice);
        });
        return None;
    }
    Some(QueueEstimate {
        rounds_left: wire.rounds_left,
        train: train?,
    })
}

impl Document for QueueStart {
    type Wire = wire::QueueStart;

    fn from_wire(wire: &wire::QueueStart, c: &mut Checker) -> Option<Self> {
        let time = c.unit("time_s", Seconds::new(wire.time_s));
        let job = c.unit("job", TaskId::new(&wire.job));
        Some(Self {
            time: time?,
            task: QueueTask {
                job: job?,
                round: wire.round,
                task: wire.task,
            },
            gpu: wire.gpu.clone(),
            node: wire.node.clone(),
        })
    }

    fn to_wire(&self) -> wire::QueueStart {
        wire::QueueStart {
            schema: wire::QueueStart::SCHEMA.to_owned(),
            time_s: self.time.get(),
            job: self.task.job.to_string(),
            round: self.task.round,
            task: self.task.task,
            gpu: self.gpu.clone(),
            node: self.node.clone(),
        }
    }
}
