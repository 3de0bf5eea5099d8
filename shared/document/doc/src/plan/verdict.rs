use units::{Batch, SamplesPerSec, Seconds, TaskId, UnitError};

use crate::wire::{self, Scheme, WorkKind};
use crate::{Checker, Code};

/// Whether sharing is worth it: the same work done together and one task after another.
///
/// A round on one GPU counts its transfers; otherwise compute alone is compared, of several GPUs
/// on the GPUs that the plan gives the tasks.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// Whether together is faster.
    pub share: bool,
    /// What the work is.
    pub work: WorkKind,
    /// Time of the work together, with the shares and batch sizes of the plan.
    pub together: Seconds,
    /// Lower end of the 95 % interval.
    pub together_low: Seconds,
    /// Upper end; absent if the interval of a rate reaches 0.
    pub together_high: Option<Seconds>,
    /// Time of the work with one task at a time on the whole device.
    pub one_after_another: Seconds,
    /// The best scheme of equal shares at the plan's batch sizes, and its time.
    pub best_static: Option<(Scheme, Seconds)>,
    /// The work of each task.
    pub tasks: Vec<WorkAlone>,
}

/// The work of one task, and its batch size with the highest throughput alone.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkAlone {
    /// Name of the task.
    pub id: TaskId,
    /// Samples to train on, above 0; a fraction where the work is a mixture.
    pub samples: f64,
    /// Batch size with the highest throughput alone.
    pub batch: Batch,
    /// That throughput, above 0.
    pub solo: SamplesPerSec,
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

/// A task that is active but does not advance would never finish.
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
    let solo = SamplesPerSec::new(wire.solo_samples_per_s).and_then(above_zero);
    let solo = c.unit("solo_samples_per_s", solo);
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
