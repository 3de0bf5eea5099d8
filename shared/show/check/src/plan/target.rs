//! When the tasks of a plan reach their targets.

use doc::{Feasible, Scheme};
use units::Seconds;

use super::choices::Choices;
use super::frame::Frame;
use super::interval;
use super::progress::{at_end, efficiency, errors_alone};
use crate::judge::Judge;

/// Judges the times at which the tasks reach their targets according to the plan.
pub fn judge(plan: &Feasible, frame: &Frame<'_>, chosen: &Choices, j: &mut Judge) {
    let Some(claimed) = &plan.target else {
        if frame.is_to_target() && plan.objective.value.is_finite() {
            j.contradiction("target", "nothing", "when the targets are reached");
        }
        return;
    };
    if !frame.is_to_target() {
        let kind = doc::name_of(&frame.kind);
        return j.contradiction("target", "times", format!("none of the objective {kind}"));
    }
    j.field("target", |j| {
        let together = claimed.together.get();
        j.number("together_s", together, -plan.objective.value);
        let is_given = claimed.gain_interval.is_some();
        if is_given != frame.workload.has_table_intervals() {
            let [given, truth] = match is_given {
                true => ["an interval", "none: no table of efficiency has intervals"],
                false => [
                    "nothing",
                    "an interval: a table of efficiency has intervals",
                ],
            };
            j.contradiction("gain_interval", given, truth);
        }
        interval(claimed, frame, chosen, j);
        let serial = plan.baselines.iter().find(|b| b.name == Scheme::Temporal);
        let alone = claimed.one_after_another.get();
        if let Some(serial) = serial {
            j.number("one_after_another_s", alone, -serial.objective);
        }
        j.same("share", claimed.share, together < alone);
        if let Some(fastest) = &claimed.fastest_samples {
            j.field("fastest_samples", |j| {
                let own = Choices::of_point(&fastest.tasks, frame.workload);
                let Some(own) = own else {
                    return j.contradiction(
                        "tasks",
                        "these tasks",
                        "every task of the workload once",
                    );
                };
                let value = frame.evaluate(&own);
                if let Some(fault) = frame.broken(&own, &value, true) {
                    j.contradiction("tasks", "within the constraints", fault);
                }
                let every: Vec<usize> = (0..own.batch.len()).collect();
                let truth = frame.objective(&value, &every);
                frame.judge_objective("seconds", -fastest.seconds.get(), &own, truth, j);
            });
        }
        tasks(claimed, plan, frame, chosen, j);
    });
}

fn interval(claimed: &doc::Target, frame: &Frame<'_>, chosen: &Choices, j: &mut Judge) {
    let together = claimed.together.get();
    let low = claimed.together_low.get();
    let high = claimed.together_high;
    let high = high.map(Seconds::get);
    if let Some(round) = &frame.round {
        return interval::judge(claimed, frame, round, chosen, j);
    }
    // Half width of a 95 % interval in standard errors.
    let least = compute_time(frame, chosen, 1.96)
        .unwrap_or(together)
        .min(together);
    let most = compute_time(frame, chosen, -1.96).map(|high| high.max(together));
    let (whole, relative) = efficiency_errors(claimed, frame, chosen);
    let widened = |end: f64, sign: f64, others: f64| {
        let squares = (end / together).ln().powi(2) + others;
        together * (sign * squares.sqrt()).exp()
    };
    j.number("together_low_s", low, widened(least, -1.0, whole[0]));
    let highest = most.map(|most| widened(most, 1.0, whole[1]));
    j.optional_number("together_high_s", high, highest);
    if let Some([low, high]) = claimed.gain_interval {
        let alone = claimed.one_after_another.get();
        j.field("gain_interval", |j| {
            let least_gain = most.map_or(0.0, |most| alone / widened(most, 1.0, relative[1]));
            j.number("low", low, least_gain);
            j.number("high", high, alone / widened(least, -1.0, relative[0]));
        });
    }
}

/// Seconds to the target by compute alone, with rates this many standard errors above their means.
fn compute_time(frame: &Frame<'_>, chosen: &Choices, errors: f64) -> Option<f64> {
    let mut times = vec![0.0; chosen.batch.len()];
    for gpu in chosen.gpus() {
        let tasks = chosen.on(gpu);
        let own = frame.computed_times(chosen, &tasks, errors)?;
        for i in tasks {
            times[i] = own[i];
        }
    }
    Some(frame.joined(&times))
}

/// Amounts that the intervals of efficiencies add to the squared logarithm of the time to target, below it and above
/// it; and the amounts that they add to that of the time relative to one task after another. Each task's efficiency is
/// set to each of its ends while everything else stays the same; the squares of the largest deviations to each side
/// are summed over the tasks.
fn efficiency_errors(
    claimed: &doc::Target,
    frame: &Frame<'_>,
    chosen: &Choices,
) -> ([f64; 2], [f64; 2]) {
    let together = claimed.together.get();
    let (mut whole, mut relative) = ([0.0; 2], [0.0; 2]);
    for (i, task) in frame.workload.tasks.iter().enumerate() {
        let mut largest = [0.0_f64; 2];
        for end in 0..2 {
            let Some(moved) = at_end(task, end) else {
                continue;
            };
            let mut workload = frame.workload.clone();
            workload.tasks[i] = moved;
            if let Some(time) = compute_time(&frame.of(&workload), chosen, 0.0) {
                let off = (time / together).ln();
                largest[0] = largest[0].max(-off);
                largest[1] = largest[1].max(off);
            }
        }
        let alone = errors_alone(claimed, task, chosen.batch[i]);
        for side in 0..2 {
            let own = largest[side] * largest[side];
            whole[side] += own;
            relative[side] += alone.map_or(0.0, |alone| own + alone[side]);
        }
    }
    (whole, relative)
}

fn tasks(
    claimed: &doc::Target,
    plan: &Feasible,
    frame: &Frame<'_>,
    chosen: &Choices,
    j: &mut Judge,
) {
    if claimed.tasks.len() != chosen.batch.len() {
        j.contradiction("tasks", claimed.tasks.len(), chosen.batch.len());
    }
    let played = frame.played_times(chosen);
    let value = frame.evaluate(chosen);
    let serial = plan.baselines.iter().find(|b| b.name == Scheme::Temporal);
    for (i, task) in frame.workload.tasks.iter().enumerate() {
        let Some(at) = claimed.tasks.iter().position(|t| t.id == task.id) else {
            j.contradiction("tasks", format!("nothing of {}", task.id), "its target");
            continue;
        };
        let one = &claimed.tasks[at];
        let (batch, seconds) = (chosen.batch[i], one.seconds.get());
        j.field("tasks", |j| {
            j.index(at, |j| {
                j.number("efficiency", one.efficiency, efficiency(task, batch));
                j.number("rounds", one.rounds, frame.rounds(i, batch));
                match &played {
                    Some(played) => played[i].judge("seconds", seconds, j),
                    None => j.number("seconds", seconds, value.last_end[i]),
                }
                let own = serial.and_then(|b| b.tasks.iter().find(|c| c.id == task.id));
                if let Some(own) = own {
                    j.same("alone_batch", one.alone_batch, own.batch);
                }
            });
        });
    }
    // The times of the tasks, each checked against its bounds, give the time of the plan.
    let mut times = vec![0.0; chosen.batch.len()];
    for one in &claimed.tasks {
        if let Some(i) = frame.workload.task_index(&one.id) {
            times[i] = one.seconds.get();
        }
    }
    j.number("together_s", claimed.together.get(), frame.joined(&times));
}
