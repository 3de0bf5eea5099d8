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
    let (low, high) = interval(rates, problem, parts, together);
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
    Ok(Some(Target {
        share: together < alone,
        together: seconds(together)?,
        together_low: seconds(low)?,
        together_high: high.map(seconds).transpose()?,
        one_after_another: seconds(alone)?,
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

/// 95 % interval of the time to target `together`; its upper end is absent if the interval of a rate includes 0.
///
/// The throughputs come from one model, so their errors are assumed to be fully correlated. The efficiency of each
/// task comes from its own training, so these errors are independent of each other and of the model's. The relative
/// deviations that each causes alone add in squares (propagation of errors, to first order).
fn interval<C: Throughput + ?Sized>(
    rates: &C,
    problem: &Problem,
    parts: &[Part],
    together: f64,
) -> (f64, Option<f64>) {
    let at = |deviations: f64, other: Option<(usize, &Law)>| {
        let times = each_time(rates, problem, parts, deviations, other)?;
        Some(problem.joined_times(&times))
    };
    // With holds, higher rates may make a round longer, so the interval must be made to include the mean.
    let low = at(INTERVAL, None).unwrap_or(together).min(together);
    let high = at(-INTERVAL, None).map(|high| high.max(together));
    let (mut below, mut above) = (0.0, 0.0);
    for (i, task) in problem.tasks.iter().enumerate() {
        let ends = task.progress.law.as_ref().and_then(Law::ends);
        // Which end of the noise scale is slower depends on whether the batch size is above or below the reference.
        let moved: Vec<f64> = ends
            .iter()
            .flatten()
            .filter_map(|law| at(0.0, Some((i, law))))
            .map(|time| (time / together).ln())
            .collect();
        let most = |sign: f64| moved.iter().map(|m| sign * m).fold(0.0, f64::max);
        below += most(-1.0).powi(2);
        above += most(1.0).powi(2);
    }
    // Without errors of efficiencies, the interval is exactly that of the rates.
    let joined = |end: f64, sign: f64, others: f64| match others > 0.0 {
        true => together * (sign * ((end / together).ln().powi(2) + others).sqrt()).exp(),
        false => end,
    };
    (
        joined(low, -1.0, below),
        high.map(|high| joined(high, 1.0, above)),
    )
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
