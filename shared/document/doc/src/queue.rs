use units::{Seconds, TaskId};

use crate::event::{Field, check_fields};
use crate::wire::{self, QueueEventKind, Wire as _};
use crate::{Checker, ClusterJob, Code, Document, Event, cluster};

/// What a live system tells a scheduler of its jobs.
pub type QueueEvent = Event<QueueNews>;

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub enum QueueNews {
    /// A job of the cluster has arrived.
    Arrival(TaskId),
    /// A job that the cluster does not have has arrived.
    New(Box<ClusterJob>),
    /// A task has been started on the GPU of this name.
    Started(QueueTask, String),
    /// A task has trained.
    Trained(QueueTask),
    /// A task is synchronised.
    Finished(QueueTask),
    /// A task has failed.
    Failed(QueueTask),
    /// A job is given up.
    Cancelled(TaskId),
    /// The GPU of this name is not to be used any more.
    Lost(String),
    /// The GPU of this name can be used again.
    Found(String),
    /// Time has passed.
    Time,
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

/// A task that a live system is to start now.
#[derive(Debug, Clone, PartialEq)]
pub struct QueueStart {
    /// Seconds on the clock of the events.
    pub time: Seconds,
    /// The task.
    pub task: QueueTask,
    /// Name of the GPU.
    pub gpu: String,
    /// The machine that it is in.
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
        };
        let job = match &self.what {
            QueueNews::Arrival(job) | QueueNews::Cancelled(job) => Some(job),
            _ => task.map(|t| &t.job),
        };
        let spec = match &self.what {
            QueueNews::New(spec) => Some(cluster::job_to_wire(spec)),
            _ => None,
        };
        wire::QueueEvent {
            schema: self.schema(),
            event,
            time_s: self.time.get(),
            job: job.map(ToString::to_string),
            spec,
            round: task.map(|t| t.round),
            task: task.map(|t| t.task),
            gpu: gpu.cloned(),
        }
    }
}

/// Every field stands where it means something.
fn check(wire: &wire::QueueEvent, c: &mut Checker) {
    use QueueEventKind::{
        Arrival, Cancelled, Failed, Finished, Found, Lost, Started, Time, Trained,
    };
    let of_task = &[Started, Trained, Finished, Failed];
    let of_job = &[Arrival, Started, Trained, Finished, Failed, Cancelled];
    let fields: [Field<'_, _>; 5] = [
        ("job", wire.job.is_some(), of_job),
        ("spec", wire.spec.is_some(), &[Arrival]),
        ("round", wire.round.is_some(), of_task),
        ("task", wire.task.is_some(), of_task),
        ("gpu", wire.gpu.is_some(), &[Started, Lost, Found]),
    ];
    let needed: &[&str] = match wire.event {
        // An arrival has either a name or a whole job, which is looked at below.
        Arrival | Time => &[],
        Started => &["job", "round", "task", "gpu"],
        Trained | Finished | Failed => &["job", "round", "task"],
        Cancelled => &["job"],
        Lost | Found => &["gpu"],
    };
    check_fields(wire.event, &fields, needed, c);
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
