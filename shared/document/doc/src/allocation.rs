use std::collections::BTreeMap;

use units::{Batch, Seconds, TaskId};

use crate::wire::{self, Wire as _};
use crate::{Checker, Code, Document, Provenance};

/// A decision: how many GPUs each training gets.
///
/// The trainings together have at most `total_gpus` GPUs. A training with batch sizes has one batch
/// size per GPU. A training that has reached its target has no GPU.
#[derive(Debug, Clone, PartialEq)]
pub struct Allocation {
    /// Number of the decision, from 1, increasing.
    pub seq: u64,
    /// When the decision was made.
    pub time: Seconds,
    /// GPUs of the machine.
    pub total_gpus: u32,
    /// Allocation of every training, by name.
    pub trainings: BTreeMap<TaskId, Allotment>,
    /// Reason for the decision, for people.
    pub reason: String,
    /// Expected gain.
    pub gain: Option<Gain>,
    /// Expected pause of a training when its processes change.
    pub pause: Seconds,
    /// Which tools made the document.
    pub provenance: Vec<Provenance>,
}

/// Allocation of one training.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Allotment {
    /// Number of GPUs; 0: the training is parked.
    pub gpus: u32,
    /// Batch size of every process, rank 0 first; empty if unknown.
    pub batches: Vec<Batch>,
    /// Whether the training has reached its target.
    pub reached: bool,
    /// When the training is expected to reach its target.
    pub expected: Option<Expected>,
}

/// When a training is expected to be done.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Expected {
    /// At the median of its remaining steps.
    pub end: Seconds,
    /// At the 5 % quantile of its remaining steps.
    pub low: Seconds,
    /// At the 95 % quantile of its remaining steps.
    pub high: Seconds,
}

/// Expected gain over keeping the current allocation, in seconds of the objective, after the pauses
/// are subtracted. The values are finite and may be negative.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gain {
    /// At the medians of the remaining steps.
    pub seconds: f64,
    /// Smallest gain over the quantiles of the remaining steps.
    pub low: f64,
    /// Largest gain over the quantiles of the remaining steps.
    pub high: f64,
}

impl Document for Allocation {
    type Wire = wire::Allocation;

    fn from_wire(wire: &wire::Allocation, c: &mut Checker) -> Option<Self> {
        let time = c.unit("time_s", Seconds::new(wire.time_s));
        let pause = c.unit("pause_s", Seconds::new(wire.pause_s));
        check_counts(wire, c);
        let mut trainings = BTreeMap::new();
        for (name, gpus) in &wire.gpus {
            let id = c.field("gpus", |c| c.unit(name, TaskId::new(name)));
            let allotment = Allotment {
                gpus: *gpus,
                batches: batches(wire, name, c).unwrap_or_default(),
                reached: wire.reached.contains(name),
                expected: expected(wire, name, c),
            };
            if let Some(id) = id {
                trainings.insert(id, allotment);
            }
        }
        let gain = gain(wire, c);
        Some(Self {
            seq: wire.seq,
            time: time?,
            total_gpus: wire.total_gpus,
            trainings,
            reason: wire.reason.clone(),
            gain: gain?,
            pause: pause?,
            provenance: wire.provenance.clone(),
        })
    }

    fn to_wire(&self) -> wire::Allocation {
        let named = |(id, a): (&TaskId, &Allotment)| (id.to_string(), a.clone());
        let all: Vec<(String, Allotment)> = self.trainings.iter().map(named).collect();
        let batches = all.iter().filter(|(_, a)| !a.batches.is_empty());
        let numbers = |a: &Allotment| a.batches.iter().map(|b| u64::from(b.get())).collect();
        let reached = all.iter().filter(|(_, a)| a.reached);
        let expected = all.iter().filter_map(|(id, a)| {
            let e = a.expected?;
            let wire = wire::Expected {
                end_s: e.end.get(),
                low_s: e.low.get(),
                high_s: e.high.get(),
            };
            Some((id.clone(), wire))
        });
        wire::Allocation {
            schema: wire::Allocation::SCHEMA.to_owned(),
            seq: self.seq,
            time_s: self.time.get(),
            total_gpus: self.total_gpus,
            gpus: all.iter().map(|(id, a)| (id.clone(), a.gpus)).collect(),
            batches: batches.map(|(id, a)| (id.clone(), numbers(a))).collect(),
            reached: reached.map(|(id, _)| id.clone()).collect(),
            reason: self.reason.clone(),
            gain_s: self.gain.map(|g| g.seconds),
            gain_low_s: self.gain.map(|g| g.low),
            gain_high_s: self.gain.map(|g| g.high),
            pause_s: self.pause.get(),
            expected: expected.collect(),
            provenance: self.provenance.clone(),
        }
    }
}

fn check_counts(wire: &wire::Allocation, c: &mut Checker) {
    if wire.seq == 0 {
        c.field("seq", |c| {
            c.fault(
                Code::OutOfRange,
                "0 is not a decision number",
                "count from 1",
            );
        });
    }
    let sum: u64 = wire.gpus.values().map(|g| u64::from(*g)).sum();
    if sum > u64::from(wire.total_gpus) {
        c.field("gpus", |c| {
            let problem = format_args!(
                "{sum} GPUs are allocated, but there are {}",
                wire.total_gpus
            );
            c.fault(Code::Conflict, problem, "give at most as many as there are");
        });
    }
    let maps = [
        ("batches", wire.batches.keys().collect::<Vec<_>>()),
        ("expected", wire.expected.keys().collect()),
        ("reached", wire.reached.iter().collect()),
    ];
    for (field, names) in maps {
        for name in names.into_iter().filter(|n| !wire.gpus.contains_key(*n)) {
            c.field(field, |c| {
                let problem = format_args!("{name:?} is not among the trainings");
                c.fault(Code::UnknownName, problem, "name it in `gpus` too");
            });
        }
    }
    for (at, name) in wire.reached.iter().enumerate() {
        let gpus = wire.gpus.get(name).copied().unwrap_or(0);
        let twice = wire.reached[..at].contains(name);
        c.field("reached", |c| {
            if gpus > 0 {
                let problem = format_args!("{name:?} has reached its target and has {gpus} GPUs");
                c.fault(Code::Conflict, problem, "give it none");
            }
            if twice {
                let problem = format_args!("{name:?} is named twice");
                c.fault(Code::Duplicate, problem, "name it once");
            }
        });
    }
}

fn batches(wire: &wire::Allocation, name: &str, c: &mut Checker) -> Option<Vec<Batch>> {
    let sizes = wire.batches.get(name)?;
    let gpus = wire.gpus.get(name).copied().unwrap_or(0);
    c.field("batches", |c| {
        if sizes.len() as u64 != u64::from(gpus) || sizes.is_empty() {
            let problem = format_args!("{name:?} has {} batch sizes on {gpus} GPUs", sizes.len());
            c.fault(
                Code::Conflict,
                problem,
                "give one for each GPU, or leave them out",
            );
        }
        c.list(name, sizes, |size, c| match Batch::new(*size) {
            Ok(batch) => Some(batch),
            Err(error) => {
                let problem = format_args!("{} is not a {}", error.value, error.quantity);
                c.fault(Code::OutOfRange, problem, error.expected);
                None
            }
        })
    })
}

fn expected(wire: &wire::Allocation, name: &str, c: &mut Checker) -> Option<Expected> {
    let times = wire.expected.get(name)?;
    c.field("expected", |c| {
        c.field(name, |c| {
            let low = c.unit("low_s", Seconds::new(times.low_s));
            let end = c.unit("end_s", Seconds::new(times.end_s));
            let high = c.unit("high_s", Seconds::new(times.high_s));
            if times.low_s > times.end_s || times.end_s > times.high_s {
                let advice = "low_s <= end_s <= high_s";
                c.fault(
                    Code::Conflict,
                    "the interval does not contain its centre",
                    advice,
                );
            }
            Some(Expected {
                end: end?,
                low: low?,
                high: high?,
            })
        })
    })
}

/// `Some(None)` if the document gives no gain; `None` if a fault was recorded.
fn gain(wire: &wire::Allocation, c: &mut Checker) -> Option<Option<Gain>> {
    match (wire.gain_s, wire.gain_low_s, wire.gain_high_s) {
        (None, None, None) => Some(None),
        (Some(seconds), Some(low), Some(high)) if low <= seconds && seconds <= high => {
            Some(Some(Gain { seconds, low, high }))
        }
        _ => {
            c.field("gain_s", |c| {
                let problem = "the gain and its interval do not agree";
                let advice = "give gain_low_s <= gain_s <= gain_high_s, or none of them";
                c.fault(Code::Conflict, problem, advice);
            });
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Documents, Frames, ReadError, write_line};

    const LINE: &str = r#"{"schema":"mt.allocation/1","seq":7,"time_s":12.5,"total_gpus":4,"gpus":{"a":3,"b":1,"c":0},"batches":{"a":[171,171,170],"b":[512]},"reached":["c"],"reason":"plan","gain_s":12.0,"gain_low_s":-1.5,"gain_high_s":30.0,"pause_s":0.7,"expected":{"a":{"end_s":40.0,"low_s":30.0,"high_s":70.1}}}"#;

    fn read(text: &str) -> Result<Allocation, Vec<(Code, String)>> {
        let frames = Frames::new(text.as_bytes(), "test");
        match Documents::new(frames).next().unwrap() {
            Ok(document) => Ok(document),
            Err(ReadError::Faults(f)) => {
                Err(f.faults.into_iter().map(|f| (f.code, f.path)).collect())
            }
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn a_decision_goes_and_comes_back() {
        let mut out = Vec::new();
        write_line(&mut out, &read(LINE).unwrap()).unwrap();
        assert_eq!(String::from_utf8(out).unwrap().trim_end(), LINE);
    }

    #[test]
    fn what_does_not_hold_together_is_told_with_its_place() {
        let cases = [
            ("\"seq\":7", "\"seq\":0", Code::OutOfRange, "$.seq"),
            (
                "\"total_gpus\":4",
                "\"total_gpus\":3",
                Code::Conflict,
                "$.gpus",
            ),
            (
                "\"b\":[512]",
                "\"b\":[256,256]",
                Code::Conflict,
                "$.batches",
            ),
            ("\"b\":[512]", "\"d\":[512]", Code::UnknownName, "$.batches"),
            (
                "171,171,170",
                "171,171,0",
                Code::OutOfRange,
                "$.batches.a[2]",
            ),
            ("[\"c\"]", "[\"b\"]", Code::Conflict, "$.reached"),
            ("[\"c\"]", "[\"c\",\"c\"]", Code::Duplicate, "$.reached"),
            ("\"gain_low_s\":-1.5,", "", Code::Conflict, "$.gain_s"),
            (
                "\"low_s\":30.0",
                "\"low_s\":50.0",
                Code::Conflict,
                "$.expected.a",
            ),
            (
                "\"time_s\":12.5",
                "\"time_s\":-1",
                Code::OutOfRange,
                "$.time_s",
            ),
        ];
        for (from, to, code, path) in cases {
            assert!(LINE.contains(from), "{from}");
            let faults = read(&LINE.replacen(from, to, 1)).unwrap_err();
            assert!(
                faults.contains(&(code, path.to_owned())),
                "{to}: {faults:?}"
            );
        }
    }
}
