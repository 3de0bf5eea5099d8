use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};
use units::{Batch, Samples, TaskId, Weight};

use crate::event::News;
use crate::wire::wire_form;
use crate::{Checker, Code, Event, GradientNoise, profile};

/// An event of a training, which an allocator of GPUs reads.
pub type TrainingEvent = Event<TrainingNews>;

wire_form!(TrainingEvent, "mt.training/1", ranges);

/// An event of a training, for an allocator of GPUs. A stream has one event per line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum TrainingNews {
    /// A training wants GPUs.
    Arrive(Box<Arrival>),
    /// A training made steps.
    Progress {
        /// Name of the training.
        task: TaskId,
        /// Number of global steps made so far.
        step: u64,
        /// Loss of the step; absent if the training has diverged.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        loss: Option<f64>,
        /// Number of GPUs that the training runs on at present.
        #[schemars(range(min = 1))]
        gpus: u32,
        /// Global batch size: number of samples per step, over all its processes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        batch: Option<Batch>,
        /// Gradient statistics of the steps since the previous progress event, from which the noise
        /// scale is estimated.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        gradient: Option<GradientNoise>,
    },
    /// A training has stopped and saved a checkpoint.
    Parked {
        /// Name of the training.
        task: TaskId,
        /// Number of global steps made so far.
        #[serde(default, skip_serializing_if = "Option::is_none")]
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
        /// Why it failed, for people.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// A decision has been carried out.
    Ack {
        /// Number of the decision.
        seq: u64,
    },
    /// A GPU of the machine must no longer be used.
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct Arrival {
    /// Name of the training.
    pub task: TaskId,
    /// Minimum number of GPUs that the training runs on; absent: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub min_gpus: Option<u32>,
    /// Maximum number of GPUs that the training runs on, at least `min_gpus`; absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_gpus: Option<u32>,
    /// The training is done when the mean loss of its last ten reports is at most this value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_loss: Option<f64>,
    /// The training is done after this number of steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_steps: Option<u64>,
    /// The training is done after this number of samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_samples: Option<Samples>,
    /// The training is done when its loss falls by less than this fraction over a window of 100 steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("exclusiveMinimum" = 0, "exclusiveMaximum" = 1))]
    pub plateau: Option<f64>,
    /// Weight of the training in the weighted objective; absent: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<Weight>,
    /// Steps per second by number of GPUs, from an earlier run. Numbers of GPUs that are absent are
    /// learnt.
    #[serde(
        default,
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "by_gpus"
    )]
    #[schemars(schema_with = "speeds")]
    pub steps_per_s: BTreeMap<u32, f64>,
    /// Number of samples per step over all processes, split over any number of GPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<Batch>,
    /// Number of samples per step and process, if the batch grows with the number of GPUs; absent if `batch` is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch_per_gpu: Option<Batch>,
}

impl News for TrainingNews {
    fn check(&self, c: &mut Checker) {
        match self {
            Self::Arrive(arrival) => arrival.check(c),
            Self::Progress {
                gradient: Some(gradient),
                ..
            } => {
                c.field("gradient", |c| profile::gradient(gradient, c));
            }
            _ => {}
        }
    }
}

impl Arrival {
    /// The arrival of a training about which only its name is known.
    #[must_use]
    pub fn new(task: TaskId) -> Self {
        Self {
            task,
            min_gpus: None,
            max_gpus: None,
            target_loss: None,
            total_steps: None,
            total_samples: None,
            plateau: None,
            weight: None,
            steps_per_s: BTreeMap::new(),
            batch: None,
            batch_per_gpu: None,
        }
    }

    /// How the samples of a step depend on the number of GPUs; `None` if the training did not tell.
    #[must_use]
    pub fn training_batch(&self) -> Option<TrainingBatch> {
        let each = self.batch_per_gpu.map(TrainingBatch::PerGpu);
        self.batch.map(TrainingBatch::Global).or(each)
    }

    fn check(&self, c: &mut Checker) {
        if let (Some(least), Some(most)) = (self.min_gpus, self.max_gpus)
            && least > most
        {
            c.field("max_gpus", |c| {
                let problem = format_args!("at most {most} GPUs, and at least {least}");
                c.fault(Code::Conflict, problem, "give max_gpus >= min_gpus");
            });
        }
        if self.batch.is_some() && self.batch_per_gpu.is_some() {
            c.field("batch_per_gpu", |c| {
                let problem = "both batch and batch_per_gpu are given";
                c.fault(Code::Conflict, problem, "give one of them");
            });
        }
    }
}

/// How the samples of a step depend on the number of GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrainingBatch {
    /// The same total for any number of GPUs, split over them.
    Global(Batch),
    /// The same number on each GPU.
    PerGpu(Batch),
}

/// Speeds by number of GPUs. Accepted are one step per century to one per nanosecond.
fn speeds(_: &mut SchemaGenerator) -> Schema {
    let advice = "steps per second, 1e-9 to 1e9, by GPUs, from 1, as {\"2\":1.6}";
    json_schema!({
        "type": "object",
        "propertyNames": {"type": "string", "pattern": "^[1-9][0-9]{0,9}$", "title": "number of GPUs", "description": advice},
        "additionalProperties": {"type": "number", "minimum": 1e-9, "maximum": 1e9, "title": "speed", "description": advice},
    })
}

fn by_gpus<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<u32, f64>, D::Error> {
    let table = BTreeMap::<String, f64>::deserialize(from)?;
    let parsed = table
        .into_iter()
        .map(|(gpus, rate)| Ok((gpus.parse()?, rate)));
    let parsed: Result<_, std::num::ParseIntError> = parsed.collect();
    parsed.map_err(serde::de::Error::custom)
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
            r#"{"time_s":0.0,"event":"arrive","task":"a","min_gpus":1,"max_gpus":4,"target_loss":0.3,"total_steps":20000,"total_samples":900,"plateau":0.01,"weight":1.5,"steps_per_s":{"1":0.9,"4":2.5},"batch":512}"#,
            r#"{"schema":"mt.training/1","time_s":0.5,"event":"arrive","task":"a","batch_per_gpu":128}"#,
            r#"{"time_s":12.5,"event":"progress","task":"a","step":100,"loss":1.73,"gpus":2,"batch":512}"#,
            r#"{"time_s":12.5,"event":"progress","task":"a","step":100,"gpus":2}"#,
            r#"{"time_s":13.0,"event":"parked","task":"a","step":110}"#,
            r#"{"time_s":99.0,"event":"done","task":"a"}"#,
            r#"{"time_s":99.0,"event":"failed","task":"a","reason":"out of memory"}"#,
            r#"{"time_s":13.1,"event":"ack","seq":7}"#,
            r#"{"time_s":13.1,"event":"lost","gpu":0}"#,
            r#"{"time_s":14.1,"event":"found","gpu":0}"#,
        ] {
            let event = read(line).unwrap();
            assert_eq!(serde_json::to_string(&event).unwrap(), line);
        }
    }

    #[test]
    fn what_an_event_lacks_or_cannot_have_is_told() {
        let cases = [
            (
                r#"{"time_s":1,"event":"progress","task":"a","gpus":1}"#,
                Code::MissingField,
                "$.step",
            ),
            (
                r#"{"time_s":1,"event":"progress","task":"a","step":1,"gpus":0}"#,
                Code::OutOfRange,
                "$.gpus",
            ),
            (
                r#"{"time_s":1,"event":"done","task":"a","loss":1}"#,
                Code::UnknownField,
                "$.loss",
            ),
            (
                r#"{"time_s":1,"event":"done"}"#,
                Code::MissingField,
                "$.task",
            ),
            (
                r#"{"event":"done","time_s":-1,"task":"a"}"#,
                Code::OutOfRange,
                "$.time_s",
            ),
            (
                r#"{"time_s":1,"event":"done","task":"a b"}"#,
                Code::OutOfRange,
                "$.task",
            ),
            (
                r#"{"time_s":1,"event":"arrive","task":"a","min_gpus":3,"max_gpus":2}"#,
                Code::Conflict,
                "$.max_gpus",
            ),
            (
                r#"{"time_s":1,"event":"arrive","task":"a","plateau":1}"#,
                Code::OutOfRange,
                "$.plateau",
            ),
            (
                r#"{"time_s":1,"event":"arrive","task":"a","batch":1,"batch_per_gpu":1}"#,
                Code::Conflict,
                "$.batch_per_gpu",
            ),
            (
                r#"{"time_s":1,"event":"arrive","task":"a","steps_per_s":{"2":0}}"#,
                Code::OutOfRange,
                "$.steps_per_s.2",
            ),
            (
                r#"{"time_s":1,"event":"arrive","task":"a","steps_per_s":{"-1":2}}"#,
                Code::OutOfRange,
                "$.steps_per_s.-1",
            ),
            (
                r#"{"time_s":1,"event":"ack","seq":1,"sqe":1}"#,
                Code::UnknownField,
                "$.sqe",
            ),
            (
                r#"{"schema":"mt.plan/1","time_s":1,"event":"ack","seq":1}"#,
                Code::WrongSchema,
                "$.schema",
            ),
            (
                r#"{"time_s":1,"event":"lost"}"#,
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
