//! Breaks ties: among choices that are equally good for the worst-off task, or equally fair, takes the one with the
//! highest throughput.

use units::corun::Throughput;

use crate::search::instance::{Instance, Judged};
use crate::search::methods::budget::{CLIMBED, affordable_points};
use crate::search::point::Point;

/// Relative difference of the objective below which two choices count as equally good; so small a difference comes
/// from rounding.
const SAME: f64 = 1e-12;
/// Minimum relative gain in throughput of a step among ties, so that rounding does not prolong a climb.
const GAIN: f64 = 1e-9;
/// Maximum number of changes tried: a sweep of 8 tasks has about 600, and few sweeps gain. With 20 tasks and more,
/// the budget of a climb is smaller.
const LOOKS: u64 = 4_000;

/// Starting from the best choice for the objective, climbs in total throughput, as long as the objective does not
/// decrease.
///
/// The minimum of `P_i / S_i` depends on the worst-off task only, and a sum does not distinguish two batch sizes at
/// which a task keeps the same fraction of its solo rate. So several choices are optimal, and a search returns the
/// first that it meets.
pub(crate) fn break_tie<C: Throughput + ?Sized>(inst: &Instance<'_, C>, point: &mut Point) {
    let mut here = inst.look(point).1;
    let least = here.value;
    // Choices below this value are worse; if the objective is a minimum over tasks, the rate of one task can show it.
    let floor = least - SAME * least.abs();
    let mut worst: Vec<usize> = (0..inst.n).collect();
    let mut left = affordable_points(inst.n, CLIMBED, LOOKS);
    loop {
        let before = here.raw;
        let free = inst.problem.limits.rv.is_none();
        for change in changes(inst, free) {
            let mut next = point.clone();
            if left == 0 || !change.apply(inst, &mut next) {
                continue;
            }
            left -= 1;
            if inst.one_falls_short(&next, floor, &mut worst) {
                continue;
            }
            let judged = inst.look(&next).1;
            if better(&judged, &here, floor) {
                (*point, here) = (next, judged);
            }
        }
        if left == 0 || here.raw <= before * (1.0 + GAIN) {
            return;
        }
    }
}

fn better(next: &Judged, here: &Judged, floor: f64) -> bool {
    next.violation == 0.0 && next.value >= floor && next.raw > here.raw * (1.0 + GAIN)
}

/// A change of one task, or of two whose shares keep their sum.
enum Change {
    Batch { task: usize, to: u8 },
    Share { task: usize, by: i32 },
    Move { from: usize, to: usize },
}

fn changes<C: Throughput + ?Sized>(inst: &Instance<'_, C>, free: bool) -> Vec<Change> {
    let mut all = Vec::new();
    for task in 0..inst.n {
        let sizes = inst.batches[task].len() as u8;
        all.extend((0..sizes).map(|to| Change::Batch { task, to }));
        if free {
            all.extend([-4, -1, 1, 4].map(|by| Change::Share { task, by }));
        }
        let others = (0..inst.n).filter(|&to| to != task);
        all.extend(others.map(|to| Change::Move { from: task, to }));
    }
    all
}

impl Change {
    /// Makes the change; returns `false` if it changes nothing or leaves the range.
    fn apply<C: Throughput + ?Sized>(&self, inst: &Instance<'_, C>, point: &mut Point) -> bool {
        match *self {
            Change::Batch { task, to } if inst.same => {
                let changed = point.batch[task] != to;
                point.batch.fill(to);
                changed
            }
            Change::Batch { task, to } => std::mem::replace(&mut point.batch[task], to) != to,
            Change::Share { task, by } => shift(inst, &mut point.level[task], by),
            Change::Move { from, to } => {
                shift(inst, &mut point.level[from], -1) && shift(inst, &mut point.level[to], 1)
            }
        }
    }
}

fn shift<C: Throughput + ?Sized>(inst: &Instance<'_, C>, level: &mut u16, by: i32) -> bool {
    let next = i32::from(*level) + by;
    let fits = (1..=i32::from(inst.levels)).contains(&next);
    if fits {
        *level = next as u16;
    }
    fits
}

#[cfg(test)]
mod tests {
    use crate::law::{InterferenceLaw, TaskLaw};
    use crate::{Limits, Problem, SearchOptions, Task, solve};
    use doc::{ObjectiveKind, SoloRate};
    use units::{Batch, Weight};

    /// Two tasks that do not slow each other. The second has a slow and a fast batch size; with `SameBatch` it keeps
    /// its full solo rate at both.
    #[test]
    fn the_faster_of_equally_fair_batch_sizes_is_taken() {
        let task = |step_s| TaskLaw {
            step_s,
            sample_s: 1e-3,
            exponent: 0.0,
        };
        let law = InterferenceLaw {
            tasks: vec![task(0.0), task(0.1)],
            coupling: vec![0.0, 0.5, 0.0, 0.0],
            busy: false,
        };
        let sizes = |all: &[u64]| all.iter().map(|&b| Batch::new(b).unwrap()).collect();
        let of = |batches| Task {
            id: units::TaskId::new("a").unwrap(),
            batches,
            samples: None,
            weight: Weight::new(1.0).unwrap(),
            memory: None,
            work_per_sample: None,
            progress: crate::TaskProgress::default(),
        };
        let problem = |objective| Problem {
            tasks: vec![of(sizes(&[32])), of(sizes(&[16, 128]))],
            objective,
            limits: Limits {
                solo: SoloRate::SameBatch,
                ..Limits::default()
            },
            round: None,
        };
        for objective in [ObjectiveKind::MaxMin, ObjectiveKind::Fairness] {
            let best = solve(&law, &problem(objective), &SearchOptions::default()).unwrap();
            assert_eq!(best.solutions[0].settings[1].batch.get(), 128);
        }
    }
}
