//! Times to target of a plan's tasks: as planned, and if the tasks train one after another.

use doc::{Baseline, Choice, FastestSamples, Target, TaskTarget, Workload};
use units::corun::{Setting, Throughput};

use super::schemes::Scheme;
use efficiency::Law;

use crate::error::AllocError;
use crate::problem::Problem;
use crate::quantities::seconds;
use crate::rates::Subset;
use crate::search::answer::Part;
use crate::tolerance::INTERVAL;

/// The times to target of a plan with the given `parts`, one for each GPU; `fastest` is the choice of the shortest
/// round. `None` if the objective is not a time to target, or a task makes no progress.
pub(crate) fn target<C: Throughput + ?Sized>(
    rates: &C,
    workload: &Workload,
    problem: &Problem,
    parts: &[Part],
    baselines: &[Baseline],
    fastest: Option<Vec<Setting>>,
) -> Result<Option<Target>, AllocError> {
    if !(problem.is_progress() && problem.is_timed()) {
        return Ok(None);
    }
    let serial = baselines
        .iter()
        .find(|b| b.name == Scheme::Temporal.in_document());
    let (Some(times), Some(serial)) = (each_time(rates, problem, parts, 0.0, None), serial) else {
        return Ok(None);
    };
    let together = problem.joined_times(&times);
    let errors = Errors::of(rates, problem, parts, together, serial);
    let (low, high) = errors.interval(together, errors.efficiencies);
    let mut tasks: Vec<(usize, TaskTarget)> = Vec::new();
    for part in parts {
        for (&i, setting) in part.members.iter().zip(&part.solution.settings) {
            let own = &problem.tasks[i].progress;
            let one = TaskTarget {
                id: workload.tasks[i].id.clone(),
                efficiency: own.efficiency(setting.batch),
                rounds: own.rounds_at(setting.batch),
                seconds: seconds(times[i])?,
                alone_batch: serial.tasks[i].batch,
            };
            tasks.push((i, one));
        }
    }
    tasks.sort_by_key(|(i, _)| *i);
    let fastest = fastest.and_then(|settings| {
        let length = |places: &[usize], s: &[Setting]| problem.round_of(rates, places, s, 0.0);
        let time = problem.seconds_to_target(&settings, length)?;
        Some((time, settings))
    });
    let choice = |s: &Setting| Choice {
        id: workload.tasks[s.task].id.clone(),
        batch: s.batch,
        share: s.share,
    };
    let alone = -serial.objective;
    if !alone.is_finite() {
        return Ok(None);
    }
    let gain = workload.has_table_intervals().then(|| {
        let (low, high) = errors.interval(together, errors.relative);
        [high.map_or(0.0, |high| alone / high), alone / low]
    });
    Ok(Some(Target {
        share: together < alone,
        together: seconds(together)?,
        together_low: seconds(low)?,
        together_high: high.map(seconds).transpose()?,
        one_after_another: seconds(alone)?,
        gain_interval: gain,
        fastest_samples: fastest
            .map(|(time, settings)| {
                seconds(time).map(|seconds| FastestSamples {
                    seconds,
                    tasks: settings.iter().map(choice).collect(),
                })
            })
            .transpose()?,
        tasks: tasks.into_iter().map(|(_, one)| one).collect(),
    }))
}

/// Errors of a time to target.
///
/// The throughputs come from one model, so their errors are assumed to be fully correlated. The efficiency of each
/// task comes from its own training, so these errors are independent of each other and of the model's. The relative
/// deviations that each causes alone add in squares (propagation of errors, to first order).
struct Errors {
    /// The time with all throughputs at the upper and at the lower end of their intervals; absent if the interval of a
    /// rate includes 0.
    by_rates: (f64, Option<f64>),
    /// Squares of the logarithms by which efficiencies may shorten and lengthen the time.
    efficiencies: [f64; 2],
    /// The same relative to the time of one task after another.
    ///
    /// A task that trains at the same batch size in both takes the same number of rounds there, so its error is left
    /// out: it lengthens or shortens both times. At two sizes both numbers may be wrong, independently; that of one
    /// after another changes its time by the ratio of the rounds at most.
    relative: [f64; 2],
}

impl Errors {
    fn of<C: Throughput + ?Sized>(
        rates: &C,
        problem: &Problem,
        parts: &[Part],
        together: f64,
        serial: &Baseline,
    ) -> Self {
        let at = |deviations: f64, other: Option<(usize, &Law)>| {
            let times = each_time(rates, problem, parts, deviations, other)?;
            Some(problem.joined_times(&times))
        };
        let mut chosen = vec![None; problem.tasks.len()];
        for part in parts {
            for (&i, setting) in part.members.iter().zip(&part.solution.settings) {
                chosen[i] = Some(setting.batch);
            }
        }
        let (mut efficiencies, mut relative) = ([0.0; 2], [0.0; 2]);
        for (i, task) in problem.tasks.iter().enumerate() {
            let Some(law) = &task.progress.law else {
                continue;
            };
            let Some(ends) = law.ends() else { continue };
            // Which end is slower depends on whether the batch size is above or below the reference.
            let moved = ends
                .each_ref()
                .map(|end| at(0.0, Some((i, end))).map_or(0.0, |time| (time / together).ln()));
            let alone = serial.tasks[i].batch;
            let other = ends
                .each_ref()
                .map(|end| (law.at(alone) / end.at(alone)).ln());
            let most =
                |of: [f64; 2], sign: f64| of.into_iter().map(|m| sign * m).fold(0.0, f64::max);
            for (k, sign) in [-1.0, 1.0].into_iter().enumerate() {
                let own = most(moved, sign).powi(2);
                efficiencies[k] += own;
                if chosen[i] != Some(alone) {
                    relative[k] += own + most(other, -sign).powi(2);
                }
            }
        }
        Self {
            // With holds, higher rates may make a round longer, so the interval must be made to include the mean.
            by_rates: (
                at(INTERVAL, None).unwrap_or(together).min(together),
                at(-INTERVAL, None).map(|high| high.max(together)),
            ),
            efficiencies,
            relative,
        }
    }

    /// 95 % interval of the time to target `together`, whose efficiencies have these errors.
    fn interval(&self, together: f64, others: [f64; 2]) -> (f64, Option<f64>) {
        // Without errors of efficiencies, the interval is exactly that of the rates.
        let joined = |end: f64, sign: f64, others: f64| match others > 0.0 {
            true => together * (sign * ((end / together).ln().powi(2) + others).sqrt()).exp(),
            false => end,
        };
        let (low, high) = self.by_rates;
        let high = high.map(|high| joined(high, 1.0, others[1]));
        (joined(low, -1.0, others[0]), high)
    }
}

/// Seconds until each task reaches its target, with rates `deviations` standard deviations above their means.
/// `other` replaces the efficiency law of one task.
fn each_time<C: Throughput + ?Sized>(
    rates: &C,
    problem: &Problem,
    parts: &[Part],
    deviations: f64,
    other: Option<(usize, &Law)>,
) -> Option<Vec<f64>> {
    let mut times = vec![0.0; problem.tasks.len()];
    for part in parts {
        let subset = Subset::new(rates, &part.members);
        let mut own = part.problem.clone();
        if let Some((task, law)) = other
            && let Some(place) = part.members.iter().position(|&i| i == task)
        {
            own.tasks[place].progress.law = Some(law.clone());
        }
        let mut length =
            |places: &[usize], s: &[Setting]| own.round_of(&subset, places, s, deviations);
        let each = own.times_to_target(&part.solution.settings, &mut length)?;
        for (&i, time) in part.members.iter().zip(each) {
            times[i] = time;
        }
    }
    Some(times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_rates_and_of_rounds_add_in_squares() {
        let e = std::f64::consts::E;
        let errors = Errors {
            by_rates: (10.0 / e.powi(3), Some(10.0 * e.powi(3))),
            efficiencies: [16.0, 0.0],
            relative: [0.0, 16.0],
        };
        let (low, high) = errors.interval(10.0, errors.efficiencies);
        assert!((low * e.powi(5) / 10.0 - 1.0).abs() < 1e-12, "{low}");
        assert_eq!(high, errors.by_rates.1);
        let (low, high) = errors.interval(10.0, errors.relative);
        assert_eq!(low, errors.by_rates.0);
        assert!(
            (high.unwrap() / e.powi(5) / 10.0 - 1.0).abs() < 1e-12,
            "{high:?}"
        );
    }
}
