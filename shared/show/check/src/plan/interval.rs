//! Checks the interval of a time to target if transfers count.
//!
//! The plan does not record the order within its rounds. But it records when each task reaches its target, and from
//! these times follows the length of the rounds in every stage. [`Round::end`] then bounds their length at other
//! rates. With an efficiency at an end of its interval, another task may finish first, and a set of tasks may remain
//! that occurs in no stage of the plan. The length of its rounds is then only known to lie between the lower bound for
//! any order and the length of a simple order.

use doc::Target;
use units::Seconds;

use super::choices::Choices;
use super::frame::{Frame, each_time};
use super::progress::{at_end, errors_alone};
use super::round::{Range, Round, by_model};
use crate::judge::Judge;

/// Half width of a 95 % interval in standard errors.
const INTERVAL: f64 = 1.96;
/// Relative tolerance for rounding: sums are taken in another order, and lengths are differences of sums.
const SLACK: f64 = 1e-5;

/// Minimum and maximum of a squared deviation below the mean, and of one above it.
type Squares = [(f64, f64); 2];

/// The rounds of a plan, derived from the times of its tasks.
struct Rounds<'a> {
    frame: &'a Frame<'a>,
    round: &'a Round,
    chosen: &'a Choices,
    /// For each stage, the set of tasks that train together until one finishes, and the seconds of a round.
    told: Vec<(Vec<usize>, f64)>,
    together: f64,
}

/// Judges both ends of the interval.
pub fn judge(claimed: &Target, frame: &Frame<'_>, round: &Round, chosen: &Choices, j: &mut Judge) {
    let Some(told) = told(claimed, frame, chosen) else {
        // A missing task is reported elsewhere.
        return;
    };
    let rounds = Rounds {
        frame,
        round,
        chosen,
        told,
        together: claimed.together.get(),
    };
    let (whole, relative) = rounds.efficiencies(claimed);
    let low = claimed.together_low.get();
    rounds.end(INTERVAL, whole[0], None, "together_low_s", Some(low), j);
    let high = claimed.together_high.map(Seconds::get);
    rounds.end(-INTERVAL, whole[1], None, "together_high_s", high, j);
    if let Some([least, most]) = claimed.gain_interval {
        let alone = Some(claimed.one_after_another.get());
        j.field("gain_interval", |j| {
            rounds.end(INTERVAL, relative[0], alone, "high", Some(most), j);
            match high {
                Some(_) => rounds.end(-INTERVAL, relative[1], alone, "low", Some(least), j),
                None => j.number("low", least, 0.0),
            }
        });
    }
}

/// The set of tasks and the length of the rounds of each stage, derived from the times at which the tasks finish.
fn told(claimed: &Target, frame: &Frame<'_>, chosen: &Choices) -> Option<Vec<(Vec<usize>, f64)>> {
    let seconds = |i: usize| {
        let id = &frame.workload.tasks[i].id;
        let own = claimed.tasks.iter().find(|t| t.id == *id)?;
        Some(own.seconds.get())
    };
    let rounds = |i: usize| frame.rounds(i, chosen.batch[i]);
    let mut left: Vec<usize> = (0..chosen.batch.len()).collect();
    let (mut passed, mut now) = (0.0, 0.0);
    let mut told = Vec::new();
    while let Some(first) = left
        .iter()
        .copied()
        .min_by(|&a, &b| rounds(a).total_cmp(&rounds(b)))
    {
        let (next, then) = (rounds(first), seconds(first)?);
        told.push((left.clone(), (then - now) / (next - passed)));
        (passed, now) = (next, then);
        left.retain(|&i| rounds(i) > next);
    }
    Some(told)
}

impl Rounds<'_> {
    /// Judges one end of the interval, where each rate is off by this many standard errors; `others` is the amount
    /// that efficiencies add to the squared logarithm. With `alone`, the claim is the ratio of that time to the end.
    fn end(
        &self,
        errors: f64,
        others: (f64, f64),
        alone: Option<f64>,
        name: &str,
        claimed: Option<f64>,
        j: &mut Judge,
    ) {
        let ask = by_model(self.frame.predictor);
        let all: Vec<usize> = (0..self.chosen.batch.len()).collect();
        let ends: Vec<_> = self
            .told
            .iter()
            .map(|(set, length)| {
                let round = self.round.of(set);
                (set, round.end(&ask, self.chosen, *length, errors).bounds())
            })
            .collect();
        let Some(claimed) = claimed else {
            if ends.iter().all(|(_, (_, none))| !none) {
                j.contradiction(name, "nothing", "an end: every task advances at such rates");
            }
            return;
        };
        let of = |pick: fn(Range) -> f64| {
            let times = each_time(self.frame, self.chosen, &all, |left| {
                let own = ends.iter().find(|(set, _)| *set == left);
                own.map(|(_, (range, _))| pick(*range))
            });
            let time = times.map_or(self.together, |times| self.frame.joined(&times));
            // An interval contains its mean, so deviations to the other side do not count.
            let off = (time / self.together).ln();
            if errors > 0.0 {
                (-off).max(0.0)
            } else {
                off.max(0.0)
            }
        };
        let (low, high) = (of(|r| r.low), of(|r| r.high));
        let (near, far) = (low.min(high), low.max(high));
        let sign = if errors > 0.0 { -1.0 } else { 1.0 };
        let at = |off: f64, others: f64| {
            let end = self.together * (sign * (off * off + others).sqrt()).exp();
            alone.map_or(end, |alone| alone / end)
        };
        let (a, b) = (at(near, others.0), at(far, others.1));
        let (least, most) = (a.min(b), a.max(b));
        if claimed < least * (1.0 - SLACK) || claimed > most * (1.0 + SLACK) {
            let truth = format!("{least} to {most}, by the rounds that its tasks tell of");
            j.contradiction(name, claimed, truth);
        }
    }

    /// Amounts that the intervals of efficiencies add to the squared logarithm of the time to target, below it and
    /// above it, and to that of its ratio to one task after another: minimum and maximum of each.
    fn efficiencies(&self, claimed: &Target) -> (Squares, Squares) {
        let all: Vec<usize> = (0..self.chosen.batch.len()).collect();
        let mut whole = [(0.0, 0.0); 2];
        let mut relative = [(0.0, 0.0); 2];
        for (i, task) in self.frame.workload.tasks.iter().enumerate() {
            let mut largest = [(0.0_f64, 0.0_f64); 2];
            for end in 0..2 {
                let Some(moved) = at_end(task, end) else {
                    continue;
                };
                let mut workload = self.frame.workload.clone();
                workload.tasks[i] = moved;
                let moved = self.frame.of(&workload);
                let off = |pick: fn(Range) -> f64| {
                    let length = |left: &[usize]| Some(pick(self.length(left)?));
                    let times = each_time(&moved, self.chosen, &all, length)?;
                    Some((self.frame.joined(&times) / self.together).ln())
                };
                let (Some(low), Some(high)) = (off(|r| r.low), off(|r| r.high)) else {
                    continue;
                };
                largest[0] = (largest[0].0.max(-high), largest[0].1.max(-low));
                largest[1] = (largest[1].0.max(low), largest[1].1.max(high));
            }
            let alone = errors_alone(claimed, task, self.chosen.batch[i]);
            for (side, (least, most)) in largest.into_iter().enumerate() {
                let own = (least * least, most * most);
                whole[side] = added(whole[side], own);
                if let Some(alone) = alone {
                    relative[side] = added(relative[side], added(own, (alone[side], alone[side])));
                }
            }
        }
        (whole, relative)
    }

    /// Length of a round of some tasks: exact if a stage of the plan has this set, otherwise bounds.
    fn length(&self, set: &[usize]) -> Option<Range> {
        let told = self.told.iter().find(|(own, _)| own == set);
        match told {
            Some((_, seconds)) => Some(Range {
                low: *seconds,
                high: *seconds,
            }),
            None => self
                .round
                .of(set)
                .together(self.frame.predictor, self.chosen),
        }
    }
}

fn added(a: (f64, f64), b: (f64, f64)) -> (f64, f64) {
    (a.0 + b.0, a.1 + b.1)
}
