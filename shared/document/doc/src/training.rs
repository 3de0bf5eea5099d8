use std::collections::BTreeMap;

use units::{Batch, Samples, Seconds, TaskId, Weight};

use crate::checker::optional;
use crate::event::{Field, check_fields};
use crate::wire::{self, TrainingEventKind};
use crate::{Checker, Code, Document, Event, GradientNoise};

/// An event of a training, which an allocator of GPUs reads.
pub type TrainingEvent = Event<TrainingNews>;

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub enum TrainingNews {
    /// A training wants GPUs.
    Arrive(Box<Arrival>),
    /// A training made steps.
    Progress {
        /// Name of the training.
        task: TaskId,
        /// Number of global steps made so far.
        step: u64,
        /// Number of GPUs that it runs on.
        gpus: u32,
        /// Loss of the step; absent if the training has diverged.
        loss: Option<f64>,
        /// Global batch size: samples per step over all its processes.
        batch: Option<Batch>,
        /// Gradient statistics of the steps since the previous progress event, from which the noise
        /// scale is estimated.
        gradient: Option<GradientNoise>,
    },
    /// A training has stopped and saved a checkpoint, at `step` if given.
    Parked {
        /// Name of the training.
        task: TaskId,
        /// Number of global steps made so far.
        step: Option<u64>,
    },
    /// A training has ended.
    Done {
        /// Name of the training.
        task: TaskId,
    },
    /// A training has ended without reaching its target.
    Failed {
        /// Name of the training.
        task: TaskId,
        /// Why it failed.
        reason: Option<String>,
    },
    /// The decision with this number has been carried out.
    Ack {
        /// Number of the decision.
        seq: u64,
    },
    /// The GPU with this number must no longer be used.
    Lost {
        /// Number of the GPU, from 0.
        gpu: u32,
    },
    /// A lost GPU can be used again.
    Found {
        /// Number of the GPU, from 0.
        gpu: u32,
    },
}

/// A training that wants GPUs.
#[derive(Debug, Clone, PartialEq)]
pub struct Arrival {
    /// Name of the training.
    pub task: TaskId,
    /// Minimum number of GPUs that it runs on, 1 or more.
    pub min_gpus: Option<u32>,
    /// Maximum number of GPUs that it runs on, at least `min_gpus`.
    pub max_gpus: Option<u32>,
    /// The training is done when the mean loss of the last ten reports is at most this.
    pub target_loss: Option<f64>,
    /// The training is done after this many steps.
    pub total_steps: Option<u64>,
    /// The training is done after this many samples.
    pub total_samples: Option<Samples>,
    /// The training is done when the loss falls by less than this fraction (above 0, below 1) over
    /// 100 steps.
    pub plateau: Option<f64>,
    /// Weight in the weighted objective.
    pub weight: Option<Weight>,
    /// Number of samples per step.
    pub batch: Option<TrainingBatch>,
    /// Measured speed from an earlier run: steps per second, above 0, by number of GPUs, 1 or more.
    pub steps_per_s: BTreeMap<u32, f64>,
}

/// How the samples of a step depend on the number of GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrainingBatch {
    /// The same total for any number of GPUs, split over them.
    Global(Batch),
    /// The same number on each GPU.
    PerGpu(Batch),
}

impl Document for TrainingEvent {
    type Wire = wire::TrainingEvent;

    fn from_wire(wire: &wire::TrainingEvent, c: &mut Checker) -> Option<Self> {
        Self::of(wire.schema.as_deref(), wire.time_s, |c| news(wire, c), c)
    }

    fn to_wire(&self) -> wire::TrainingEvent {
        let mut wire = empty(kind(&self.what), self.time);
        wire.schema = self.schema();
        match &self.what {
            TrainingNews::Arrive(arrival) => write_arrival(arrival, &mut wire),
            TrainingNews::Progress {
                task,
                step,
                gpus,
                loss,
                batch,
                gradient,
            } => {
                wire.gradient = *gradient;
                wire.task = Some(task.to_string());
                (wire.step, wire.gpus, wire.loss) = (Some(*step), Some(*gpus), *loss);
                wire.batch = batch.map(|b| u64::from(b.get()));
            }
            TrainingNews::Parked { task, step } => {
                (wire.task, wire.step) = (Some(task.to_string()), *step);
            }
            TrainingNews::Done { task } => wire.task = Some(task.to_string()),
            TrainingNews::Failed { task, reason } => {
                (wire.task, wire.reason) = (Some(task.to_string()), reason.clone());
            }
            TrainingNews::Ack { seq } => wire.seq = Some(*seq),
            TrainingNews::Lost { gpu } | TrainingNews::Found { gpu } => wire.gpu = Some(*gpu),
        }
        wire
    }
}

fn kind(what: &TrainingNews) -> TrainingEventKind {
    match what {
        TrainingNews::Arrive(_) => TrainingEventKind::Arrive,
        TrainingNews::Progress { .. } => TrainingEventKind::Progress,
        TrainingNews::Parked { .. } => TrainingEventKind::Parked,
        TrainingNews::Done { .. } => TrainingEventKind::Done,
        TrainingNews::Failed { .. } => TrainingEventKind::Failed,
        TrainingNews::Ack { .. } => TrainingEventKind::Ack,
        TrainingNews::Lost { .. } => TrainingEventKind::Lost,
        TrainingNews::Found { .. } => TrainingEventKind::Found,
    }
}

fn empty(event: TrainingEventKind, time: Seconds) -> wire::TrainingEvent {
    wire::TrainingEvent {
        schema: None,
        event,
        time_s: time.get(),
        task: None,
        gradient: None,
        min_gpus: None,
        max_gpus: None,
        target_loss: None,
        total_steps: None,
        total_samples: None,
        plateau: None,
        weight: None,
        steps_per_s: BTreeMap::new(),
        step: None,
        loss: None,
        gpus: None,
        batch: None,
        batch_per_gpu: None,
        seq: None,
        reason: None,
        gpu: None,
    }
}

/// Checks that every field belongs to its kind of event.
fn check(wire: &wire::TrainingEvent, c: &mut Checker) {
    use TrainingEventKind::{Ack, Arrive, Done, Failed, Found, Lost, Parked, Progress};
    let of_task = &[Arrive, Progress, Parked, Done, Failed];
    let fields: [Field<'_, _>; 18] = [
        ("task", wire.task.is_some(), of_task),
        ("min_gpus", wire.min_gpus.is_some(), &[Arrive]),
        ("max_gpus", wire.max_gpus.is_some(), &[Arrive]),
        ("target_loss", wire.target_loss.is_some(), &[Arrive]),
        ("total_steps", wire.total_steps.is_some(), &[Arrive]),
        ("total_samples", wire.total_samples.is_some(), &[Arrive]),
        ("plateau", wire.plateau.is_some(), &[Arrive]),
        ("weight", wire.weight.is_some(), &[Arrive]),
        ("step", wire.step.is_some(), &[Progress, Parked]),
        ("loss", wire.loss.is_some(), &[Progress]),
        ("gpus", wire.gpus.is_some(), &[Progress]),
        ("batch", wire.batch.is_some(), &[Arrive, Progress]),
        ("batch_per_gpu", wire.batch_per_gpu.is_some(), &[Arrive]),
        ("gradient", wire.gradient.is_some(), &[Progress]),
        ("steps_per_s", !wire.steps_per_s.is_empty(), &[Arrive]),
        ("seq", wire.seq.is_some(), &[Ack]),
        ("reason", wire.reason.is_some(), &[Failed]),
        ("gpu", wire.gpu.is_some(), &[Lost, Found]),
    ];
    let needed: &[&str] = match wire.event {
        Arrive | Parked | Done | Failed => &["task"],
        Progress => &["task", "step", "gpus"],
        Ack => &["seq"],
        Lost | Found => &["gpu"],
    };
    check_fields(wire.event, &fields, needed, c);
}

fn news(wire: &wire::TrainingEvent, c: &mut Checker) -> Option<TrainingNews> {
    check(wire, c);
    let task = c.optional_unit("task", wire.task.as_deref(), TaskId::new)?;
    Some(match wire.event {
        TrainingEventKind::Arrive => TrainingNews::Arrive(Box::new(arrival(wire, task?, c)?)),
        TrainingEventKind::Progress => TrainingNews::Progress {
            task: task?,
            step: wire.step?,
            gpus: positive("gpus", wire.gpus, c)??,
            loss: wire.loss,
            batch: c.optional_unit("batch", wire.batch, Batch::new)?,
            gradient: optional(
                c,
                "gradient",
                wire.gradient.as_ref(),
                crate::profile::gradient,
            )?,
        },
        TrainingEventKind::Parked => TrainingNews::Parked {
            task: task?,
            step: wire.step,
        },
        TrainingEventKind::Done => TrainingNews::Done { task: task? },
        TrainingEventKind::Failed => TrainingNews::Failed {
            task: task?,
            reason: wire.reason.clone(),
        },
        TrainingEventKind::Ack => TrainingNews::Ack { seq: wire.seq? },
        TrainingEventKind::Lost => TrainingNews::Lost { gpu: wire.gpu? },
        TrainingEventKind::Found => TrainingNews::Found { gpu: wire.gpu? },
    })
}

fn arrival(wire: &wire::TrainingEvent, task: TaskId, c: &mut Checker) -> Option<Arrival> {
    let min_gpus = positive("min_gpus", wire.min_gpus, c);
    let max_gpus = positive("max_gpus", wire.max_gpus, c);
    if let (Some(least), Some(most)) = (wire.min_gpus, wire.max_gpus)
        && least > most
    {
        c.field("max_gpus", |c| {
            let problem = format_args!("at most {most} GPUs, and at least {least}");
            c.fault(Code::Conflict, problem, "give max_gpus >= min_gpus");
        });
    }
    let plateau = wire.plateau;
    if plateau.is_some_and(|p| !(p > 0.0 && p < 1.0)) {
        c.field("plateau", |c| {
            c.fault(
                Code::OutOfRange,
                "not a part",
                "give a number between 0 and 1",
            );
        });
    }
    let total_samples = c.optional_unit("total_samples", wire.total_samples, Samples::new);
    let weight = c.optional_unit("weight", wire.weight, Weight::new);
    let global = c.optional_unit("batch", wire.batch, Batch::new)?;
    let each = c.optional_unit("batch_per_gpu", wire.batch_per_gpu, Batch::new)?;
    if global.is_some() && each.is_some() {
        c.field("batch_per_gpu", |c| {
            let problem = "both batch and batch_per_gpu are given";
            c.fault(Code::Conflict, problem, "give one of them");
        });
    }
    let steps_per_s = c.field("steps_per_s", |c| speeds(&wire.steps_per_s, c));
    Some(Arrival {
        task,
        min_gpus: min_gpus?,
        max_gpus: max_gpus?,
        target_loss: wire.target_loss,
        total_steps: wire.total_steps,
        total_samples: total_samples?,
        plateau,
        weight: weight?,
        batch: global
            .map(TrainingBatch::Global)
            .or(each.map(TrainingBatch::PerGpu)),
        steps_per_s,
    })
}

/// Accepted range of steps per second: from one step per century to one per nanosecond.
const RATES: std::ops::RangeInclusive<f64> = 1e-9..=1e9;

fn speeds(wire: &BTreeMap<String, f64>, c: &mut Checker) -> BTreeMap<u32, f64> {
    let mut speeds = BTreeMap::new();
    for (gpus, rate) in wire {
        match gpus.parse::<u32>() {
            Ok(count) if count > 0 && RATES.contains(rate) => {
                speeds.insert(count, *rate);
            }
            _ => {
                let problem = format_args!("{gpus:?}: {rate:?} is not a speed on a number of GPUs");
                let advice = "give steps per second, 1e-9 to 1e9, by GPUs, from 1, as {\"2\":1.6}";
                c.fault(Code::OutOfRange, problem, advice);
            }
        }
    }
    speeds
}

/// Checks a number of GPUs that may be absent: 1 or more.
fn positive(name: &str, value: Option<u32>, c: &mut Checker) -> Option<Option<u32>> {
    if value == Some(0) {
        c.field(name, |c| {
            c.fault(Code::OutOfRange, "0 GPUs", "give 1 or more");
        });
        return None;
    }
    Some(value)
}

fn write_arrival(arrival: &Arrival, wire: &mut wire::TrainingEvent) {
    wire.task = Some(arrival.task.to_string());
    wire.min_gpus = arrival.min_gpus;
    wire.max_gpus = arrival.max_gpus;
    wire.target_loss = arrival.target_loss;
    wire.total_steps = arrival.total_steps;
    wire.total_samples = arrival.total_samples.map(Samples::get);
    wire.plateau = arrival.plateau;
    wire.weight = arrival.weight.map(Weight::get);
    let rates = arrival.steps_per_s.iter();
    wire.steps_per_s = rates.map(|(g, rate)| (g.to_string(), *rate)).collect();
    match arrival.batch {
        Some(TrainingBatch::Global(b)) => wire.batch = Some(u64::from(b.get())),
        Some(TrainingBatch::PerGpu(b)) => wire.batch_per_gpu = Some(u64::from(b.get())),
        None => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Frame, ReadError};

    fn read(text: &str) -> Result<TrainingEvent, Vec<(Code, String)>> {
        let frame = Frame {
            bytes: text.as_bytes().to_vec(),
            source_name: "test".to_owned(),
            line: 1,
        };
        match TrainingEvent::read(&frame) {
            Ok(event) => Ok(event),
            Err(ReadError::Faults(f)) => {
                Err(f.faults.into_iter().map(|f| (f.code, f.path)).collect())
            }
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn events_go_and_come_back() {
        for line in [
            r#"{"event":"arrive","time_s":0.0,"task":"a","min_gpus":1,"max_gpus":4,"target_loss":0.3,"total_steps":20000,"total_samples":900,"plateau":0.01,"weight":1.5,"steps_per_s":{"1":0.9,"4":2.5},"batch":512}"#,
            r#"{"schema":"mt.training/1","event":"arrive","time_s":0.5,"task":"a","batch_per_gpu":128}"#,
            r#"{"event":"progress","time_s":12.5,"task":"a","step":100,"loss":1.73,"gpus":2,"batch":512}"#,
            r#"{"event":"progress","time_s":12.5,"task":"a","step":100,"gpus":2}"#,
            r#"{"event":"parked","time_s":13.0,"task":"a","step":110}"#,
            r#"{"event":"done","time_s":99.0,"task":"a"}"#,
            r#"{"event":"failed","time_s":99.0,"task":"a","reason":"out of memory"}"#,
            r#"{"event":"ack","time_s":13.1,"seq":7}"#,
            r#"{"event":"lost","time_s":13.1,"gpu":0}"#,
            r#"{"event":"found","time_s":14.1,"gpu":0}"#,
        ] {
            let event = read(line).unwrap();
            assert_eq!(serde_json::to_string(&event.to_wire()).unwrap(), line);
        }
    }

    #[test]
    fn what_an_event_lacks_or_cannot_have_is_told() {
        let cases = [
            (
                r#"{"event":"progress","time_s":1,"task":"a","gpus":1}"#,
                Code::MissingField,
                "$.step",
            ),
            (
                r#"{"event":"progress","time_s":1,"task":"a","step":1,"gpus":0}"#,
                Code::OutOfRange,
                "$.gpus",
            ),
            (
                r#"{"event":"done","time_s":1,"task":"a","loss":1}"#,
                Code::UnknownField,
                "$.loss",
            ),
            (
                r#"{"event":"done","time_s":1}"#,
                Code::MissingField,
                "$.task",
            ),
            (
                r#"{"event":"done","time_s":-1,"task":"a"}"#,
                Code::OutOfRange,
                "$.time_s",
            ),
            (
                r#"{"event":"done","time_s":1,"task":"a b"}"#,
                Code::OutOfRange,
                "$.task",
            ),
            (
                r#"{"event":"arrive","time_s":1,"task":"a","min_gpus":3,"max_gpus":2}"#,
                Code::Conflict,
                "$.max_gpus",
            ),
            (
                r#"{"event":"arrive","time_s":1,"task":"a","plateau":1}"#,
                Code::OutOfRange,
                "$.plateau",
            ),
            (
                r#"{"event":"arrive","time_s":1,"task":"a","batch":1,"batch_per_gpu":1}"#,
                Code::Conflict,
                "$.batch_per_gpu",
            ),
            (
                r#"{"event":"arrive","time_s":1,"task":"a","steps_per_s":{"2":0}}"#,
                Code::OutOfRange,
                "$.steps_per_s",
            ),
            (
                r#"{"event":"arrive","time_s":1,"task":"a","steps_per_s":{"-1":2}}"#,
                Code::OutOfRange,
                "$.steps_per_s",
            ),
            (
                r#"{"event":"ack","time_s":1,"seq":1,"sqe":1}"#,
                Code::UnknownField,
                "$.sqe",
            ),
            (
                r#"{"schema":"mt.plan/1","event":"ack","time_s":1,"seq":1}"#,
                Code::WrongSchema,
                "$.schema",
            ),
            (
                r#"{"event":"lost","time_s":1}"#,
                Code::MissingField,
                "$.gpu",
            ),
            (r#"{"event":"ack""#, Code::Syntax, ""),
        ];
        for (text, code, path) in cases {
            let faults = read(text).unwrap_err();
            assert!(
                faults.contains(&(code, path.to_owned())),
                "{text}: {faults:?}"
            );
        }
    }
}
