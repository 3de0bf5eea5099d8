//! Time to target: what a sample is worth, how many rounds that makes, and when the targets are reached.

use doc::{EfficiencyCurve, Feasible, ObjectiveKind, Scheme, Task};
use units::{Batch, Seconds};

use super::choices::{Choices, last_end};
use super::frame::Frame;
use super::round::Range;
use crate::judge::Judge;

/// Progress of a sample at a batch size over one at the task's reference size; 1 where nothing is known.
///
/// By the noise scale `phi`: `(phi + B0) / (phi + B)`. By a table: straight in both logarithms between
/// rows, level below the first, as `1 / B` above the last. Rows that rise are levelled to the nearest curve
/// that does not.
pub fn efficiency(task: &Task, batch: Batch) -> f64 {
    let Some(known) = &task.efficiency else {
        return 1.0;
    };
    let reference = task.batch.unwrap_or(task.batch_sizes[0]);
    let rows: Vec<(f64, f64)> = match &known.curve {
        EfficiencyCurve::NoiseScale { samples, .. } => {
            return (samples + reference.as_f64()) / (samples + batch.as_f64());
        }
        EfficiencyCurve::Progress(rows) => rows.iter().map(|(b, p)| (b.as_f64(), p.ln())).collect(),
        EfficiencyCurve::Rounds(rows) => rows.iter().map(|(b, n)| (b.as_f64(), -n.ln())).collect(),
    };
    let level = falling(&rows);
    let at = |b: f64| {
        let last = rows.len() - 1;
        let Some(above) = rows.iter().position(|row| row.0 >= b) else {
            return level[last] - (b / rows[last].0).ln();
        };
        if above == 0 {
            return level[0];
        }
        let (low, high) = (rows[above - 1].0.ln(), rows[above].0.ln());
        let part = (b.ln() - low) / (high - low);
        level[above - 1] * (1.0 - part) + level[above] * part
    };
    (at(batch.as_f64()) - at(reference.as_f64())).exp()
}

/// Least-squares fit of values that never rise: the least over starts of the largest mean over ends
/// (Robertson, Wright, Dykstra 1988, section 1.4).
fn falling(rows: &[(f64, f64)]) -> Vec<f64> {
    let mean = |a: usize, b: usize| {
        let part = &rows[a..=b];
        part.iter().map(|r| r.1).sum::<f64>() / part.len() as f64
    };
    let level = |i: usize| {
        let most = |a: usize| {
            (i..rows.len())
                .map(|b| mean(a, b))
                .fold(f64::NEG_INFINITY, f64::max)
        };
        (0..=i).map(most).fold(f64::INFINITY, f64::min)
    };
    (0..rows.len()).map(level).collect()
}

/// Seconds until each task is at its target; of those that are not among `tasks`, 0. Rounds pass until the
/// next task is there, each as long as one of those that are left.
fn each_time(
    frame: &Frame<'_>,
    choices: &Choices,
    tasks: &[usize],
    length: impl Fn(&[usize]) -> Option<f64>,
) -> Option<Vec<f64>> {
    let rounds = |i: usize| frame.rounds(i, choices.batch[i]);
    let mut left = tasks.to_vec();
    let (mut passed, mut now) = (0.0, 0.0);
    let mut times = vec![0.0; choices.batch.len()];
    while !left.is_empty() {
        let next = left
            .iter()
            .map(|&i| rounds(i))
            .fold(f64::INFINITY, f64::min);
        now += (next - passed) * length(&left)?;
        passed = next;
        for &i in left.iter().filter(|&&i| rounds(i) <= next) {
            times[i] = now;
        }
        left.retain(|&i| rounds(i) > next);
    }
    Some(times)
}

impl Frame<'_> {
    /// Whether the objective is progress.
    pub fn is_progress(&self) -> bool {
        matches!(
            self.kind,
            ObjectiveKind::Progress | ObjectiveKind::ProgressLast
        )
    }

    /// Whether the objective is a time to target.
    pub fn is_to_target(&self) -> bool {
        self.is_progress() && self.workload.tasks.iter().all(|t| t.samples.is_some())
    }

    /// Rounds of a task to its target.
    fn rounds(&self, task: usize, batch: Batch) -> f64 {
        let task = &self.workload.tasks[task];
        task.rounds_to_target.unwrap_or(1.0) / efficiency(task, batch)
    }

    /// Part of a task in a mean over all.
    pub fn part(&self, task: usize) -> f64 {
        let all = 0..self.workload.tasks.len();
        self.weight(task) / all.map(|i| self.weight(i)).sum::<f64>()
    }

    /// Progress of a task at this rate over the most that it makes alone.
    pub fn progress(&self, task: usize, batch: Batch, rate: f64) -> f64 {
        let own = &self.workload.tasks[task];
        let alone = self.sizes(task).into_iter();
        let alone = alone.map(|b| self.predictor.solo(task, b) * efficiency(own, b));
        rate * efficiency(own, batch) / alone.fold(0.0, f64::max)
    }

    /// Mean or last of the times to target.
    fn joined(&self, times: &[f64]) -> f64 {
        if self.kind == ObjectiveKind::ProgressLast {
            return times.iter().copied().fold(0.0, f64::max);
        }
        (0..times.len()).map(|i| self.part(i) * times[i]).sum()
    }

    /// Seconds to target of tasks of one GPU by compute alone.
    pub fn computed_times(
        &self,
        choices: &Choices,
        tasks: &[usize],
        errors: f64,
    ) -> Option<Vec<f64>> {
        each_time(self, choices, tasks, |left| {
            last_end(
                self.predictor,
                choices,
                left.to_vec(),
                self.data.clone(),
                errors,
            )
        })
    }

    /// Seconds to target of each task where transfers count: what they lie between.
    fn played_times(&self, choices: &Choices) -> Option<Vec<Range>> {
        let round = self.round.as_ref()?;
        let all: Vec<usize> = (0..choices.batch.len()).collect();
        let range = |left: &[usize]| round.of(left).together(self.predictor, choices);
        let low = each_time(self, choices, &all, |left| Some(range(left)?.low))?;
        let high = each_time(self, choices, &all, |left| Some(range(left)?.high))?;
        let each = low.into_iter().zip(high);
        Some(each.map(|(low, high)| Range { low, high }).collect())
    }

    /// Seconds that the objective counts where rounds are played: what they lie between.
    pub fn played(&self, choices: &Choices) -> Option<Range> {
        let round = self.round_of_objective()?;
        if !self.is_progress() {
            return round.together(self.predictor, choices);
        }
        let times = self.played_times(choices)?;
        let of = |end: fn(&Range) -> f64| self.joined(&times.iter().map(end).collect::<Vec<_>>());
        Some(Range {
            low: of(|r| r.low),
            high: of(|r| r.high),
        })
    }

    /// The same with one task after another in each round.
    pub fn one_after_another(&self, choices: &Choices) -> Option<Range> {
        let alone = |i: usize| self.predictor.solo(i, choices.batch[i]);
        let serial = |left: &[usize]| match &self.round {
            Some(round) => {
                let solo: Vec<f64> = left.iter().map(|&i| alone(i)).collect();
                round.of(left).one_after_another(&solo)
            }
            None => {
                let seconds = left.iter().map(|&i| self.data[i] / alone(i)).sum();
                Range {
                    low: seconds,
                    high: seconds,
                }
            }
        };
        let end = |end: fn(Range) -> f64| {
            let mut times = vec![0.0; choices.batch.len()];
            for gpu in choices.gpus() {
                let tasks = choices.on(gpu);
                let own = each_time(self, choices, &tasks, |left| Some(end(serial(left))))?;
                for i in tasks {
                    times[i] = own[i];
                }
            }
            Some(self.joined(&times))
        };
        Some(Range {
            low: end(|r| r.low)?,
            high: end(|r| r.high)?,
        })
    }
}

/// Judges when a plan says that its tasks reach their targets.
pub fn judge(plan: &Feasible, frame: &Frame<'_>, chosen: &Choices, j: &mut Judge) {
    let Some(claimed) = &plan.target else {
        if frame.is_to_target() && plan.objective.value.is_finite() {
            j.lie("target", "nothing", "when the targets are reached");
        }
        return;
    };
    if !frame.is_to_target() {
        let kind = doc::name_of(&frame.kind);
        return j.lie("target", "times", format!("none of the objective {kind}"));
    }
    j.field("target", |j| {
        let together = claimed.together.get();
        j.number("together_s", together, -plan.objective.value);
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
                    return j.lie("tasks", "these tasks", "every task of the workload once");
                };
                let value = frame.evaluate(&own);
                if let Some(fault) = frame.broken(&own, &value, true) {
                    j.lie("tasks", "within the constraints", fault);
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
    let (low, high) = (claimed.together_low.get(), claimed.together_high);
    let high = high.map(Seconds::get);
    if frame.round.is_some() {
        if low > together {
            j.lie("together_low_s", low, "at most together_s");
        }
        if let Some(high) = high.filter(|high| *high < together) {
            j.lie("together_high_s", high, "at least together_s");
        }
        return j.unjudged(
            "together_low_s",
            "depends on the order, which mt-overlap gives",
        );
    }
    let at = |errors: f64| {
        let mut times = vec![0.0; chosen.batch.len()];
        for gpu in chosen.gpus() {
            let tasks = chosen.on(gpu);
            let own = frame.computed_times(chosen, &tasks, errors)?;
            for i in tasks {
                times[i] = own[i];
            }
        }
        Some(frame.joined(&times))
    };
    // Half width of a 95 % interval in standard errors.
    let least = at(1.96).unwrap_or(together).min(together);
    j.number("together_low_s", low, least);
    let most = at(-1.96).map(|high| high.max(together));
    j.optional_number("together_high_s", high, most);
}

fn tasks(
    claimed: &doc::Target,
    plan: &Feasible,
    frame: &Frame<'_>,
    chosen: &Choices,
    j: &mut Judge,
) {
    if claimed.tasks.len() != chosen.batch.len() {
        j.lie("tasks", claimed.tasks.len(), chosen.batch.len());
    }
    let played = frame.played_times(chosen);
    let value = frame.evaluate(chosen);
    let serial = plan.baselines.iter().find(|b| b.name == Scheme::Temporal);
    for (i, task) in frame.workload.tasks.iter().enumerate() {
        let Some(at) = claimed.tasks.iter().position(|t| t.id == task.id) else {
            j.lie("tasks", format!("nothing of {}", task.id), "its target");
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
    // The times of the tasks, each within what it may be, make the one of the plan.
    let mut times = vec![0.0; chosen.batch.len()];
    for one in &claimed.tasks {
        if let Some(i) = frame.workload.task_index(&one.id) {
            times[i] = one.seconds.get();
        }
    }
    j.number("together_s", claimed.together.get(), frame.joined(&times));
}
