use std::fmt;

use units::{Batch, SamplesPerSec, Seconds, TaskId, UnitError};

use crate::wire::{self, Scheme, WorkKind};
use crate::{Checker, Code};

/// Whether sharing is worth it: compares the same work done together and done one task after
/// another.
///
/// On one GPU the work is a round including its transfers. Otherwise only compute is compared; with
/// several GPUs, each task runs on the GPU that the plan assigns to it.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// Whether running together is faster.
    pub share: bool,
    /// The kind of work that is compared.
    pub work: WorkKind,
    /// Time of the work when the tasks run together, with the shares and batch sizes of the plan.
    pub together: Seconds,
    /// Lower end of the 95 % interval.
    pub together_low: Seconds,
    /// Upper end; absent if the interval of a rate reaches 0.
    pub together_high: Option<Seconds>,
    /// Time of the work with one task at a time on the whole device.
    pub one_after_another: Seconds,
    /// The best scheme with equal shares at the plan's batch sizes, and its time.
    pub best_static: Option<(Scheme, Seconds)>,
    /// The work of each task.
    pub tasks: Vec<WorkAlone>,
}

/// The work of one task, and its batch size with the highest throughput alone.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkAlone {
    /// Name of the task.
    pub id: TaskId,
    /// Number of samples to train on, above 0; may be fractional if the work is a mixture.
    pub samples: f64,
    /// Batch size with the highest throughput alone.
    pub batch: Batch,
    /// Throughput alone at that batch size, above 0.
    pub solo: SamplesPerSec,
}

/// Number of rounds after which the plan has recovered its cost; its `Display` is a phrase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PayOff {
    /// Compared with one task after another; `None`: never.
    pub one_after_another: Option<u64>,
    /// Compared with the best scheme with equal shares, which needs no profile; an inner `None`:
    /// never.
    pub best_static: Option<(Scheme, Option<u64>)>,
}

impl Verdict {
    /// After how many rounds the plan has recovered `cost`; `None` if the compared work is not a
    /// round.
    #[must_use]
    pub fn pay_off(&self, cost: Seconds) -> Option<PayOff> {
        let rounds = |rival: Seconds| {
            let saved = rival.get() - self.together.get();
            (saved > 0.0).then(|| (cost.get() / saved).ceil() as u64)
        };
        (self.work == WorkKind::Round).then(|| PayOff {
            one_after_another: rounds(self.one_after_another),
            best_static: self.best_static.map(|(name, s)| (name, rounds(s))),
        })
    }
}

impl fmt::Display for PayOff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let after = |rounds: Option<u64>| match rounds {
            None => "never".to_owned(),
            Some(1) => "after 1 round".to_owned(),
            Some(rounds) => format!("after {rounds} rounds"),
        };
        let serial = after(self.one_after_another);
        write!(f, "{serial} against one after another")?;
        match self.best_static {
            Some((name, rounds)) => {
                let (rounds, name) = (after(rounds), name.name());
                write!(f, ", {rounds} against equal shares ({name})")
            }
            None => Ok(()),
        }
    }
}

pub(super) fn verdict(wire: &wire::Verdict, c: &mut Checker) -> Option<Verdict> {
    let together = c.unit("together_s", Seconds::new(wire.together_s));
    let low = c.unit("together_low_s", Seconds::new(wire.together_low_s));
    let high = c.optional_unit("together_high_s", wire.together_high_s, Seconds::new);
    let alone = c.unit(
        "one_after_another_s",
        Seconds::new(wire.one_after_another_s),
    );
    let best = match &wire.best_static {
        None => Some(None),
        Some(best) => c.field("best_static", |c| {
            let seconds = c.unit("seconds", Seconds::new(best.seconds));
            seconds.map(|s| Some((best.name, s)))
        }),
    };
    if wire.tasks.is_empty() {
        c.field("tasks", |c| {
            c.fault(Code::NothingToDo, "no task", "name the work of each task");
        });
    }
    let tasks = c.list("tasks", &wire.tasks, work_alone);
    Some(Verdict {
        share: wire.share,
        work: wire.work,
        together: together?,
        together_low: low?,
        together_high: high?,
        one_after_another: alone?,
        best_static: best?,
        tasks: tasks?,
    })
}

/// Requires a rate above zero: an active task that makes no progress would never finish.
pub(super) fn above_zero(rate: SamplesPerSec) -> Result<SamplesPerSec, UnitError> {
    if rate.get() > 0.0 {
        return Ok(rate);
    }
    Err(UnitError {
        quantity: "rate of an active task",
        value: rate.get().to_string(),
        expected: "a finite number of samples per second above 0",
    })
}

fn work_alone(wire: &wire::WorkAlone, c: &mut Checker) -> Option<WorkAlone> {
    let id = c.unit("id", TaskId::new(&wire.id));
    let samples = c.unit("samples", positive(wire.samples));
    let batch = c.unit("batch", Batch::new(wire.batch));
    let solo = c.unit(
        "solo_samples_per_s",
        SamplesPerSec::new(wire.solo_samples_per_s).and_then(above_zero),
    );
    Some(WorkAlone {
        id: id?,
        samples: samples?,
        batch: batch?,
        solo: solo?,
    })
}

fn positive(samples: f64) -> Result<f64, UnitError> {
    if samples.is_finite() && samples > 0.0 {
        return Ok(samples);
    }
    Err(UnitError {
        quantity: "work",
        value: samples.to_string(),
        expected: "a finite number of samples above 0",
    })
}

impl Verdict {
    pub(super) fn to_wire(&self) -> wire::Verdict {
        wire::Verdict {
            share: self.share,
            work: self.work,
            together_s: self.together.get(),
            together_low_s: self.together_low.get(),
            together_high_s: self.together_high.map(Seconds::get),
            one_after_another_s: self.one_after_another.get(),
            best_static: self.best_static.map(|(name, seconds)| wire::StaticScheme {
                name,
                seconds: seconds.get(),
            }),
            tasks: self
                .tasks
                .iter()
                .map(|t| wire::WorkAlone {
                    id: t.id.as_str().to_owned(),
                    samples: t.samples,
                    batch: u64::from(t.batch.get()),
                    solo_samples_per_s: t.solo.get(),
                })
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_pays_after_the_rounds_that_save_what_it_cost() {
        let seconds = |s| Seconds::new(s).unwrap();
        let verdict = |equal, work| Verdict {
            share: true,
            work,
            together: seconds(20.0),
            together_low: seconds(18.0),
            together_high: None,
            one_after_another: seconds(32.0),
            best_static: Some((Scheme::Moderate, seconds(equal))),
            tasks: Vec::new(),
        };
        let told = |equal, cost| {
            let found = verdict(equal, WorkKind::Round).pay_off(seconds(cost));
            found.unwrap().to_string()
        };
        assert_eq!(
            told(20.5, 60.0),
            "after 5 rounds against one after another, after 120 rounds against equal shares (moderate)"
        );
        assert_eq!(
            told(20.0, 11.0),
            "after 1 round against one after another, never against equal shares (moderate)"
        );
        assert_eq!(verdict(21.0, WorkKind::Mixture).pay_off(seconds(1.0)), None);
    }
}
