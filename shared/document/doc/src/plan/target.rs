use units::{Batch, Seconds, TaskId, shown};

use super::choice::{Choice, choice};
use crate::checker::{optional, positive};
use crate::{Checker, Code, wire};

/// When the tasks reach their targets: the seconds of the plan's objective.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    /// Whether the plan reaches them sooner than one task after another.
    pub share: bool,
    /// Time with the plan.
    pub together: Seconds,
    /// Lower end of the 95 % interval.
    pub together_low: Seconds,
    /// Upper end; absent if the interval of a rate reaches 0.
    pub together_high: Option<Seconds>,
    /// Time with rounds in which the tasks run one after another, each on the whole device.
    pub one_after_another: Seconds,
    /// 95 % interval of `one_after_another / together`, without the errors that both share: ends in order, 0 or more.
    /// Absent unless a table of efficiency has intervals.
    pub gain_interval: Option<[f64; 2]>,
    /// The plan with the shortest round.
    pub fastest_samples: Option<FastestSamples>,
    /// The target of each task.
    pub tasks: Vec<TaskTarget>,
}

/// The plan with the shortest round, which ignores that samples are worth less at larger batch
/// sizes.
#[derive(Debug, Clone, PartialEq)]
pub struct FastestSamples {
    /// Time to the target.
    pub seconds: Seconds,
    /// Batch size and share of each task.
    pub tasks: Vec<Choice>,
}

/// The target of one task.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskTarget {
    /// Name.
    pub id: TaskId,
    /// Progress per sample at the plan's batch size, relative to that at the reference size: above
    /// 0.
    pub efficiency: f64,
    /// Rounds to the target at the plan's batch size: above 0.
    pub rounds: f64,
    /// Time at which the task reaches its target with the plan.
    pub seconds: Seconds,
    /// Batch size of the task when the tasks run one after another.
    pub alone_batch: Batch,
}

pub(super) fn target(wire: &wire::Target, c: &mut Checker) -> Option<Target> {
    let together = c.unit("together_s", Seconds::new(wire.together_s));
    let low = c.unit("together_low_s", Seconds::new(wire.together_low_s));
    let high = c.optional_unit("together_high_s", wire.together_high_s, Seconds::new);
    let alone = c.unit(
        "one_after_another_s",
        Seconds::new(wire.one_after_another_s),
    );
    let gain = optional(
        c,
        "gain_interval",
        wire.gain_interval.as_ref(),
        gain_interval,
    );
    let fastest = optional(c, "fastest_samples", wire.fastest_samples.as_ref(), fastest);
    if wire.tasks.is_empty() {
        c.field("tasks", |c| {
            c.fault(Code::NothingToDo, "no task", "name the target of each task");
        });
    }
    let tasks = c.list("tasks", &wire.tasks, task_target);
    Some(Target {
        share: wire.share,
        together: together?,
        together_low: low?,
        together_high: high?,
        one_after_another: alone?,
        gain_interval: gain?,
        fastest_samples: fastest?,
        tasks: tasks?,
    })
}

fn gain_interval(&[low, high]: &[f64; 2], c: &mut Checker) -> Option<[f64; 2]> {
    let fine = 0.0 <= low && low <= high && high <= units::MOST;
    if !fine {
        let problem = format_args!("{} to {} is not an interval", shown(low), shown(high));
        c.fault(
            Code::OutOfRange,
            problem,
            "give [low, high] with 0 <= low <= high",
        );
    }
    fine.then_some([low, high])
}

fn fastest(wire: &wire::FastestSamples, c: &mut Checker) -> Option<FastestSamples> {
    let seconds = c.unit("seconds", Seconds::new(wire.seconds));
    let tasks = c.list("tasks", &wire.tasks, choice);
    Some(FastestSamples {
        seconds: seconds?,
        tasks: tasks?,
    })
}

fn task_target(wire: &wire::TaskTarget, c: &mut Checker) -> Option<TaskTarget> {
    let id = c.unit("id", TaskId::new(&wire.id));
    let efficiency = positive(c, "efficiency", wire.efficiency, "efficiency", false);
    let rounds = positive(c, "rounds", wire.rounds, "number of rounds", false);
    let seconds = c.unit("seconds", Seconds::new(wire.seconds));
    let batch = c.unit("alone_batch", Batch::new(wire.alone_batch));
    Some(TaskTarget {
        id: id?,
        efficiency: efficiency?,
        rounds: rounds?,
        seconds: seconds?,
        alone_batch: batch?,
    })
}

impl Target {
    pub(super) fn to_wire(&self) -> wire::Target {
        let fastest = |f: &FastestSamples| wire::FastestSamples {
            seconds: f.seconds.get(),
            tasks: f.tasks.iter().map(Choice::to_wire).collect(),
        };
        let task = |t: &TaskTarget| wire::TaskTarget {
            id: t.id.as_str().to_owned(),
            efficiency: t.efficiency,
            rounds: t.rounds,
            seconds: t.seconds.get(),
            alone_batch: u64::from(t.alone_batch.get()),
        };
        wire::Target {
            share: self.share,
            together_s: self.together.get(),
            together_low_s: self.together_low.get(),
            together_high_s: self.together_high.map(Seconds::get),
            one_after_another_s: self.one_after_another.get(),
            gain_interval: self.gain_interval,
            fastest_samples: self.fastest_samples.as_ref().map(fastest),
            tasks: self.tasks.iter().map(task).collect(),
        }
    }
}
